"""Terminals of live sandboxes."""

import json
import time

from sandbox import query
from websocket import BINARY, TEXT, Closed, WebSocket


class Terminal(WebSocket):
    """One of /v1/sandboxes/{id}/terminal, with what came by it so far."""

    def __init__(self, sandbox, timeout=15, headers=None, **params):
        super().__init__(sandbox.daemon, f"{sandbox.url}/terminal{query(**params)}", headers, key=sandbox.key,
                         timeout=timeout)
        opcode, data = self.receive()
        assert opcode == TEXT
        self.hello = json.loads(data)
        self.id = self.hello["terminal"]
        self.seen, self.said = b"", []

    def step(self):
        opcode, data = self.receive()
        if opcode == BINARY:
            self.seen += data
        else:
            self.said.append(json.loads(data))

    def until(self, mark, seconds=15):
        """Reads on until mark was printed; what came before it, and forgets both."""
        mark = mark if isinstance(mark, bytes) else mark.encode()
        end = time.monotonic() + seconds
        while mark not in self.seen:
            assert time.monotonic() < end, (mark, self.seen[-2000:])
            self.step()
        before, _, self.seen = self.seen.partition(mark)
        return before

    def end(self):
        """Reads to the goodbye, and returns it; what the program ended with is in said."""
        while True:
            try:
                self.step()
            except Closed as goodbye:
                return goodbye
