"""Programs run by a zygote without an island (plain.c): what `python3 ...` gives, started warm."""

import array
import os
import pathlib
import socket
import struct
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOOT = ROOT / "src" / "warm" / "boot.py"
NO_DRIVER = "exec(compile('', '<cay>', 'exec'), {'PARTS': {}})"
MODULE = pathlib.Path(os.environ.get("CAY_PLAIN_WARM", ROOT / "build-test" / "tests" / "plain_warm.so"))


def pythons(oldest=10):
    """The interpreters that are there, by name; from 3.oldest on."""
    found = {"system": "/usr/bin/python3"}
    versions = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    for path in sorted(versions.glob("3.*/bin/python3")):
        if oldest <= int(path.parts[-3].split(".")[1]) <= 13:
            found[path.parts[-3]] = str(path)
    return found


def modules_of(name):
    sets = dict(line.split("=") for line in (BOOT.parent / "sets.txt").read_text().splitlines())
    return sets[name].split(",")


def default_modules():
    return modules_of("library")


class Zygote:
    """One waiting interpreter. env is what it is started with: programs' own should have the same LANG."""

    def __init__(self, python, modules=(), env=None, stderr=subprocess.DEVNULL, module=MODULE):
        self.python = python
        self.last = None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        with theirs, open(module, "rb") as extension:
            self.process = subprocess.Popen(
                [python, "-c", BOOT.read_text(), NO_DRIVER, *modules], stdin=theirs, stdout=extension, stderr=stderr, cwd="/",
                env={"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": "/proc/nowhere"} if env is None else env)
        self.socket = ours

    def start(self, argv, env, cwd, fds):
        """Sends a request. fds: three, None for one that is closed."""
        words = [str(sum(1 << i for i in range(3) if fds[i] is not None)), cwd, str(len(argv)), *argv,
                 *(os.fsencode(k) + b"=" + os.fsencode(v) for k, v in env.items())]
        packet = b"".join(os.fsencode(w) + b"\0" for w in words)
        rights = array.array("i", [fd for fd in fds if fd is not None])
        self.socket.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else [])

    def wait(self):
        """The last program's status, as subprocess has it; .last has more."""
        data = self.socket.recv(4096)
        if not data:
            raise EOFError(f"the zygote has ended: {self.process.wait(10)}")
        names = "status", "wall_ns", "cpu_us", "faults", "stale"
        self.last = dict(zip(names, struct.unpack("5q", data)))
        return os.waitstatus_to_exitcode(self.last["status"])

    def run(self, argv, env, cwd="/", stdin=b"", fds=(-1, -1, -1)):
        """(stdout, stderr, status) of argv, whose first word is the interpreter. fds: others than
        pipes; None: closed."""
        pipes = [os.pipe() if fd == -1 else None for fd in fds]
        theirs = [fd if pipe is None else pipe[i > 0] for i, (fd, pipe) in enumerate(zip(fds, pipes))]
        self.start(argv, env, cwd, theirs)
        out = [b"", b"", b""]

        def feed(end):
            with open(end, "wb", buffering=0) as pipe:
                try:
                    pipe.write(stdin)
                except BrokenPipeError:
                    pass

        def drain(i, end):
            with open(end, "rb") as pipe:
                out[i] = pipe.read()

        threads = []
        for i, pipe in enumerate(pipes):
            if pipe:
                os.close(pipe[i > 0])
                threads.append(threading.Thread(target=feed, args=(pipe[1],)) if i == 0 else
                               threading.Thread(target=drain, args=(i, pipe[0])))
                threads[-1].start()
        status = self.wait()
        for thread in threads:
            thread.join()
        return out[1], out[2], status

    def close(self):
        self.socket.close()
        self.process.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
