"""What code in a context tries against what a context adds: PID 1 that it is a fork of, others' plans, interrupts."""

import json

import pytest

from support import wait_until
from test_contexts import borne, cell, context, say, under_way, value
from test_live_attacks import REACH


def printed(r):
    assert r["status"] == "ok", r
    return json.loads(r["stdout"])


def test_pid_1_is_shut_to_its_forks(make_daemon):
    """Of which one could look into all the others."""
    with borne(make_daemon()) as sandbox:
        assert value(sandbox, "import os; os.getppid()") == "1"
        tried = printed(cell(sandbox, REACH + "print(json.dumps(reach(1)))").ok())
        assert "done" not in tried.values(), tried
        control = printed(cell(sandbox, REACH + "print(json.dumps(reach(os.getpid())))").ok())
        assert control["mem"] == control["maps"] == control["fd"] == "done"


def test_nothing_of_other_commands_is_in_a_forks_memory(make_daemon):
    """A plan that PID 1 was sent has all of its program's variables, and a fork of PID 1 has its memory."""
    look = """
import os
def is_in(text, head, tail):  # the word itself is nowhere whole, or it would find itself
    at = text.find(head)
    while at >= 0 and text[at + len(head):at + len(head) + len(tail)] != tail:
        at = text.find(head, at + 1)
    return at >= 0
def found(head, tail):
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            first, last = (int(n, 16) for n in line.split()[0].split("-"))
            if "r" in line.split()[1] and "[v" not in line and last - first < 1 << 28:
                try:
                    memory.seek(first)
                    if is_in(memory.read(last - first), head, tail):
                        return True
                except (OSError, ValueError, OverflowError):
                    pass
    return False
"""
    with borne(make_daemon()) as sandbox:
        sandbox.sh("true", env={"SECRET": "marzipan-of-another"})
        cell(sandbox, "1", "other", env={"SECRET": "marzipan-of-a-context"}).ok()
        assert value(sandbox, look + "found(b'marzi', b'pan-of-')") == "False"
        assert value(sandbox, "os.environ['MINE'] = 'nougat-of-mine'; found(b'nou', b'gat-of-')") == "True"


@pytest.mark.parametrize("made", [borne, lambda daemon: daemon.sandbox(cold=True)], ids=["borne", "cold"])
def test_an_interrupt_is_for_one_command_alone(make_daemon, made):
    """However the code has named its groups: PID 1, other contexts and commands hear nothing of it."""
    with made(make_daemon()) as sandbox:
        cell(sandbox, "x = 1", "other").ok()
        with under_way(sandbox, "import time; time.sleep(6); 'slept'", "other") as other:
            code = ("import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(60); os._exit(0)\n"
                    "try: os.setpgid(0, 1)\nexcept OSError: pass\nwhile True: time.sleep(0.05)")
            with under_way(sandbox, code) as answers:
                for _ in range(5):
                    if context(sandbox)["state"] == "busy":
                        say(sandbox, "interrupt")
            assert answers[0].ok()["exception"]["name"] == "KeyboardInterrupt"
            assert sandbox.sh("echo here")["stdout"] == "here\n"
        assert other[0].ok()["results"] == [{"text/plain": "'slept'"}]
        wait_until(lambda: sandbox.show()["state"] == "live", 5, "the sandbox")
