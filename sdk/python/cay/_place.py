"""Where the daemon is: CAY_HOST, else the default socket; just as the command line finds it."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Dict, Optional

from ._errors import SandboxError

CONNECT_SECONDS = 10.0
_PATH_MAX = 107  # bytes of a socket's path, as the kernel has it
_TCP = re.compile(r"(?:\[([0-9a-fA-F:.]{1,255})\]|([A-Za-z0-9._-]{1,255})):([0-9]{1,5})/?")


@dataclasses.dataclass(frozen=True)
class Place:
    named: bool  # by CAY_HOST or the caller; else it is the default socket
    path: Optional[str] = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path is not None:
            return self.path
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

    @property
    def header(self) -> str:
        return "localhost" if self.path is not None else str(self)[len("http://"):]

    def nobody(self, why: object = None) -> SandboxError:
        hint = ("CAY_HOST says it would be there; `cay serve` is the daemon" if self.named
                else "start one: cay serve; or say where it is: CAY_HOST")
        return SandboxError(f"no daemon at {self}" + (f": {why}" if why else ""), code="engine_unavailable", hint=hint)


def _socket(path: str, named: bool) -> Place:
    if len(os.fsencode(path)) > _PATH_MAX:
        raise SandboxError(f"the socket's path is longer than the kernel's {_PATH_MAX} bytes: {path[:128]}",
                           code="invalid_request")
    return Place(named, path=path)


def parse_place(text: str) -> Place:
    """unix:PATH with an absolute path, or http://HOST:PORT."""
    if text.startswith("unix:"):
        path = text[5:]
        if path.startswith("///"):  # as docker writes it
            path = path[2:]
        if path.startswith("/") and len(path) > 1:
            return _socket(path, True)
    elif text.startswith("https://"):
        raise SandboxError("CAY_HOST: https is not supported yet", code="unsupported",
                           hint="http://HOST:PORT, through a tunnel if it is another machine")
    elif text.startswith("http://"):
        found = _TCP.fullmatch(text[7:])
        if found and 1 <= int(found[3]) <= 65535:
            return Place(True, host=found[1] or found[2], port=int(found[3]))
    raise SandboxError(f"CAY_HOST can't be '{text[:128]}'", code="invalid_request",
                       hint="unix:PATH with an absolute path, or http://HOST:PORT")


def find_place(host: Optional[str] = None) -> Place:
    named = host or os.environ.get("CAY_HOST")
    if named:
        return parse_place(named)
    if os.geteuid() == 0:
        return _socket("/run/cay/cay.sock", False)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not runtime.startswith("/"):
        raise SandboxError("XDG_RUNTIME_DIR is not set", code="invalid_request",
                           hint="say where the socket is: CAY_HOST=unix:PATH")
    return _socket(f"{runtime}/cay.sock", False)


def key_header(key: Optional[str]) -> Dict[str, str]:
    key = key or os.environ.get("CAY_API_KEY")
    if not key:
        return {}
    if not re.fullmatch(r"[!-~]{1,256}", key):
        raise SandboxError("CAY_API_KEY can't be a key", code="invalid_request")
    return {"Authorization": f"Bearer {key}"}
