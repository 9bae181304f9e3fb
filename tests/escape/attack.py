"""How attacks are made and told: code that runs on an island, one try a line, and says how each ended.

A test of an attack has its number, `@attack(17)`. At the end of a run there is a line for each of
them: the number, what was tried (the test's docstring) and what happened (told() and
assert_refused()). The table in README.md is made of ATTACKS, see table.py.
"""

import collections
import json
import platform
import shutil
import subprocess

import pytest

from support import SOAK, busy, must_work

# For what other processors don't have at all.
x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="an attack by an x86_64 processor's own means")

# number: what the program tries, what it gets. Numbers stay: new attacks are added at the end
# of a family's range or after the last one.
ATTACKS = {
    "Out of the files": {
        1: ("opens, maps, executes or changes cay's own binary through /proc",
            "refused; the binary is unchanged"),
        2: ("a working directory in /proc/self/fd; looks for open fds",
            "refused; only 0, 1 and 2 are open"),
        3: ("has symlinks and files where mounts go",
            "the start fails, or the mount stays inside"),
        4: ("swaps a directory with a symlink while another run mounts it, puts and gets files",
            "no host file is read, written or made"),
        5: ("file names with links, `..`, `//`, newlines, 4 kB, 10,000 levels",
            "refused or kept inside"),
        6: ("makes cay fetch pipes, devices, sockets, 8 TiB of nothing, a file that grows",
            "prompt and bounded"),
        7: ("hard links to files outside", "the outside file is unchanged"),
        8: ("trees to put in, and layers of images, with links, `..`, devices, set-id bits, endless depth and size",
            "left out, kept inside or refused"),
        9: ("mounts of forbidden paths by another name, or swapped after the check", "refused"),
        10: ("set-id bits, file capabilities, devices and sockets, used or left behind",
             "refused; none on the host"),
        11: ("connects to a Unix socket in a mounted directory",
             "**works** where its file mode allows it: a limit; nothing is mounted by default"),
        38: ("plants links, `..`, devices, set-id bits and odd names in changes that come back from an overlay, swaps "
             "what is there meanwhile", "left out, kept inside or refused"),
    },
    "Out of the kernel's fences": {
        12: ("makes or enters namespaces; looks for capabilities", "refused; all sets are empty"),
        13: ("mounts, cgroups, /proc/sys, sysrq, memory and OOM score of others", "refused"),
        14: ("kcore, kallsyms, keys, firmware, powercap", "absent, empty or refused"),
        15: ("int 0x80, x32, io_uring, bpf, keyctl, modules, ptrace of others",
             "refused; int 0x80 is death"),
        16: ("vsock, raw, packet, crypto and odd netlink sockets", "refused"),
        17: ("types into the caller's terminal", "refused; the terminal is silent"),
        18: ("IPC, sockets, queues, keys, locks, files of the host and of neighbours",
             "not there; but inotify and flock on `/usr` **work**: a limit"),
        19: ("dumps a huge core", "no file, no handler"),
        37: ("leaves something in a cloned interpreter for the next run, looks for the one it was cloned from and for "
             "other clones", "nothing is seen, nothing is reached"),
    },
    "Out of the limits": {
        20: ("fork and thread bombs, daemons that hide", "held; all gone at the end"),
        21: ("memory of every kind, by one and by many", "`out_of_memory`"),
        22: ("fills disk and inodes, hides in deleted files", "ENOSPC; nothing is left"),
        23: ("floods the output", "truncated or ended; cay's memory stays flat"),
        24: ("burns all CPUs", "held to the limit; others go on"),
        25: ("never ends: stopped, deaf, stuck", "killed on time"),
        26: ("takes all fds, timers, watches, queues, signals", "bounded"),
    },
    "Out of the network": {
        27: ("looks for any network, name, service or neighbour", "nothing but its own loopback"),
        28: ("gets past an allow list: addresses in every notation, names that look alike or are none, private "
             "answers, answers that change, redirects, other hosts by TLS and HTTP, UDP, ICMP, DNS as a tunnel",
             "refused; nothing leaves, not even a query"),
        29: ("goes on when the egress process dies or rules change", "no network, or the new rules"),
    },
    "Out of the service": {
        34: ("escape sequences, bad UTF-8 and bidi in output and names",
             "shown, not obeyed; exact in JSON"),
        35: ("shell characters, newlines, options as values", "never interpreted"),
        36: ("an ordinary user reads root's image store: passwords in environments, files, names", "refused"),
        39: ("reaches workspaces of other keys, by name, id and path; copies one that is in use",
             "not found, or refused"),
    },
}


def attack(number):
    """Marks a test as one of attack number."""
    assert any(number in family for family in ATTACKS.values()), number
    return pytest.mark.attack(number)


def rounds():
    """How often a race is tried: a glimpse in `make test`, in earnest in a soak."""
    return 10000 if SOAK else 100


def soon():
    """100 ms on a machine that has the time; as much more as others wait for its CPUs."""
    return 0.1 * busy()


# What happened in the test that runs: word -> how often.
_happened = collections.Counter()


def told(what):
    """Notes what an attack came to, for the line about it."""
    _happened[what] += 1


def take_told():
    words = collections.Counter(_happened)
    _happened.clear()
    return words


def compile_c(place, name, code, *options):
    """A static program, made of C code on the host; returns its path."""
    if not shutil.which("cc"):
        must_work("no C compiler")
    source, program = place / f"{name}.c", place / name
    source.write_text(code)
    done = subprocess.run(["cc", "-O1", "-static", *options, "-o", program, source],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    program.chmod(0o755)
    return program


PRELUDE = """
import ctypes, errno, fcntl, functools, json, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
results = {}
class Absent(Exception): pass  # this processor's kernel has no such call
@functools.cache
def number_here(number):
    if os.uname().machine == 'x86_64': return number
    seccomp = ctypes.CDLL('libseccomp.so.2')
    seccomp.seccomp_syscall_resolve_num_arch.restype = ctypes.c_char_p
    name = seccomp.seccomp_syscall_resolve_num_arch(ctypes.c_uint32(0xc000003e), number)
    if not name: return number  # a new one: those have one number everywhere
    number = seccomp.seccomp_syscall_resolve_name(name)
    if number < 0: raise Absent
    return number
def call(number, *args):  # by the number that x86_64 has for it
    number = number_here(number)
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *args)
    if result < 0: raise OSError(ctypes.get_errno(), '')
    return result
def attempt(name, f):
    try: results[name] = 'worked'; f()
    except OSError as e: results[name] = errno.errorcode.get(e.errno, str(e.errno))
    except Absent: del results[name]
def in_child(f):
    pid = os.fork()
    if pid == 0:
        try: f()
        finally: os._exit(0)
    return os.waitpid(pid, 0)[1]
"""


def tries(cay, code, *options, **more):
    """Runs code on an island; returns {name: 'worked' or the error's name}."""
    out = cay.run(*options, "-c", PRELUDE + code + "\nprint(json.dumps(results))", **more).ok().text
    return json.loads(out.splitlines()[-1])


def assert_refused(results, *errors):
    """All of them, and there were some, with one of these errors."""
    assert results
    wrong = {name: how for name, how in results.items() if how not in errors}
    assert not wrong, wrong
    _happened.update(results.values())
