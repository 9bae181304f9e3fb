"""With no daemon: a request as words for the `cay` program that came with this package, or is installed."""

from __future__ import annotations

import base64
import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, NoReturn, Optional, Tuple

from ._errors import SandboxError, error_of
from ._wire import parse_json

_OPTIONS = {"image": "--image", "engine": "--engine", "user": "--user", "workdir": "--workdir"}
_SWITCHES = {"writable": "--writable", "cold": "--cold", "allow_degraded": "--allow-degraded",
             "dry_run": "--dry-run"}
_LIMITS = {"memory": "--memory", "cpus": "--cpus", "pids": "--pids-limit", "disk": "--disk",
           "timeout": "--timeout", "cpu_time": "--cpu-time", "output": "--output-limit"}
_PACKAGED = pathlib.Path(__file__).with_name("bin") / "cay"


def find_binary(named: Optional[str] = None) -> Optional[str]:
    """The one that is named, that came along, or that is installed."""
    if named:
        return named
    if os.access(_PACKAGED, os.X_OK):
        return str(_PACKAGED)
    return shutil.which("cay")


def main() -> NoReturn:
    """The command `cay` of an environment that this package is installed in."""
    binary = find_binary() if os.access(_PACKAGED, os.X_OK) else None
    if not binary:
        sys.exit("cay: this package came without the program; it is built by `make` in cay's source")
    os.execv(binary, ["cay", *sys.argv[1:]])


def _unsupported(what: str) -> SandboxError:
    return SandboxError(f"{what} needs a daemon", code="unsupported",
                        hint="start one: cay serve; or say where it is: CAY_HOST")


def _memory_file(stack: contextlib.ExitStack, data: bytes) -> int:
    """One that has no name, so that values are on no command line and on no disk."""
    fd = os.memfd_create("cay")
    stack.callback(os.close, fd)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _put(stack: contextlib.ExitStack, files: List[Mapping[str, Any]]) -> List[str]:
    """Files by way of a directory that only we can read."""
    words: List[str] = []
    place = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cay-put-")))
    for n, one in enumerate(files):
        if ":" in one["path"]:
            raise _unsupported(f"a file called {one['path']!r}")
        path = place / str(n)
        path.write_bytes(one["text"].encode() if "text" in one else base64.b64decode(one["data"]))
        path.chmod(0o700 if one.get("executable") else 0o600)
        words += ["--put", f"{path}:{one['path']}"]
    return words


def _env(stack: contextlib.ExitStack, env: Mapping[str, str], fds: List[int]) -> List[str]:
    if any("\n" in text or "\0" in text for pair in env.items() for text in pair):
        raise _unsupported("a variable with a line break")
    fds.append(_memory_file(stack, "".join(f"{name}={value}\n" for name, value in env.items()).encode()))
    return ["--env-file", f"/proc/self/fd/{fds[-1]}"]


def _network(network: Dict[str, Any]) -> List[str]:
    words = ["--network", network.pop("mode")] if "mode" in network else []
    for name, option in (("allow", "--allow-domain"), ("block", "--block-domain")):
        for domain in network.pop(name, ()):
            words += [option, domain]
    if network:
        raise _unsupported(f"network: {', '.join(network)}")
    return words


def _program(request: Dict[str, Any]) -> Tuple[List[str], Optional[str]]:
    """The last words, and the code."""
    language = request.pop("language", None)
    version = request.pop("version", None)
    args = request.pop("args", [])
    if "argv" in request:
        return ["--", *request.pop("argv"), *args], None
    if "command" in request:
        return ["--language", "sh", "-", *args], request.pop("command")
    if "code" in request:
        language = language or "python"
        return ["--language", f"{language}@{version}" if version else language, "-", *args], request.pop("code")
    raise SandboxError("one of code, command and argv says what to run", code="invalid_request")


@contextlib.contextmanager
def local_call(binary: str, request: Mapping[str, Any]) -> Iterator[Tuple[List[str], int, List[int]]]:
    """What to execute, its standard input, and further fds that it needs."""
    left = dict(request)
    fds: List[int] = []
    with contextlib.ExitStack() as stack:
        program, code = _program(left)
        words = [binary, "run", "--json"]
        for table in (_OPTIONS, _SWITCHES):
            for name, option in table.items():
                value = left.pop(name, None)
                if value is True:
                    words.append(option)
                elif value is not None and value is not False:
                    words += [option, str(value)]
        limits = dict(left.pop("limits", {}))
        for name in [name for name in limits if name in _LIMITS]:
            words += [_LIMITS[name], str(limits.pop(name))]
        if limits:
            raise _unsupported(f"limits: {', '.join(limits)}")
        words += _network(dict(left.pop("network", {})))
        for mount in left.pop("mounts", ()):
            words += ["--volume", f"{mount['source']}:{mount['target']}:{mount.get('access', 'ro')}"]
        if "workspace" in left:
            workspace = left.pop("workspace")
            if "source" not in workspace:
                raise _unsupported("a workspace with a name")
            words += ["--workspace", f"{workspace['source']}:{workspace.get('access', 'ro')}"]
        for glob in left.pop("get", ()):
            words += ["--get", glob]
        if "files" in left:
            words += _put(stack, left.pop("files"))
        if "env" in left:
            words += _env(stack, left.pop("env"), fds)
        stdin = left.pop("stdin", "").encode() or base64.b64decode(left.pop("stdin_base64", ""))
        if code is not None:
            fds.append(_memory_file(stack, stdin))
            words += ["--stdin", f"/proc/self/fd/{fds[-1]}"]
        for name in ("idempotency_key", "wait"):  # nobody else is here
            left.pop(name, None)
        if left:
            raise _unsupported(", ".join(left))
        yield [*words, *program], _memory_file(stack, stdin if code is None else code.encode()), fds


def local_answer(stdout: bytes, stderr: bytes) -> Dict[str, Any]:
    """The result, or its error as an exception."""
    if not stdout.strip():
        raise SandboxError(stderr.decode(errors="replace").strip()[-2000:] or "cay ended without a word")
    answer = parse_json(stdout)
    if not isinstance(answer, dict):
        raise SandboxError("cay said no result")
    if "error" in answer:
        raise error_of(answer)
    return answer
