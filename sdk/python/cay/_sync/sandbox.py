"""A sandbox that lives on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union

from .._options import request_of
from .._result import Event, SandboxResult
from .client import Client, quote
from .context import Context
from .files import Files
from .runs import Events, Run
from .terminal import Terminal

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import CodeOptions, CommandOptions, SandboxOptions


class Sandbox:
    """Files, packages and processes stay from one program to the next, until kill() or its time is over.

    As a context manager it is ended at the end of the block, if it was made and not connected to.
    """

    def __init__(self, client: Client, info: Dict[str, Any], made: bool = False) -> None:
        self.client, self.info, self._made = client, info, made
        self.files = Files(client, self._path)

    @classmethod
    def create(cls, *, client: Optional[Client] = None, **options: Unpack[SandboxOptions]) -> Sandbox:
        client = client or Client()
        return cls(client, client.call("POST", "/v1/sandboxes", request_of(options)), made=True)

    @classmethod
    def connect(cls, id: str, *, client: Optional[Client] = None) -> Sandbox:
        """One that is there, by its id or the name of one's own."""
        client = client or Client()
        return cls(client, client.call("GET", f"/v1/sandboxes/{quote(id)}"))

    @classmethod
    def list(cls, *, client: Optional[Client] = None) -> List[Sandbox]:
        client = client or Client()
        answer = client.call("GET", "/v1/sandboxes")
        return [cls(client, info) for info in answer["sandboxes"]]

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        if self._made:
            self.kill()

    @property
    def id(self) -> str:
        return str(self.info["id"])

    @property
    def name(self) -> Optional[str]:
        name: Optional[str] = self.info["name"]
        return name

    @property
    def state(self) -> str:
        """When it was last looked at: live, paused, stopped, unusable, lost or gone."""
        return str(self.info["state"])

    @property
    def _path(self) -> str:
        return f"/v1/sandboxes/{self.id}"

    # Programs

    def run_code(self, code: str, *, check: bool = False, raise_errors: bool = True,
                       deadline: Optional[float] = None, **options: Unpack[CommandOptions]) -> SandboxResult:
        """Runs code; with context="main" in an interpreter of that name, which remembers."""
        return self.client._run(f"{self._path}/runs", request_of(options, code), check, raise_errors, deadline)

    def run_command(self, command: Union[str, Sequence[str]], *, check: bool = False, raise_errors: bool = True,
                          deadline: Optional[float] = None, **options: Unpack[CodeOptions]) -> SandboxResult:
        """Runs a line for sh, or a list of words as they are."""
        request = request_of({**options, "command" if isinstance(command, str) else "argv": command})
        return self.client._run(f"{self._path}/runs", request, check, raise_errors, deadline)

    def stream(self, code: Optional[str] = None, *, deadline: Optional[float] = None,
               **options: Unpack[CommandOptions]) -> Events:
        """As run_code(), or with command=, what it prints and shows as it comes."""
        return Events(self.client, "POST", f"{self._path}/runs", request_of(options, code), deadline)

    def start(self, code: Optional[str] = None, **options: Unpack[CommandOptions]) -> Run:
        """In the background."""
        return self.client._start(f"{self._path}/runs", request_of(options, code))

    def context(self, name: str = "main") -> Context:
        """An interpreter that remembers; it is started for its first code."""
        return Context(self.client, self._path, name)

    def contexts(self) -> List[Dict[str, Any]]:
        answer = self.client.call("GET", f"{self._path}/contexts")
        found: List[Dict[str, Any]] = answer["contexts"]
        return found

    def terminal(self, command: Optional[str] = None, *, cols: int = 80, rows: int = 24,
                       term: Optional[str] = None, terminal: Optional[str] = None) -> Terminal:
        """A program on a terminal, without command a shell; or one that is there already, by its id."""
        return Terminal.open(self.client, f"{self._path}/terminal", {
            "command": command, "cols": cols, "rows": rows, "term": term, "terminal": terminal})

    def logs(self, *, run: Optional[str] = None) -> List[Event]:
        """The last of what its programs printed."""
        answer = self.client.call("GET", f"{self._path}/logs", query={"run": run})
        return [Event(entry["stream"], entry) for entry in answer["logs"]]

    def follow_logs(self, *, run: Optional[str] = None) -> Events:
        """What is there, then what comes; "end" is the last one, or "lost" for who can't keep up."""
        return Events(self.client, "GET", f"{self._path}/logs", None, query={"run": run, "follow": True},
                           last="end")

    def workspace_diff(self) -> Dict[str, Any]:
        """What was changed in a workspace that is an overlay (workspace="SRC:overlay")."""
        found: Dict[str, Any] = self.client.call("GET", f"{self._path}/workspace/diff")
        return found

    def workspace_read(self, path: str) -> bytes:
        """A changed file of it."""
        exchange = self.client._ask("GET", f"{self._path}/workspace/files", query={"path": path})
        try:
            return exchange.all()
        finally:
            exchange.close()

    # Its life

    def refresh(self) -> Sandbox:
        self.info = self.client.call("GET", self._path)
        return self

    def update(self, *, labels: Optional[Mapping[str, str]] = None, ttl: Union[float, str, None] = None,
                     idle_timeout: Union[float, str, None] = None, allow: Optional[Sequence[str]] = None,
                     block: Optional[Sequence[str]] = None, extra: Optional[Mapping[str, Any]] = None) -> Sandbox:
        """New labels and rules take the place of the old ones; a time to live counts from now."""
        fields = request_of({"labels": labels, "ttl": ttl, "idle_timeout": idle_timeout, "allow": allow,
                             "block": block, "extra": extra or {}})
        self.info = self.client.call("PATCH", self._path, fields)
        return self

    def pause(self) -> Sandbox:
        self.info = self.client.call("POST", f"{self._path}/pause")
        return self

    def resume(self) -> Sandbox:
        self.info = self.client.call("POST", f"{self._path}/resume")
        return self

    def kill(self) -> None:
        """Ends it, with all that runs there."""
        self.client.call("DELETE", self._path)
        self.info = {**self.info, "state": "gone"}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or self.id} {self.state}>"
