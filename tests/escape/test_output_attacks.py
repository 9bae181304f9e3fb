"""Attacks through the output: floods, and what it does to whoever reads it."""

import base64
import os
import subprocess
import sys

import pytest

from attack import attack, compile_c, told
from support import MIB, on_terminal

FLOOD = """
import os
data = {data}
while True:
    for fd in {fds}: os.write(fd, data)
"""


def peak_mib(cay, *args):
    """How cay ended, what it wrote, and the peak of its own resident memory in MiB."""
    argv, env = cay._arguments(["run", *args], None, None)
    code = ("import resource, subprocess, sys\n"
            "rc = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10, file=sys.stderr)\n"
            "sys.exit(rc)")
    p = subprocess.run([sys.executable, "-c", code, *argv], env=env, cwd=cay.directory, capture_output=True, timeout=60)
    return p.returncode, p.stdout, int(p.stderr.split()[-1])


@attack(23)
@pytest.mark.parametrize("fds", [(1,), (2,), (1, 2)], ids=["stdout", "stderr", "both"])
@pytest.mark.parametrize("data", ["b'x' * 65536", "bytes(range(256)) * 256"], ids=["one line", "binary"])
def test_flood(island, fds, data):
    """Output without end on stdout, stderr or both: truncated, ended as a flood, in flat memory."""
    done = island.run("--json", "--timeout", "30", "-c", FLOOD.format(data=data, fds=fds))
    result = done.json
    assert result["status"] == "output_limit", result["status"]
    assert [result["stdout_truncated"], result["stderr_truncated"]] == [1 in fds, 2 in fds]
    assert len(done.out) < 8 * MIB
    told("output_limit")


@attack(23)
def test_flood_in_flat_memory(cay):
    """cay's own memory while it reads a flood, with --json and passed through with a limit."""
    code = FLOOD.format(data="b'x' * 65536", fds=(1, 2))
    for options in (("--json",), ("--output-limit", "1m")):
        rc, out, peak = peak_mib(cay, *options, "--timeout", "30", "-c", code)
        assert len(out) < 8 * MIB and peak < 40, (options, peak)
        told("flat")


TINY = r"""
#include <unistd.h>
int main(void)
{
    for (int n = 0; n < 1000000; n++)
        if (write(1, "x", 1) != 1)
            return 1;
    return 0;
}
"""


@attack(23)
def test_a_million_tiny_writes(island, place):
    """A million writes of one byte without a newline: all of them arrive."""
    compile_c(place, "tiny", TINY)
    result = island.run("--json", "--workspace", ".", "--", "./tiny").ok().json
    assert result["stdout"] == "x" * 1000000 and not result["stdout_truncated"]
    told("exact")


@attack(23)
def test_output_that_is_closed(island):
    """A program that closes its output and lives on, or leaves it to a child, neither ends early nor hangs."""
    done = island.run("--json", "-c", "import os, time; os.write(1, b'a'); os.closerange(0, 3); time.sleep(0.5)").ok()
    assert done.json["stdout"] == "a" and done.json["usage"]["wall_ms"] >= 500
    done = island.run("-c", "import os, time\nif os.fork() == 0: time.sleep(30)\nprint('end')").ok()
    assert done.text == "end\n" and done.seconds < 10


# What a terminal could obey, and what must be left of it.
SEQUENCES = {
    "OSC 52": b"\x1b]52;c;ZXZpbA==\x07", "OSC 52, ST": b"\x1b]52;c;ZXZpbA==\x1b\\", "title": b"\x1b]0;evil\x07",
    "link": b"\x1b]8;;http://evil\x1b\\x\x1b]8;;\x1b\\", "clear": b"\x1b[2J\x1b[3J", "report": b"\x1b[6n\x1b[c",
    "paste": b"\x1b[?2004l", "keys": b"\x1b[>4;1m", "DCS": b"\x1bP$q\"p\x1b\\", "APC": b"\x1b_Gx\x1b\\", "PM": b"\x1b^x\x1b\\",
    "C1": b"\x9b2J\x9d52;c;x\x9c", "C1 in UTF-8": "\u009b2J\u0090x".encode(), "answerback": b"\x05", "shift out": b"\x0e",
    "backspace": b"good\x08\x08\x08\x08evil", "cut": b"\x1b]52;c;",
    "bidi": "\u202egpj.exe \u2066x\u2069".encode(), "overlong": b"\xc0\x9b2J\xe0\x80\x9b", "invalid": b"\xff\xfe\xed\xa0\x80",
    "private colon": b"\x1b[38:5:1q\x1b[!p",
}


def is_harmless(seen):
    """Valid UTF-8 with no control but white space, no C1, no change of direction."""
    text = seen.decode()
    assert not any(ord(c) < 0x20 and c not in "\n\t\r" or 0x7f <= ord(c) < 0xa0 for c in text), text
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"), text
    return True


@attack(34)
def test_terminal_of_the_reader(cay):
    """Escape sequences, C1, bad UTF-8 and bidi on a terminal: shown, not obeyed; in one write and byte by byte."""
    rc, seen = on_terminal(cay, "run", "-c", f"""
import os
for sequence in {list(SEQUENCES.values())!r}:
    for fd in (1, 2):
        os.write(fd, b'a' + sequence + b'z\\n')
    for b in sequence: os.write(1, bytes([b]))
os.write(1, b'end\\n')""", env={"NO_COLOR": "1"})
    assert rc == 0 and seen.count(b"z\n") == 2 * len(SEQUENCES) and is_harmless(seen) and b"end" in seen, seen
    told("shown")


@attack(34)
@pytest.mark.parametrize("name", ["OSC 52", "clear", "DCS", "C1", "C1 in UTF-8", "backspace", "bidi", "overlong", "invalid"])
def test_names_on_the_readers_terminal(cay, name):
    """The same as the name of a program, a script and a variable, in cay's own messages."""
    name = os.fsdecode(SEQUENCES[name].replace(b"/", b""))
    for args in (["run", "--", name], ["run", name + ".py"], ["run", "-e", name, "--", "true"], [name]):
        rc, seen = on_terminal(cay, *args, env={"NO_COLOR": "1"})
        assert rc != 0 and is_harmless(seen), (args, seen)
        told("shown")


@attack(34)
def test_json_is_exact(island):
    """All bytes there are, with --json: base64 or text, and the same as were written."""
    every = bytes(range(256)) + b"".join(SEQUENCES.values())
    result = island.run("--json", "-c", f"import os; os.write(1, {every!r}); os.write(2, {every!r})").ok().json
    for stream in ("stdout", "stderr"):
        assert base64.b64decode(result[stream + "_base64"]) == every
    told("exact")
