"""What comes out: exact bytes, bounded where asked, harmless on a terminal, and never in the way."""

import base64
import hashlib
import os
import pty
import signal
import subprocess
import time

import pytest

from support import CAY, MIB, TIMEOUT, on_terminal

ALL_BYTES = bytes(range(256))


def test_streams_are_separate(cay):
    done = cay.run("-c", "import sys; print('out'); print('err', file=sys.stderr)").ok()
    assert (done.out, done.err) == (b"out\n", b"err\n")
    result = cay.run("--json", "-c", "import sys; print('out'); print('err', file=sys.stderr)").json
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")


def test_all_bytes_pass(cay):
    done = cay.run("-c", "import os; os.write(1, bytes(range(256))); os.write(2, bytes(range(256)))")
    assert (done.out, done.err) == (ALL_BYTES, ALL_BYTES)


def test_all_bytes_in_json(cay):
    code = "import os; os.write(1, bytes(range(256))); os.write(2, bytes(range(256)))"
    result = cay.run("--json", "-c", code).ok().json
    for stream in ("stdout", "stderr"):
        assert base64.b64decode(result[f"{stream}_base64"]) == ALL_BYTES
        assert result[stream] == ALL_BYTES[:128].decode() + "\ufffd" * 128


def test_text_needs_no_base64(cay):
    result = cay.run("--json", "-c", "print('né 日本 🏝\\x00\\x1b')").ok().json
    assert result["stdout"] == "né 日本 🏝\0\x1b\n" and "stdout_base64" not in result


NUMBERS = "".join(f"{i:07}\n" for i in range(20000))  # 160000 bytes


def test_truncation_keeps_first_and_last_half(cay):
    code = "print(*(f'{i:07}' for i in range(20000)), sep='\\n')"
    result = cay.run("--json", "--output-limit", "1000", "-c", code).ok().json
    assert result["stdout_truncated"] and not result["stderr_truncated"]
    assert result["stdout"] == NUMBERS[:500] + NUMBERS[-500:]


def test_truncation_of_stderr(cay):
    code = "import sys; print(*(f'{i:07}' for i in range(20000)), sep='\\n', file=sys.stderr)"
    result = cay.run("--json", "--output-limit", "1k", "-c", code).ok().json
    assert result["stderr_truncated"] and not result["stdout_truncated"]
    assert result["stderr"] == NUMBERS[:512] + NUMBERS[-512:]


def test_output_of_exactly_the_limit_is_whole(cay):
    for n, truncated in ((1000, False), (1001, True)):
        result = cay.run("--json", "--output-limit", "1000", "-c", f"print('x' * {n}, end='')").json
        assert len(result["stdout"]) == 1000 and result["stdout_truncated"] == truncated


def test_default_limit_of_json_is_one_mebibyte(cay):
    result = cay.run("--json", "-c", "print('a' * (3 << 20) + 'z', end='')").ok().json
    assert len(result["stdout"]) == MIB and result["stdout_truncated"]
    assert result["stdout"][-1] == "z"


def test_truncation_in_many_small_writes(cay):
    code = "import os\nfor i in range(20000): os.write(1, b'%07d\\n' % i)"
    result = cay.run("--json", "--output-limit", "1000", "-c", code).ok().json
    assert result["stdout"] == NUMBERS[:500] + NUMBERS[-500:]


def test_output_limit_without_json(cay):
    code = "print(*(f'{i:07}' for i in range(20000)), sep='\\n')"
    done = cay.run("--output-limit", "1000", "-c", code).ok()
    assert done.text == NUMBERS[:500] + NUMBERS[-500:]
    assert len(done.said) == 1 and "159000 bytes of stdout" in done.said[0]


def test_pass_through_is_unlimited(cay):
    with subprocess.Popen([CAY, "run", "--", "head", "-c", str(100 * MIB), "/dev/zero"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as p:
        n, seen = 0, hashlib.sha256()
        while data := p.stdout.read(MIB):
            n += len(data)
            seen.update(data)
    assert p.returncode == 0 and n == 100 * MIB
    assert seen.digest() == hashlib.sha256(bytes(100 * MIB)).digest()


def test_output_comes_as_it_is_written(cay):
    p = cay.start("run", "-c", "import time; print('now', flush=True); time.sleep(30)")
    began = time.monotonic()
    assert p.stdout.readline() == b"now\n"
    assert time.monotonic() - began < 5
    p.terminate()
    p.communicate(timeout=5)


def test_output_to_a_file_and_to_a_full_disk(cay, place):
    done = cay.shell('"$CAY" run -- echo hello > out; cat out')
    assert done.text == "hello\n"
    done = cay.shell('"$CAY" run -- echo hello > /dev/full')
    assert done.rc != 0 or done.said, "lost output must not look like success"


def test_json_to_a_full_disk_is_no_success(cay):
    done = cay.shell('"$CAY" run --json -- echo hello > /dev/full')
    assert done.rc == 125 and len(done.said) == 1


def test_closed_pipe_ends_the_run(cay):
    done = cay.shell('"$CAY" run --timeout 30 -- yes | head -1').ok()
    assert done.text == "y\n" and done.seconds < 5


def test_program_sees_sigpipe(cay):
    done = cay.shell('("$CAY" run --timeout 30 -- yes; echo "rc $?" >&2) | head -1')
    assert "rc 141" in done.errors
    assert "Broken pipe" in done.errors and "yes:" not in done.errors


def test_closed_stdout_leaves_stderr_alone(cay):
    done = cay.shell('''"$CAY" run -- sh -c 'trap "" PIPE
        while echo x; do :; done 2>/dev/null; echo alive >&2' | head -1''')
    assert "alive" in done.errors


def stuck(cay, *args):
    """cay with a reader that does not read."""
    r, w = os.pipe()
    p = cay.start(*args, stdout=w, stdin=subprocess.DEVNULL)
    os.close(w)
    return p, r


def test_slow_reader_does_not_defeat_the_timeout(cay):
    p, r = stuck(cay, "run", "--timeout", "0.5", "--", "yes")
    # The line about the end comes after the output, so look at the processes: they are gone.
    time.sleep(1.5)
    children = subprocess.run(["pgrep", "-P", str(p.pid), "-r", "R,S,D,T"], capture_output=True)
    assert children.stdout == b""
    while os.read(r, MIB):
        pass
    os.close(r)
    _, err = p.communicate(timeout=5)
    assert p.returncode == TIMEOUT and b"time limit" in err


def test_stuck_reader_does_not_defeat_sigterm(cay):
    p, r = stuck(cay, "run", "--", "yes")
    time.sleep(0.5)
    p.terminate()
    try:
        p.wait(timeout=4)
    finally:
        os.close(r)
        p.communicate(timeout=5)
    assert p.returncode == 143


def test_stuck_reader_does_not_defeat_sigterm_after_the_end(cay):
    p, r = stuck(cay, "run", "-c", "import sys; sys.stdout.write('x' * 100000)")
    time.sleep(0.5)
    p.terminate()
    try:
        p.wait(timeout=4)
    finally:
        os.close(r)
        p.communicate(timeout=5)
    assert p.returncode is not None


def test_slow_reader_gets_everything(cay):
    p = cay.start("run", "-c", "import sys; sys.stdout.write('x' * 1000000)")
    got = b""
    while data := os.read(p.stdout.fileno(), 50_000):
        got += data
        time.sleep(0.01)
    p.communicate(timeout=5)
    assert p.returncode == 0 and got == b"x" * 1000000


def test_reader_that_does_not_block(cay):
    """A caller's O_NONBLOCK pipe, as node makes them."""
    r, w = os.pipe()
    os.set_blocking(w, False)
    p = cay.start("run", "-c", "print('x' * 1000000)", stdout=w)
    os.close(w)
    got = b""
    while data := os.read(r, 50_000):
        got += data
        time.sleep(0.005)
    os.close(r)
    p.communicate(timeout=5)
    assert p.returncode == 0 and len(got) == 1000001


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["plain", "json"])
def test_background_process_does_not_keep_cay(cay, json):
    done = cay.run(*json, "--", "sh", "-c", "sleep 30 & setsid sleep 30 & echo done").ok()
    assert "done" in done.text and done.seconds < 3


def test_program_that_closes_stdout_and_lives_on(cay):
    done = cay.run("-c", "import os, time; os.close(1); os.close(2); time.sleep(0.5); os._exit(7)")
    assert done.rc == 7 and done.seconds >= 0.5


def test_last_words_before_a_crash_arrive(cay):
    done = cay.run("-c", "import os; os.write(1, b'x' * 60000); os.kill(os.getpid(), 9)")
    assert len(done.out) == 60000 and done.rc == 137


def test_order_of_cays_word_and_the_programs(cay):
    done = cay.shell('"$CAY" run -- sh -c "echo out; echo err >&2; exit 5" 2>&1')
    assert done.text.splitlines()[-1] == "cay: exited with code 5"


# A terminal

HARMFUL = {
    "clipboard": b"\x1b]52;c;aGk=\x07",
    "title": b"\x1b]0;title\x07",
    "clear": b"\x1b[2J",
    "cursor": b"\x1b[1;1H",
    "up": b"\x1b[A",
    "device report": b"\x1b[6n",
    "private mode": b"\x1b[?1049h",
    "dcs": b"\x1bP+q544e\x1b\\",
    "reset": b"\x1bc",
    "8-bit csi": b"\x9b2J",
    "c1 in utf-8": "\x9b2J".encode(),
    "bell": b"\x07",
    "backspace": b"\x08\x08",
}


@pytest.mark.parametrize("sequence", HARMFUL.values(), ids=HARMFUL.keys())
def test_terminal_is_protected(cay, sequence):
    for stream in (1, 2):
        code = f"import os; os.write({stream}, b'a' + {sequence!r} + b'z\\n')"
        rc, seen = on_terminal(cay, "run", "-c", code)
        assert rc == 0
        assert seen.startswith(b"a") and seen.endswith(b"z\n")
        assert not set(seen) & ({0x1b, 0x07, 0x08} | set(range(0x80, 0xa0)) - set("\ufffd".encode()))
        assert b"\x9b" not in seen.replace("\ufffd".encode(), b"")


def test_terminal_sequence_split_over_writes(cay):
    code = ("import os, time\n"
            "for b in b'\\x1b]52;c;aGk=\\x07\\x1b[2Jz\\n': os.write(1, bytes([b])); time.sleep(0.01)")
    rc, seen = on_terminal(cay, "run", "-c", code)
    assert rc == 0 and b"\x1b" not in seen and b"]52;c" in seen


def test_terminal_shows_colours_and_unicode(cay):
    text = "\x1b[1;31mred\x1b[0m \x1b[38;5;200mx\x1b[m né 日本 🏝\ttab\n"
    rc, seen = on_terminal(cay, "run", "-c", f"print({text!r}, end='')")
    assert (rc, seen.decode()) == (0, text)


def test_terminal_is_protected_from_names_in_errors(cay):
    rc, seen = on_terminal(cay, "run", "\x1b]52;c;aGk=\x07.py")
    assert rc == 125 and b"\x1b" not in seen


def test_pipe_is_not_filtered(cay):
    code = f"import os; os.write(1, {HARMFUL['clipboard']!r}); os.write(2, {HARMFUL['clear']!r})"
    done = cay.run("-c", code).ok()
    assert (done.out, done.err) == (HARMFUL["clipboard"], HARMFUL["clear"])


def test_terminal_input_reaches_the_program(cay):
    rc, seen = on_terminal(cay, "run", "-c", "print('got', input())", answer=b"typed\n")
    assert rc == 0 and seen.endswith(b"got typed\n")


def test_program_does_not_get_the_callers_terminal(cay):
    code = ("import os, sys; print([os.isatty(n) for n in range(3)]);"
            "\ntry: os.open('/dev/tty', os.O_RDWR)\nexcept OSError as e: print(e.strerror)")
    rc, seen = on_terminal(cay, "run", "-c", code)
    assert rc == 0 and seen.startswith(b"[False, False, False]\n")
    assert b"No such device or address" in seen


def test_ctrl_c_on_a_terminal(cay):
    pid, master = pty.fork()
    if pid == 0:
        os.execve(CAY, [CAY, "run", "-c", "import time; print('up', flush=True); time.sleep(30)"],
                  cay.env)
    assert os.read(master, 100) == b"up\r\n"
    os.write(master, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(master)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGINT
