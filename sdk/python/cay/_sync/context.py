"""An interpreter of a sandbox that remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional

from .._options import request_of
from .._result import SandboxResult
from .client import Client, quote
from .runs import Events

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import CommandOptions


class Context:
    """Code finds what the one before it left. Of python, javascript or bash: its first code decides."""

    def __init__(self, client: Client, sandbox: str, name: str) -> None:
        self.client, self.name, self._sandbox = client, name, sandbox
        self._path = f"{sandbox}/contexts/{quote(name)}"

    def run(self, code: str, *, check: bool = False, raise_errors: bool = True,
                  deadline: Optional[float] = None, **options: Unpack[CommandOptions]) -> SandboxResult:
        """Its results are what the code showed, last the value of the last expression."""
        request = {**request_of(options, code), "context": self.name}
        return self.client._run(f"{self._sandbox}/runs", request, check, raise_errors, deadline)

    def stream(self, code: str, *, deadline: Optional[float] = None,
               **options: Unpack[CommandOptions]) -> Events:
        request = {**request_of(options, code), "context": self.name}
        return Events(self.client, "POST", f"{self._sandbox}/runs", request, deadline)

    def info(self) -> Dict[str, Any]:
        found: Dict[str, Any] = self.client.call("GET", self._path)
        return found

    def interrupt(self) -> None:
        """As Ctrl-C: the code ends, and what is remembered stays."""
        self.client.call("POST", f"{self._path}/interrupt")

    def answer(self, text: str) -> None:
        """One line for the input() that waits."""
        self.client.call("POST", f"{self._path}/input", {"text": text})

    def restart(self) -> None:
        self.client.call("POST", f"{self._path}/restart")

    def delete(self) -> None:
        self.client.call("DELETE", self._path)
