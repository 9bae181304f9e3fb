"""How much more memory the daemon takes than before."""

import pathlib
import re
import threading

from support import SANITIZED

# What the daemon may take more for a transfer of any size, in bytes. The sanitizer holds back what was freed.
GROWTH_MAX = (320 if SANITIZED else 4) << 20


def rollup(pid):
    """What all its mappings have in memory, in KiB."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.M)}


class Memory:
    """How much more the api has than when this was made; the sanitizers' own is nobody's fault."""

    def __init__(self, daemon):
        self.daemon, self.before = daemon, daemon.rss()["api"]

    def grown(self):
        return 0 if SANITIZED else self.daemon.rss()["api"] - self.before


class Peak:
    """The most that the daemon's processes grow to meanwhile."""

    def __init__(self, daemon):
        self.daemon, self.stop, self.grown = daemon, threading.Event(), {}
        self.before = daemon.rss()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.stop.wait(0.02):
            for name, now in self.daemon.rss().items():
                self.grown[name] = max(self.grown.get(name, 0), now - self.before[name])

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
