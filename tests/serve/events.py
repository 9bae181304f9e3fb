"""Server-sent events, exactly as the daemon writes them."""

import json
import re
import socket
import time


class Events:
    """What comes on a connection that a request was sent on: (name, object) each, or close() to leave."""

    def __init__(self, connection, seconds):
        self.connection, self.seconds, self.end = connection, seconds, time.monotonic() + seconds
        self.socket = connection.sock
        self.response = connection.getresponse()
        self.status = self.response.status

    def __iter__(self):
        return self

    def __next__(self):
        while line := self.response.readline():
            if line.startswith(b":"):
                # A heartbeat: with these, no read's time ever runs out.
                assert time.monotonic() < self.end, f"no event within {self.seconds} s"
                assert self.response.readline() == b"\n"
                continue
            name = re.fullmatch(rb"event: (.+)\n", line)[1].decode()
            data = re.fullmatch(rb"data: (.+)\n", self.response.readline())[1]
            assert self.response.readline() == b"\n"
            return name, json.loads(data)
        raise StopIteration

    def until(self, name):
        """Everything up to the first of that name, it included."""
        got = []
        for event in self:
            got.append(event)
            if event[0] == name:
                return got
        raise AssertionError(f"no {name}: {got}")

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.close()
        except OSError:
            pass
