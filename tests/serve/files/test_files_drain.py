"""Files while the daemon ends. On its own: other daemons' islands would be taken for what this one left."""
import contextlib
import time

from serve_support import Client, Watch


def test_a_daemon_that_ends_does_not_wait_for_those_who_watch(make_daemon):
    d = make_daemon()
    with Client(d).sandbox() as s, contextlib.closing(Watch(s, ".")) as w:
        started = time.monotonic()
        d.ask_to_end()
        assert w.next() == ("end", {"reason": "the daemon is ending"})
        d.stop()
        assert time.monotonic() - started < 10
