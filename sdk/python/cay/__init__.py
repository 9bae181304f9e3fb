"""Code that nobody has read yet, run on an island of its own.

    import cay

    print(cay.run("print(6 * 7)"))

    with cay.Sandbox.create() as sandbox:
        sandbox.run_code("x = 20", context="main")
        sandbox.run_code("x + 22", context="main").text
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, Mapping, Optional, Tuple, Union

from ._async.client import AsyncClient
from ._async.context import AsyncContext
from ._async.files import AsyncFiles
from ._async.runs import AsyncEvents, AsyncRun
from ._async.sandbox import AsyncSandbox
from ._async.terminal import AsyncTerminal
from ._errors import (SandboxError, SandboxNotFoundError, SandboxPolicyError, SandboxResourceError,
                      SandboxTimeoutError)
from ._result import Bundle, Event, FileEntry, OutputFile, SandboxResult
from ._sync.client import Client
from ._sync.context import Context
from ._sync.files import Files
from ._sync.runs import Events, Run
from ._sync.sandbox import Sandbox
from ._sync.terminal import Terminal

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import RunOptions

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "AsyncContext", "AsyncEvents", "AsyncFiles", "AsyncRun", "AsyncSandbox", "AsyncTerminal", "Bundle",
    "Client", "Context", "Event", "Events", "FileEntry", "Files", "OutputFile", "Run", "Sandbox", "SandboxError",
    "SandboxNotFoundError", "SandboxPolicyError", "SandboxResourceError", "SandboxResult", "SandboxTimeoutError",
    "Terminal", "arun", "batch", "run", "start", "stream", "validate_mount",
]


def run(code: Optional[str] = None, *, check: bool = False, raise_errors: bool = True,
        deadline: Optional[float] = None, **options: Unpack[RunOptions]) -> SandboxResult:
    """Client().run(): runs a program on an island of its own, and waits for its end."""
    return Client().run(code, check=check, raise_errors=raise_errors, deadline=deadline, **options)


async def arun(code: Optional[str] = None, *, check: bool = False, raise_errors: bool = True,
               deadline: Optional[float] = None, **options: Unpack[RunOptions]) -> SandboxResult:
    """AsyncClient().run(): the same with await."""
    return await AsyncClient().run(code, check=check, raise_errors=raise_errors, deadline=deadline, **options)


def stream(code: Optional[str] = None, *, deadline: Optional[float] = None, **options: Unpack[RunOptions]) -> Events:
    """Client().stream(): the same, with what it prints as it comes."""
    return Client().stream(code, deadline=deadline, **options)


def start(code: Optional[str] = None, **options: Unpack[RunOptions]) -> Run:
    """Client().start(): in the background."""
    return Client().start(code, **options)


def batch(runs: Iterable[Union[str, Mapping[str, Any]]], *, parallel: Optional[int] = None
          ) -> Iterator[Tuple[int, Union[SandboxResult, SandboxError]]]:
    """Client().batch(): many, as they end, with their index."""
    return Client().batch(runs, parallel=parallel)


def validate_mount(source: Any, target: str = "/data", access: str = "ro") -> Dict[str, Any]:
    """Client().validate_mount(): SandboxPolicyError where the operator does not allow it."""
    return Client().validate_mount(source, target, access)
