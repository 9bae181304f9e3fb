"""What comes back: results, the things that code showed, events, files."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ._errors import SandboxError, error_of_result

# What a notebook shows of a bundle by itself. HTML, SVG, JavaScript and their like are left out: they come
# from code that nobody has read, and a notebook would run their scripts beside its own kernel.
HARMLESS = ("text/plain", "image/png", "image/jpeg", "image/gif", "image/webp", "application/json")


class Bundle(Dict[str, Any]):
    """One thing that code showed, by MIME types; bytes are base64. Shows itself in a notebook."""

    _types: Optional[Tuple[str, ...]] = HARMLESS

    @property
    def text(self) -> str:
        return str(self.get("text/plain", ""))

    def data(self, mime: str) -> bytes:
        """The bytes of a type that is bytes, as image/png, or a text's."""
        value = self[mime]
        if not isinstance(value, str):
            raise ValueError(f"{mime} is JSON")
        binary = mime != "image/svg+xml" and not mime.startswith("text/") and mime != "application/javascript"
        return base64.b64decode(value) if binary else value.encode()

    def trust(self) -> Bundle:
        """The same, shown in a notebook with its HTML, SVG and scripts, which can do there what you can."""
        trusted = Bundle(self)
        trusted._types = None
        return trusted

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        return {mime: value for mime, value in self.items()
                if (self._types is None or mime in self._types)
                and (not include or mime in include) and mime not in (exclude or ())}

    def __repr__(self) -> str:
        return self.text or f"<{', '.join(self)}>"


@dataclasses.dataclass(frozen=True)
class OutputFile:
    """A file that came with a result."""

    path: str
    data: bytes = dataclasses.field(repr=False)

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def text(self) -> str:
        return self.data.decode()


@dataclasses.dataclass(frozen=True)
class FileEntry:
    """What is at a path of a sandbox."""

    path: str
    name: str
    type: str
    size: int
    mode: str
    mtime: float
    target: Optional[str] = None

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> FileEntry:
        return cls(**{f.name: raw.get(f.name) for f in dataclasses.fields(cls)})  # type: ignore[arg-type]

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"


@dataclasses.dataclass(frozen=True)
class SandboxResult:
    """How a program ended, and what it printed and showed. raw is all that the daemon said."""

    success: bool
    status: str
    message: str = ""
    stdout: str = ""
    stderr: str = ""
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    timed_out: bool = False
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    results: List[Bundle] = dataclasses.field(default_factory=list)
    files: List[OutputFile] = dataclasses.field(default_factory=list)
    exception: Optional[Dict[str, str]] = None
    notes: List[str] = dataclasses.field(default_factory=list)
    context: Optional[str] = None
    state_lost: bool = False
    compile: Optional[Dict[str, Any]] = None
    usage: Dict[str, Any] = dataclasses.field(default_factory=dict)
    egress: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    egress_unlisted: int = 0
    isolation: Optional[Dict[str, Any]] = None
    id: Optional[str] = None
    engine: Optional[str] = None
    engine_reason: Optional[str] = None
    start: Optional[str] = None
    image: Optional[str] = None
    language: Optional[str] = None
    version: Optional[str] = None
    network: Optional[str] = None
    network_rules: Optional[Dict[str, Any]] = None
    policy: Optional[Dict[str, Any]] = None
    sandboxed: Optional[bool] = None
    sandbox: Optional[str] = None
    error: Optional[SandboxError] = None  # with raise_errors=False: what cay could not do
    raw: Dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, raw: Any) -> SandboxResult:
        try:
            return cls._of(raw)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise SandboxError("the daemon's answer makes no sense: it is no result") from None

    @classmethod
    def _of(cls, raw: Dict[str, Any]) -> SandboxResult:
        known = {f.name for f in dataclasses.fields(cls)} - {"error", "raw"}
        fields = {name: value for name, value in raw.items() if name in known}
        fields["results"] = [Bundle(bundle) for bundle in raw.get("results") or []]
        fields["files"] = [OutputFile(f["path"], base64.b64decode(f["data"])) for f in raw.get("files") or []]
        return cls(raw=raw, **fields)

    @classmethod
    def of_error(cls, error: SandboxError) -> SandboxResult:
        return cls(success=False, status="error", message=str(error), error=error, sandboxed=None)

    @property
    def stdout_bytes(self) -> bytes:
        return self._bytes("stdout")

    @property
    def stderr_bytes(self) -> bytes:
        return self._bytes("stderr")

    def _bytes(self, name: str) -> bytes:
        exact = self.raw.get(f"{name}_base64")
        return base64.b64decode(exact) if exact is not None else str(getattr(self, name)).encode()

    @property
    def text(self) -> str:
        """The value of the last expression, where code ran in a context or with rich."""
        return self.results[-1].text if self.results else ""

    def check(self) -> SandboxResult:
        """Itself, or an exception if the program did not end well."""
        if self.error:
            raise self.error
        if not self.success:
            raise error_of_result(self)
        return self

    def __bool__(self) -> bool:
        return self.success

    def __str__(self) -> str:
        """For people and models: what was printed and shown, and how it ended if not well."""
        parts = [self.stdout, *(bundle.text for bundle in self.results), self.stderr]
        if self.exception and self.exception.get("traceback"):
            parts.append(self.exception["traceback"])
        if not self.success:
            parts.append(f"[{self.message or self.status}]")
        return "\n".join(part.rstrip("\n") for part in parts if part)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        shown = self.results[-1]._repr_mimebundle_(include, exclude) if self.results else {}
        return {**shown, "text/plain": str(self)}


@dataclasses.dataclass(frozen=True)
class Event:
    """What happened: name is queued, start, stdout, stderr, display, note, input or result."""

    name: str
    data: Dict[str, Any]

    @property
    def binary(self) -> bytes:
        """Of output."""
        if "base64" in self.data:
            return base64.b64decode(self.data["base64"])
        return str(self.data.get("text", "")).encode()

    @property
    def text(self) -> str:
        """Of output and notes; bytes that are no UTF-8 are U+FFFD."""
        return self.binary.decode(errors="replace")

    @property
    def bundle(self) -> Bundle:
        """Of display."""
        return Bundle(self.data)

    @property
    def result(self) -> Optional[SandboxResult]:
        """Of result, which is the last one."""
        return SandboxResult.of(self.data) if self.name == "result" else None
