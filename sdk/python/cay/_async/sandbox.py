"""A sandbox that lives on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union

from .._options import request_of
from .._result import Event, SandboxResult
from .client import AsyncClient, quote
from .context import AsyncContext
from .files import AsyncFiles
from .runs import AsyncEvents, AsyncRun
from .terminal import AsyncTerminal

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import CodeOptions, CommandOptions, SandboxOptions


class AsyncSandbox:
    """Files, packages and processes stay from one program to the next, until kill() or its time is over.

    As a context manager it is ended at the end of the block, if it was made and not connected to.
    """

    def __init__(self, client: AsyncClient, info: Dict[str, Any], made: bool = False) -> None:
        self.client, self.info, self._made = client, info, made
        self.files = AsyncFiles(client, self._path)

    @classmethod
    async def create(cls, *, client: Optional[AsyncClient] = None, **options: Unpack[SandboxOptions]) -> AsyncSandbox:
        client = client or AsyncClient()
        return cls(client, await client.call("POST", "/v1/sandboxes", request_of(options)), made=True)

    @classmethod
    async def connect(cls, id: str, *, client: Optional[AsyncClient] = None) -> AsyncSandbox:
        """One that is there, by its id or the name of one's own."""
        client = client or AsyncClient()
        return cls(client, await client.call("GET", f"/v1/sandboxes/{quote(id)}"))

    @classmethod
    async def list(cls, *, client: Optional[AsyncClient] = None) -> List[AsyncSandbox]:
        client = client or AsyncClient()
        answer = await client.call("GET", "/v1/sandboxes")
        return [cls(client, info) for info in answer["sandboxes"]]

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._made:
            await self.kill()

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

    async def run_code(self, code: str, *, check: bool = False, raise_errors: bool = True,
                       deadline: Optional[float] = None, **options: Unpack[CommandOptions]) -> SandboxResult:
        """Runs code; with context="main" in an interpreter of that name, which remembers."""
        return await self.client._run(f"{self._path}/runs", request_of(options, code), check, raise_errors, deadline)

    async def run_command(self, command: Union[str, Sequence[str]], *, check: bool = False, raise_errors: bool = True,
                          deadline: Optional[float] = None, **options: Unpack[CodeOptions]) -> SandboxResult:
        """Runs a line for sh, or a list of words as they are."""
        request = request_of({**options, "command" if isinstance(command, str) else "argv": command})
        return await self.client._run(f"{self._path}/runs", request, check, raise_errors, deadline)

    def stream(self, code: Optional[str] = None, *, deadline: Optional[float] = None,
               **options: Unpack[CommandOptions]) -> AsyncEvents:
        """As run_code(), or with command=, what it prints and shows as it comes."""
        return AsyncEvents(self.client, "POST", f"{self._path}/runs", request_of(options, code), deadline)

    async def start(self, code: Optional[str] = None, **options: Unpack[CommandOptions]) -> AsyncRun:
        """In the background."""
        return await self.client._start(f"{self._path}/runs", request_of(options, code))

    def context(self, name: str = "main") -> AsyncContext:
        """An interpreter that remembers; it is started for its first code."""
        return AsyncContext(self.client, self._path, name)

    async def contexts(self) -> List[Dict[str, Any]]:
        answer = await self.client.call("GET", f"{self._path}/contexts")
        found: List[Dict[str, Any]] = answer["contexts"]
        return found

    async def terminal(self, command: Optional[str] = None, *, cols: int = 80, rows: int = 24,
                       term: Optional[str] = None, terminal: Optional[str] = None) -> AsyncTerminal:
        """A program on a terminal, without command a shell; or one that is there already, by its id."""
        return await AsyncTerminal.open(self.client, f"{self._path}/terminal", {
            "command": command, "cols": cols, "rows": rows, "term": term, "terminal": terminal})

    async def logs(self, *, run: Optional[str] = None) -> List[Event]:
        """The last of what its programs printed."""
        answer = await self.client.call("GET", f"{self._path}/logs", query={"run": run})
        return [Event(entry["stream"], entry) for entry in answer["logs"]]

    def follow_logs(self, *, run: Optional[str] = None) -> AsyncEvents:
        """What is there, then what comes; "end" is the last one, or "lost" for who can't keep up."""
        return AsyncEvents(self.client, "GET", f"{self._path}/logs", None, query={"run": run, "follow": True},
                           last="end")

    async def workspace_diff(self) -> Dict[str, Any]:
        """What was changed in a workspace that is an overlay (workspace="SRC:overlay")."""
        found: Dict[str, Any] = await self.client.call("GET", f"{self._path}/workspace/diff")
        return found

    async def workspace_read(self, path: str) -> bytes:
        """A changed file of it."""
        exchange = await self.client._ask("GET", f"{self._path}/workspace/files", query={"path": path})
        try:
            return await exchange.all()
        finally:
            await exchange.close()

    # Its life

    async def refresh(self) -> AsyncSandbox:
        self.info = await self.client.call("GET", self._path)
        return self

    async def update(self, *, labels: Optional[Mapping[str, str]] = None, ttl: Union[float, str, None] = None,
                     idle_timeout: Union[float, str, None] = None, allow: Optional[Sequence[str]] = None,
                     block: Optional[Sequence[str]] = None, extra: Optional[Mapping[str, Any]] = None) -> AsyncSandbox:
        """New labels and rules take the place of the old ones; a time to live counts from now."""
        fields = request_of({"labels": labels, "ttl": ttl, "idle_timeout": idle_timeout, "allow": allow,
                             "block": block, "extra": extra or {}})
        self.info = await self.client.call("PATCH", self._path, fields)
        return self

    async def pause(self) -> AsyncSandbox:
        self.info = await self.client.call("POST", f"{self._path}/pause")
        return self

    async def resume(self) -> AsyncSandbox:
        self.info = await self.client.call("POST", f"{self._path}/resume")
        return self

    async def kill(self) -> None:
        """Ends it, with all that runs there."""
        await self.client.call("DELETE", self._path)
        self.info = {**self.info, "state": "gone"}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or self.id} {self.state}>"
