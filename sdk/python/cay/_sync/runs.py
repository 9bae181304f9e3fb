"""Programs under way: their events, and those in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Dict, List, Optional

from .._errors import SandboxError, error_of
from .._result import Event, SandboxResult
from .._wire import broken
from .exchange import Exchange, Query, json_body

if TYPE_CHECKING:
    from .client import Client


class Events:
    """What happens, as it does; the last one is the result, which result() has, too. Leaving early cancels."""

    def __init__(self, client: Client, method: str, path: str, request: Optional[Dict[str, Any]],
                 deadline: Optional[float] = None, query: Optional[Query] = None,
                 last: Optional[str] = "result") -> None:
        self._client, self._method, self._path = client, method, path
        self._request, self._deadline, self._query, self._last = request, deadline, query, last
        self._exchange: Optional[Exchange] = None
        self._events: Optional[Iterator[Event]] = None
        self._result: Optional[SandboxResult] = None

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        if self._events is None:
            self._events = self._follow()
        try:
            event = self._events.__next__()
        except BaseException:
            self.close()
            raise
        if event.name == "result":
            self._result = event.result
        return event

    def result(self) -> SandboxResult:
        """Reads on to the end."""
        if self._result is None:
            for _ in self:
                pass
        if self._result is None:
            raise SandboxError("these events were left before their end")
        return self._result

    def close(self) -> None:
        if self._exchange:
            self._exchange.close()
            self._exchange = None
        elif self._events is None:
            self._events = _nothing()

    def _follow(self) -> Iterator[Event]:
        from .client import _NoDaemon, key_of

        headers = {"Accept": "text/event-stream", **key_of(self._request or {})}
        body = None if self._request is None else json_body(self._request)
        try:
            self._exchange = self._client._ask(self._method, self._path, body, query=self._query, patient=True,
                                                     deadline=self._deadline, headers=headers)
        except _NoDaemon as nobody:
            if self._path != "/v1/runs" or self._request is None:
                raise
            raw = self._client._run_here(nobody, self._request, self._deadline)
            for stream in ("stdout", "stderr"):
                exact, text = raw.get(f"{stream}_base64"), raw.get(stream)
                if exact or text:
                    yield Event(stream, {"base64": exact} if exact else {"text": text})
            yield Event("result", raw)
            return
        for name, data in self._exchange.events():
            if name == "error":
                raise error_of(data)
            yield Event(name, data if isinstance(data, dict) else {})
            if name == self._last:
                return
        if self._last == "result":
            raise broken("its events have no end")


def _nothing() -> Iterator[Event]:
    nothing: List[Event] = []
    for event in nothing:
        yield event


class Run:
    """A program in the background."""

    def __init__(self, client: Client, raw: Dict[str, Any]) -> None:
        self._client, self.info = client, raw

    @property
    def id(self) -> str:
        return str(self.info["id"])

    @property
    def status(self) -> str:
        """When it was last looked at."""
        return str(self.info["status"])

    def refresh(self) -> Run:
        self.info = self._client.call("GET", f"/v1/runs/{self.id}")
        return self

    def events(self) -> Events:
        """What happens from now on, to the end. Leaving them does not end the run."""
        return Events(self._client, "GET", f"/v1/runs/{self.id}/events", None)

    def result(self, *, check: bool = False, deadline: Optional[float] = None) -> SandboxResult:
        """Waits for its end."""
        self.refresh()
        if "success" not in self.info and self.status in ("queued", "running"):
            with Events(self._client, "GET", f"/v1/runs/{self.id}/events", None, deadline) as events:
                events.result()
            self.refresh()
        if "success" not in self.info:
            error = self.info.get("error")
            raise error_of(error) if error else SandboxError(
                self.info.get("message") or f"the result of {self.id} was not kept", code="not_found")
        result = SandboxResult.of(self.info)
        return result.check() if check else result

    def cancel(self) -> None:
        self.info = self._client.call("DELETE", f"/v1/runs/{self.id}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status}>"
