"""cay where a daemon serves it by interpreters that were cloned, and the proof that it does."""

import subprocess

from support import Cay
from zygotes import started, wait_for_rest

# What no interpreter is cloned for: these start one.
COLD_OPTIONS = {"--cold", "--dry-run", "--engine", "--image", "--language", "-l", "--mount", "--tty", "-t", "--user", "--watch",
                "--workspace", "--writable", "--"}

# What is left out, by what a test uses or by its name: why.
MOUNTED = "it executes what it mounts: no clone has a mount, and the daemon allows none"
LEFT_OUT = {
    "workspace": "a mount of the caller's own, by settings that are not the daemon's: no clone has a mount",
    "config": "settings of the caller's own, which a daemon does not know",
    "compiler": "a compiler of the caller's settings, which is no interpreter and is executed",
    "test_own_binary_as_the_interpreter": MOUNTED,
    "test_init_is_shut_from_the_first_moment": MOUNTED,
    "test_working_directory": MOUNTED,
    "test_working_directory_past_the_root": MOUNTED,
    "test_uninterruptible_sleep": MOUNTED,
    "test_a_million_tiny_writes": MOUNTED,
    "test_control_names_to_put": "no way of clones: an archive on its way to a daemon has fewer levels",
}


def is_warm(item):
    call = getattr(item, "callspec", None)
    return "warm_daemon" in item.fixturenames or (call is not None and call.params.get("island") == "warm")


def arrange(items):
    """What is warm comes last: its daemon is not there for the others to see. Returns what is left out."""
    left_out = [item for item in items if is_warm(item) and not LEFT_OUT.keys().isdisjoint([item.originalname, *item.fixturenames])]
    items[:] = sorted((item for item in items if item not in left_out), key=is_warm)
    return left_out


class WarmCay(Cay):
    """Its runs are a daemon's. Counts those that no interpreter has to be started for, and all others."""

    def __init__(self, daemon, directory, home, tmp):
        super().__init__(directory, home, tmp)
        self.daemon, self.plain, self.others = daemon, 0, 0
        self.env["CAY_HOST"] = f"unix:{daemon.socket}"
        self.began = self._counts()

    def _counts(self):
        return [started(self.daemon, start) for start in ("warm:default", "cold")]

    def _arguments(self, args, env, config):
        if args[:1] == ("run",):
            plain = "-c" in args and not COLD_OPTIONS.intersection(args) and "PYTHON" not in str(args)
            self.plain, self.others = self.plain + plain, self.others + (not plain)
        return super()._arguments(args, env, config)

    def start(self, *args, **more):
        """A daemon wants to have all of a program's input before it starts it: none, unless there is some."""
        more.setdefault("stdin", subprocess.DEVNULL)
        return super().start(*args, **more)

    def check(self):
        """All that could be warm was: not one of them fell back to a cold start."""
        wait_for_rest(self.daemon)
        warm, cold = (now - before for now, before in zip(self._counts(), self.began))
        assert cold <= self.others, f"{cold} of {self.plain} runs that could be warm and {self.others} others were cold"
        assert warm or not (self.plain and cold), "nothing was warm"
