"""What can be asked for, as keywords, and how that becomes a request. Fields are api/openapi.yaml's."""

from __future__ import annotations

import base64
import os
import pathlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import SandboxError

if TYPE_CHECKING:
    from typing import TypedDict

    Size = Union[int, str]  # bytes, or "512m"
    Span = Union[int, float, str]  # seconds, or "5m"
    Contents = Union[str, bytes, "os.PathLike[str]"]  # a path: the file of that name here

    class _Common(TypedDict, total=False):
        language: str
        version: str
        env: Mapping[str, str]
        workdir: str
        files: Union[Mapping[str, Contents], Sequence[Mapping[str, Any]]]
        labels: Mapping[str, str]
        limits: Mapping[str, Any]
        timeout: Span
        output: Size
        idempotency_key: str
        extra: Mapping[str, Any]  # fields that this version does not know

    class _Island(TypedDict, total=False):
        memory: Size
        cpus: Union[int, float, str]
        pids: int
        disk: Size
        cpu_time: Span
        open_files: int
        file_size: Size
        network: Union[str, Mapping[str, Any]]
        allow: Sequence[str]
        block: Sequence[str]
        mounts: Sequence[Union[str, Mapping[str, str]]]
        workspace: Union[str, "os.PathLike[str]", Mapping[str, str]]
        engine: str
        image: str
        writable: bool
        user: str
        mode: str
        tier: str
        trusted: bool
        scope: str
        cold: bool
        allow_degraded: bool

    class CodeOptions(_Common, total=False):
        """Of a program in a sandbox that is there already; what it is has a name of its own."""

        file: str
        filename: str
        args: Sequence[str]
        stdin: Union[str, bytes]
        get: Union[str, Sequence[str]]
        wait: Span
        context: str
        rich: bool

    class CommandOptions(CodeOptions, total=False):
        """The same, with all ways to say what it is."""

        command: str
        argv: Sequence[str]

    class RunOptions(CommandOptions, _Island, total=False):
        """Of a program on an island of its own."""

    class SandboxOptions(_Common, _Island, total=False):
        """Of a new sandbox."""

        name: str
        ttl: Span
        idle_timeout: Span
        persistent: bool

LIMITS = ("memory", "cpus", "pids", "disk", "timeout", "cpu_time", "output", "open_files", "file_size")


def _invalid(message: str) -> SandboxError:
    return SandboxError(message, code="invalid_request")


def _contents(value: Any) -> Dict[str, Any]:
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"data": base64.b64encode(value).decode()}
    if isinstance(value, os.PathLike):
        path = pathlib.Path(value)
        data: Dict[str, Any] = {"data": base64.b64encode(path.read_bytes()).decode()}
        if os.access(path, os.X_OK):
            data["executable"] = True
        return data
    raise TypeError(f"a file's contents are str, bytes or a path, not {type(value).__name__}")


def _files(value: Any) -> List[Any]:
    if isinstance(value, Mapping):
        return [{"path": os.fspath(path), **_contents(what)} for path, what in value.items()]
    return list(value)


def _host_path(path: Any) -> str:
    return str(os.path.abspath(os.path.expanduser(os.fspath(path))))


def _split_access(text: str) -> Tuple[str, str]:
    head, _, access = text.rpartition(":")
    return (head, access) if head and access in ("ro", "rw", "overlay") else (text, "ro")


def mount_of(value: Any) -> Dict[str, Any]:
    """SRC:DEST[:ro|rw], as the command line has it, or the API's object."""
    if isinstance(value, Mapping):
        return {**value, "source": _host_path(value["source"])}
    rest, access = _split_access(value)
    source, _, target = rest.rpartition(":")
    if not source:
        raise _invalid(f"a mount is SRC:DEST[:ro|rw], not '{value}'")
    return {"source": _host_path(source), "target": target, "access": access}


def _workspace(value: Any) -> Dict[str, Any]:
    if isinstance(value, Mapping):  # one that is kept has a name and no source
        return {**value, "source": _host_path(value["source"])} if "source" in value else dict(value)
    source, access = _split_access(os.fspath(value))
    return {"source": _host_path(source), "access": access}


def _list(value: Any) -> List[Any]:
    return [value] if isinstance(value, str) else list(value)


_CONVERT: Dict[str, Callable[[Any], Any]] = {
    "files": _files,
    "mounts": lambda value: [mount_of(one) for one in _list(value)],
    "workspace": _workspace,
    "get": _list,
    "argv": _list,
    "args": lambda value: [os.fspath(one) if isinstance(one, os.PathLike) else str(one) for one in _list(value)],
    "env": lambda value: {str(name): str(one) for name, one in value.items()},
    "labels": dict,
}


def _network(fields: Dict[str, Any]) -> None:
    network = fields.pop("network", None)
    rules: Dict[str, Any] = {"mode": network} if isinstance(network, str) else dict(network or {})
    for name in ("allow", "block"):
        if name in fields:
            rules[name] = _list(fields.pop(name))
    if rules:
        fields["network"] = rules


def request_of(options: Mapping[str, Any], code: Optional[str] = None) -> Dict[str, Any]:
    """The request. None means not said; what is not known here goes on as it is, for the daemon to judge."""
    fields = {name: value for name, value in options.items() if value is not None}
    extra = fields.pop("extra", {})
    if code is not None:
        fields["code"] = code
    limits = {**fields.pop("limits", {}), **{name: fields.pop(name) for name in LIMITS if name in fields}}
    if limits:
        fields["limits"] = limits
    _network(fields)
    stdin = fields.get("stdin")
    if isinstance(stdin, (bytes, bytearray)):
        del fields["stdin"]
        fields["stdin_base64"] = base64.b64encode(stdin).decode()
    for name, convert in _CONVERT.items():
        if name in fields:
            fields[name] = convert(fields[name])
    return {**fields, **extra}
