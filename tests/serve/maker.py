"""Starts daemons, and sees to it that nothing is left of them."""

import os
import pathlib
import re
import shutil
import tempfile

from daemon import Daemon
from support import Cay, STRANGER, family, must_work, new_traces, traces


def belongs(trace, pids):
    """Whether it is a process of these, or a cgroup that one of them made."""
    found = re.match(r"process (\d+) |cgroup .*/cay-(\d+)-", trace)
    return bool(found) and (found[1] or found[2]) in pids


def left_behind(before, tmp, grace=5.0):
    """What is there now, was not, and is of no daemon that lives."""
    left = new_traces(before, tmp, grace)
    others = set().union(*(family(d.process.pid) for d in Maker.every if d.process.poll() is None))
    return sorted(trace for trace in left if not belongs(trace, others))


class Maker:
    """Starts daemons, and sees to it that each ends in order and leaves nothing."""

    every = []  # of all makers: a file's daemon lives on beside that of a test

    def __init__(self, scratch, enter=lambda place: []):
        """enter: the words in front of every command, where they are not to run just here."""
        self.scratch, self.enter, self.made = scratch, enter, []
        self.before = traces(scratch / "tmp")

    def __call__(self, who="root", settings=""):
        place = pathlib.Path(tempfile.mkdtemp(prefix="d-", dir=self.scratch))
        place.chmod(0o755)
        home = self.scratch / "home"
        cay = Cay(place, home, self.scratch / "tmp")
        cay.prefix = self.enter(place)
        if who == "user":
            # No cgroups are delegated to this one.
            settings = f"[isolation]\nallow_degraded = yes\n{settings}"
            home = self.scratch / "stranger"
            home.mkdir(exist_ok=True)
            for path in (place, home):
                os.chown(path, STRANGER, STRANGER)
            cay = Cay(place, home, self.scratch / "tmp")
            cay.prefix = [*self.enter(place), "setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
            probe = cay.run("--allow-degraded", "--", "true")
            if probe.rc != 0:
                must_work(f"an ordinary user has no sandbox here: {probe.errors}")
        daemon = Daemon(cay, place, settings, who)
        self.made.append(daemon)
        self.every.append(daemon)
        return daemon.start()

    def end(self):
        try:
            for daemon in self.made:
                if daemon.process.returncode is None:
                    daemon.stop()
            left = left_behind(self.before, self.scratch / "tmp")
            assert not left, f"left behind: {left}"
        finally:
            for daemon in self.made:
                if daemon.process and daemon.process.poll() is None:
                    daemon.process.kill()
                    daemon.process.wait()
                shutil.rmtree(daemon.place, ignore_errors=True)
