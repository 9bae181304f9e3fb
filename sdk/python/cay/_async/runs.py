"""Programs under way: their events, and those in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncIterator, Dict, List, Optional

from .._errors import SandboxError, error_of
from .._result import Event, SandboxResult
from .._wire import broken
from .exchange import AsyncExchange, Query, json_body

if TYPE_CHECKING:
    from .client import AsyncClient


class AsyncEvents:
    """What happens, as it does; the last one is the result, which result() has, too. Leaving early cancels."""

    def __init__(self, client: AsyncClient, method: str, path: str, request: Optional[Dict[str, Any]],
                 deadline: Optional[float] = None, query: Optional[Query] = None,
                 last: Optional[str] = "result") -> None:
        self._client, self._method, self._path = client, method, path
        self._request, self._deadline, self._query, self._last = request, deadline, query, last
        self._exchange: Optional[AsyncExchange] = None
        self._events: Optional[AsyncIterator[Event]] = None
        self._result: Optional[SandboxResult] = None

    async def __aenter__(self) -> AsyncEvents:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Event:
        if self._events is None:
            self._events = self._follow()
        try:
            event = await self._events.__anext__()
        except BaseException:
            await self.close()
            raise
        if event.name == "result":
            self._result = event.result
        return event

    async def result(self) -> SandboxResult:
        """Reads on to the end."""
        if self._result is None:
            async for _ in self:
                pass
        if self._result is None:
            raise SandboxError("these events were left before their end")
        return self._result

    async def close(self) -> None:
        if self._exchange:
            await self._exchange.close()
            self._exchange = None
        elif self._events is None:
            self._events = _nothing()

    async def _follow(self) -> AsyncIterator[Event]:
        from .client import _NoDaemon, key_of

        headers = {"Accept": "text/event-stream", **key_of(self._request or {})}
        body = None if self._request is None else json_body(self._request)
        try:
            self._exchange = await self._client._ask(self._method, self._path, body, query=self._query, patient=True,
                                                     deadline=self._deadline, headers=headers)
        except _NoDaemon as nobody:
            if self._path != "/v1/runs" or self._request is None:
                raise
            raw = await self._client._run_here(nobody, self._request, self._deadline)
            for stream in ("stdout", "stderr"):
                exact, text = raw.get(f"{stream}_base64"), raw.get(stream)
                if exact or text:
                    yield Event(stream, {"base64": exact} if exact else {"text": text})
            yield Event("result", raw)
            return
        async for name, data in self._exchange.events():
            if name == "error":
                raise error_of(data)
            yield Event(name, data if isinstance(data, dict) else {})
            if name == self._last:
                return
        if self._last == "result":
            raise broken("its events have no end")


async def _nothing() -> AsyncIterator[Event]:
    nothing: List[Event] = []
    for event in nothing:
        yield event


class AsyncRun:
    """A program in the background."""

    def __init__(self, client: AsyncClient, raw: Dict[str, Any]) -> None:
        self._client, self.info = client, raw

    @property
    def id(self) -> str:
        return str(self.info["id"])

    @property
    def status(self) -> str:
        """When it was last looked at."""
        return str(self.info["status"])

    async def refresh(self) -> AsyncRun:
        self.info = await self._client.call("GET", f"/v1/runs/{self.id}")
        return self

    def events(self) -> AsyncEvents:
        """What happens from now on, to the end. Leaving them does not end the run."""
        return AsyncEvents(self._client, "GET", f"/v1/runs/{self.id}/events", None)

    async def result(self, *, check: bool = False, deadline: Optional[float] = None) -> SandboxResult:
        """Waits for its end."""
        await self.refresh()
        if "success" not in self.info and self.status in ("queued", "running"):
            async with AsyncEvents(self._client, "GET", f"/v1/runs/{self.id}/events", None, deadline) as events:
                await events.result()
            await self.refresh()
        if "success" not in self.info:
            error = self.info.get("error")
            raise error_of(error) if error else SandboxError(
                self.info.get("message") or f"the result of {self.id} was not kept", code="not_found")
        result = SandboxResult.of(self.info)
        return result.check() if check else result

    async def cancel(self) -> None:
        self.info = await self._client.call("DELETE", f"/v1/runs/{self.id}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status}>"
