"""What talks to a daemon, or where there is none, runs the program `cay`."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import TYPE_CHECKING, Any, Iterator, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from .._io import Stream, run_program
from .._errors import SandboxError, error_of
from .._local import find_binary, local_answer, local_call
from .._options import mount_of, request_of
from .._place import Place, find_place, key_header
from .._result import SandboxResult
from .._wire import Lines, parse_json
from .exchange import Exchange, Body, Query, json_body, target_of
from .runs import Events, Run

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import RunOptions


class Client:
    """A daemon: the one that host (or CAY_HOST) names, else the one on the default socket.

    Where neither is named and none is there, runs go through the program `cay` (binary, the one of this
    package, or one in PATH), which needs no daemon; local=True never looks for one, local=False insists on it.
    timeout is how many seconds a call may go without a byte; programs have their own, and are waited for.
    """

    def __init__(self, host: Optional[str] = None, *, api_key: Optional[str] = None, binary: Optional[str] = None,
                 local: Optional[bool] = None, timeout: Optional[float] = 60.0) -> None:
        self._host, self._key, self._named_binary = host, api_key, binary
        self._local, self.timeout = local, timeout

    # Programs

    def run(self, code: Optional[str] = None, *, check: bool = False, raise_errors: bool = True,
                  deadline: Optional[float] = None, **options: Unpack[RunOptions]) -> SandboxResult:
        """Runs a program on an island of its own, and waits for its end.

        check: what does not end well is an exception, too. raise_errors=False: what cay could not do is an
        unsuccessful result, whose error says why. deadline: seconds until it is given up and cancelled.
        """
        return self._run("/v1/runs", request_of(options, code), check, raise_errors, deadline)

    def stream(self, code: Optional[str] = None, *, deadline: Optional[float] = None,
               **options: Unpack[RunOptions]) -> Events:
        """The same, with what it prints as it comes. With no daemon all events come at the end."""
        return Events(self, "POST", "/v1/runs", request_of(options, code), deadline)

    def start(self, code: Optional[str] = None, **options: Unpack[RunOptions]) -> Run:
        """Starts it in the background, on the daemon."""
        return self._start("/v1/runs", request_of(options, code))

    def get_run(self, id: str) -> Run:
        return Run(self, self.call("GET", f"/v1/runs/{quote(id)}"))

    def list_runs(self, *, sandbox: Optional[str] = None, limit: Optional[int] = None) -> List[Dict[str, Any]]:
        """Those under way and of the past, latest first."""
        answer = self.call("GET", "/v1/runs", query={"sandbox": sandbox, "limit": limit})
        found: List[Dict[str, Any]] = answer["runs"]
        return found

    def batch(self, runs: Iterable[Union[str, Mapping[str, Any]]], *, parallel: Optional[int] = None
                    ) -> Iterator[Tuple[int, Union[SandboxResult, SandboxError]]]:
        """Many programs, each a code or a mapping of run()'s keywords; as they end, with their index."""
        requests = [request_of({}, run) if isinstance(run, str) else request_of(run) for run in runs]
        try:
            exchange = self._ask("POST", "/v1/batches", json_body(
                {"runs": requests, **({"parallel": parallel} if parallel else {})}), patient=True)
        except _NoDaemon as nobody:
            for index, request in enumerate(requests):
                try:
                    yield index, SandboxResult.of(self._run_here(nobody, request, None))
                except SandboxError as error:
                    yield index, error
            return
        try:
            lines = Lines()
            for data in exchange.pieces():
                for line in lines.feed(data):
                    one = parse_json(line)
                    yield one["index"], (SandboxResult.of(one["result"]) if "result" in one
                                         else error_of(one["error"]))
        finally:
            exchange.close()

    def run_many(self, runs: Iterable[Union[str, Mapping[str, Any]]], *, parallel: Optional[int] = None
                       ) -> List[SandboxResult]:
        """The same, in their order; what cay could not do is an unsuccessful result."""
        found = [(index, one if isinstance(one, SandboxResult) else SandboxResult.of_error(one))
                 for index, one in self.batch(runs, parallel=parallel)]
        return [result for _, result in sorted(found, key=lambda pair: pair[0])]

    def dry_run(self, code: Optional[str] = None, **options: Unpack[RunOptions]) -> Dict[str, Any]:
        """What would be done and enforced."""
        request = {**request_of(options, code), "dry_run": True}
        try:
            answer = self.call("POST", "/v1/runs", request)
        except _NoDaemon as nobody:
            answer = self._run_here(nobody, request, None)
        plan: Dict[str, Any] = answer["dry_run"]
        return plan

    def validate_mount(self, source: Any, target: str = "/data", access: str = "ro") -> Dict[str, Any]:
        """The mount as it is asked for; SandboxPolicyError where the operator does not allow it.

        It is tried, with a program that does nothing: only who mounts knows what a path leads to.
        """
        mount = mount_of({"source": source, "target": target, "access": access})
        self.run(argv=["true"], mounts=[mount], check=True)
        return mount

    # The service

    def health(self) -> Dict[str, Any]:
        answer: Dict[str, Any] = self.call("GET", "/v1/health")
        return answer

    def runtimes(self, language: Optional[str] = None) -> Dict[str, Any]:
        """The languages that programs can be in."""
        answer: Dict[str, Any] = self.call("GET", "/v1/runtimes", query={"language": language})
        return answer

    def images(self) -> List[Dict[str, Any]]:
        answer = self.call("GET", "/v1/images")
        found: List[Dict[str, Any]] = answer["images"]
        return found

    def call(self, method: str, path: str, body: Any = None, *, query: Optional[Query] = None) -> Any:
        """Any operation of the HTTP API with JSON both ways, for what has no method of its own."""
        exchange = self._ask(method, path, None if body is None else json_body(body), query=query)
        try:
            return exchange.json()
        finally:
            exchange.close()

    # What it is made of

    def _connect(self) -> Tuple[Stream, Place]:
        if self._local:
            raise _NoDaemon(SandboxError("a daemon is needed for that, and local=True says there is none",
                                         code="engine_unavailable"))
        try:
            place = find_place(self._host)
        except SandboxError as error:
            if error.message == "XDG_RUNTIME_DIR is not set":
                raise _NoDaemon(error) from None
            raise
        try:
            return Stream.connect(place), place
        except OSError as e:
            if place.named:
                raise place.nobody(e.strerror) from None
            raise _NoDaemon(place.nobody()) from None

    def _ask(self, method: str, path: str, body: Optional[Body] = None, *, query: Optional[Query] = None,
                   patient: bool = False, deadline: Optional[float] = None,
                   headers: Optional[Dict[str, str]] = None) -> Exchange:
        """An exchange whose answer has begun, and is none of an error."""
        headers = {**key_header(self._key), **(headers or {})}
        if isinstance(body, bytes):
            headers.setdefault("Content-Type", "application/json")
        stream, place = self._connect()
        exchange = Exchange(stream, place, None if patient else self.timeout, deadline)
        try:
            exchange.send(method, target_of(path, query), headers, body)
            exchange.head()
        except BaseException:
            exchange.close()
            raise
        return exchange

    def _run_here(self, nobody: _NoDaemon, request: Dict[str, Any], deadline: Optional[float]
                        ) -> Dict[str, Any]:
        """By the binary; where there is none, nobody is what is wrong."""
        binary = find_binary(self._named_binary)
        if self._local is False or not binary:
            raise nobody.error from None
        with local_call(binary, request) as (words, stdin, fds):
            try:
                stdout, stderr = run_program(words, stdin, fds, deadline)
            except SandboxError:
                raise  # one of time is an OSError, too
            except OSError as e:
                raise SandboxError(f"{binary} can't be run: {e.strerror}", code="engine_unavailable") from None
        return local_answer(stdout, stderr)

    def _run(self, path: str, request: Dict[str, Any], check: bool, raise_errors: bool,
                   deadline: Optional[float]) -> SandboxResult:
        try:
            result = SandboxResult.of(self._run_raw(path, request, deadline))
        except SandboxError as error:
            if raise_errors:
                raise
            return SandboxResult.of_error(error)
        return result.check() if check else result

    def _run_raw(self, path: str, request: Dict[str, Any], deadline: Optional[float]) -> Dict[str, Any]:
        headers = key_of(request)
        try:
            exchange = self._ask("POST", path, json_body(request), patient=True, deadline=deadline,
                                       headers=headers)
        except _NoDaemon as nobody:
            if path != "/v1/runs":
                raise
            return self._run_here(nobody, request, deadline)
        try:
            raw: Dict[str, Any] = exchange.json()
            return raw
        finally:
            exchange.close()

    def _start(self, path: str, request: Dict[str, Any]) -> Run:
        headers = key_of(request)
        exchange = self._ask("POST", path, json_body({**request, "background": True}), headers=headers)
        try:
            return Run(self, exchange.json())
        finally:
            exchange.close()


class _NoDaemon(SandboxError):
    """Nobody listens on the default socket: for some calls there is another way."""

    def __init__(self, error: SandboxError) -> None:
        super().__init__(error.message, code=error.code, hint=error.hint)
        self.error = error


def quote(part: str) -> str:
    """As a part of a path; "." and ".." are none."""
    if part in ("", ".", ".."):
        raise SandboxError(f"'{part}' is no id and no name", code="invalid_request")
    return urllib.parse.quote(part, safe="")


def key_of(request: Dict[str, Any]) -> Dict[str, str]:
    """The header of a request's idempotency_key, which is taken out of it."""
    key = request.pop("idempotency_key", None)
    return {"Idempotency-Key": key} if key else {}
