"""An interpreter of a sandbox that remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional

from .._options import request_of
from .._result import SandboxResult
from .client import AsyncClient, quote
from .runs import AsyncEvents

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import CommandOptions


class AsyncContext:
    """Code finds what the one before it left. Of python, javascript or bash: its first code decides."""

    def __init__(self, client: AsyncClient, sandbox: str, name: str) -> None:
        self.client, self.name, self._sandbox = client, name, sandbox
        self._path = f"{sandbox}/contexts/{quote(name)}"

    async def run(self, code: str, *, check: bool = False, raise_errors: bool = True,
                  deadline: Optional[float] = None, **options: Unpack[CommandOptions]) -> SandboxResult:
        """Its results are what the code showed, last the value of the last expression."""
        request = {**request_of(options, code), "context": self.name}
        return await self.client._run(f"{self._sandbox}/runs", request, check, raise_errors, deadline)

    def stream(self, code: str, *, deadline: Optional[float] = None,
               **options: Unpack[CommandOptions]) -> AsyncEvents:
        request = {**request_of(options, code), "context": self.name}
        return AsyncEvents(self.client, "POST", f"{self._sandbox}/runs", request, deadline)

    async def info(self) -> Dict[str, Any]:
        found: Dict[str, Any] = await self.client.call("GET", self._path)
        return found

    async def interrupt(self) -> None:
        """As Ctrl-C: the code ends, and what is remembered stays."""
        await self.client.call("POST", f"{self._path}/interrupt")

    async def answer(self, text: str) -> None:
        """One line for the input() that waits."""
        await self.client.call("POST", f"{self._path}/input", {"text": text})

    async def restart(self) -> None:
        await self.client.call("POST", f"{self._path}/restart")

    async def delete(self) -> None:
        await self.client.call("DELETE", self._path)
