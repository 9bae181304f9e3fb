"""The verbs that talk to a daemon, as a user types them; cay run is the same with it and without."""

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import termios
import time

import pytest

from support import NOT_FOUND, OURS, TIMEOUT, wait_until
from typed import Terminal, box, cli  # noqa: F401: fixtures


# cay run, by a daemon and without one

SAME = {
    "code": ("-c", "print(42)"),
    "exit code": ("-c", "import sys; sys.exit(3)"),
    "both streams": ("-c", "import sys; print('o'); print('e', file=sys.stderr)"),
    "traceback": ("-c", "1/0"),
    "signal": ("--", "sh", "-c", "kill -9 $$"),
    "time": ("--timeout", "0.3", "--", "sleep", "60"),
    "not found": ("--", "no-such-program"),
    "not executable": ("--", "/etc/passwd"),
    "no runtime": ("-l", "python@2.1", "-c", "1"),
    "bytes": ("--", "printf", r"\377\376a"),
    "text": ("-c", "print('äöü€😀' * 1000)"),
    "much": ("-c", "print('x' * 3000000)"),
    "limited": ("--output-limit", "1000", "-c", "print('x' * 300000)"),
    "environment": ("-e", "A=b=c", "-e", "TZ=UTC", "--", "sh", "-c", "echo $A; env | sort"),
    "working directory": ("-w", "/tmp", "--", "pwd"),
    "no such directory": ("-w", "/nowhere", "--", "pwd"),
    "arguments": ("-c", "import sys; print(sys.argv)", "a", "--b", ""),
    "script": ("x.py", "a"),
    "script without extension": ("tool",),
    "no such script": ("nowhere.py",),
    "shell": ("-l", "sh", "-c", "echo $0 $#; exit 5", "x"),
    "too little": ("-m", "1k", "-c", "1"),
    "forbidden": ("--workspace", "/etc", "-c", "1"),
    "executable": ("--put", "tool", "--", "./tool"),
    "not executable as it came": ("--put", "x.py", "--", "./x.py"),
}


def put_programs(place):
    (place / "x.py").write_text("import sys\nprint(sys.argv, __file__)\n1/0\n")
    (place / "tool").write_text("#!/bin/sh\necho $0\nexit 6\n")
    (place / "tool").chmod(0o755)


def without_addresses(err):
    """The sanitizer tells where the stack of a process is that ends before its exec."""
    return re.sub(rb"^(==\d+==WARNING: ASan is ignoring requested __asan_handle_no_return).*$", rb"\1", err, flags=re.M)


@pytest.mark.parametrize("args", SAME.values(), ids=SAME)
def test_run_is_the_same(cli, daemon, args):
    put_programs(daemon.place)
    theirs, ours = cli("run", *args), cli.local("run", *args)
    assert (theirs.rc, theirs.out, without_addresses(theirs.err)) == (ours.rc, ours.out, without_addresses(ours.err))


@pytest.mark.parametrize("args", SAME.values(), ids=SAME)
def test_run_as_json_is_the_same(cli, daemon, args):
    put_programs(daemon.place)
    theirs, ours = cli("run", "--json", *args), cli.local("run", "--json", *args)
    assert (theirs.rc, theirs.err) == (ours.rc, ours.err)
    for j in (a := theirs.json, b := ours.json):
        for name in ("id", "usage", "start"):
            j.pop(name, None)
        j.get("error", {}).pop("request_id", None)
    assert a == b


def test_scripts_of_the_workspace(make_daemon, scratch):
    """They are run where they lie, with their neighbours."""
    work = scratch / "work"
    (work / "below").mkdir(parents=True)
    for name, text in {
            "below/in.py": "import sys, other\nprint(sys.argv, __file__, other.word)\n1/0\n",
            "below/other.py": "word = 'neighbour'\n",
            "in.c": '#include <stdio.h>\nint main(void) { puts(__FILE__); return 7; }\n',
            "Main.java": "class Main { public static void main(String[] a) { System.out.println(9); } }",
            "tool": "#!/bin/sh\necho $0; exit 8\n"}.items():
        (work / name).write_text(text)
    daemon = make_daemon(settings=f"[mounts]\nread = {work}\n")
    for args in (["below/in.py", "a"], ["in.c"], ["Main.java"], ["tool"]):
        theirs, ours = (
            daemon.cay("run", "--workspace", work, work / args[0], *args[1:], config=daemon.config, env=env)
            for env in ({"CAY_HOST": f"unix:{daemon.socket}"}, {}))
        assert (theirs.rc, theirs.out, theirs.err) == (ours.rc, ours.out, ours.err)


def test_run_with_input(cli, daemon):
    assert cli("run", "--", "cat", input=b"a\xff\0b").ok().out == b"a\xff\0b"
    (daemon.place / "in").write_text("from a file")
    (daemon.place / "in").chmod(0o644)
    assert cli("run", "--stdin", "in", "--", "cat").ok().text == "from a file"
    assert cli("run", "-", input="print(6 * 7)").ok().text == "42\n"
    done = cli("run", "--", "cat", input=b"x" * (17 << 20))
    assert done.rc == OURS and "16777216 bytes" in done.errors


def test_run_with_files(cli, daemon):
    src, out = daemon.place / "src", daemon.place / "out"
    for path in (src, out):
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
    (src / "a").write_bytes(b"\0\xff")
    (src / "link").symlink_to("/etc/passwd")
    code = "import os; print(sorted(os.listdir('d'))); open('o1', 'w').write('1'); open('o2', 'wb').write(b'\\xff')"
    done = cli("run", "--put", "src:d", "--get", "o1:out/", "--get", "o*:out/", "--get", "no*", "-c", code)
    assert done.rc == 0 and done.text == "['a']\n"
    assert (out / "o1").read_text() == "1" and (out / "o2").read_bytes() == b"\xff"
    assert "--get no*: no file matches" in done.errors
    done = cli("run", "--get", "o*:out/one", "-c", code.replace("print(sorted(os.listdir('d')));", ""))
    assert done.rc == OURS and "2 files match" in done.errors


@pytest.mark.parametrize("args", [("--engine", "direct"), ("--dry-run",)], ids=" ".join)
def test_what_is_of_this_machine_stays_here(cli, args):
    done = cli("run", *args, "--", "true")
    assert done.rc == 0 and f"{args[0]}{' direct' if 'direct' in args else ''}: on this machine" in done.errors


@pytest.mark.parametrize("args", [(), ("--json",), ("python",), ("--json", "c++"), ("klingon",)], ids=" ".join)
def test_runtimes_are_the_daemons(cli, args):
    theirs, ours = cli("runtimes", *args), cli.local("runtimes", *args)
    assert (theirs.rc, theirs.out, theirs.err) == (ours.rc, ours.out, ours.err)
    nowhere = cli("runtimes", *args, env={"CAY_HOST": "unix:/nowhere/cay.sock"})
    assert nowhere.rc == OURS and ("klingon" in args or "/nowhere/cay.sock" in nowhere.errors)


@pytest.mark.parametrize("verb", ["doctor", "config"])
def test_what_is_about_this_machine_says_so(cli, verb):
    assert "this machine" in cli(verb, "--help").ok().text


@pytest.mark.parametrize("args, words", [
    (("--listen", "8600"), "'8600' is not HOST:PORT"),
    (("--listen", "localhost:http"), "'localhost:http' is not HOST:PORT"),
    (("--listen", "127.0.0.1:99999"), "'127.0.0.1:99999' is not HOST:PORT"),
    (("--socket", "/tmp/" + "x" * 120), "longer than the kernel's 107 bytes"),
    ((), "runs already"),
], ids=str)
def test_a_wrong_address_is_told_before_anything_else(cli, daemon, args, words):
    """Also where a daemon has the state: another with good ones is told of that."""
    done = cli("serve", "--state", daemon.state, "--socket", daemon.place / "other.sock", *args)
    assert done.rc == OURS and words in done.errors, done.errors


def test_a_reader_that_leaves(cli):
    p = cli.start("run", "--timeout", "20", "-c", "while True: print('y' * 1000)", stdin=subprocess.DEVNULL)
    p.stdout.read(1)
    p.stdout.close()
    assert p.wait(10) == 128 + signal.SIGPIPE
    p.stderr.close()


def test_ctrl_c_cancels_the_run(cli, daemon):
    p = cli.start("run", "--", "sh", "-c", "echo begun; sleep 60", stdin=subprocess.DEVNULL)
    assert p.stdout.readline() == b"begun\n"
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=10)
    assert p.returncode == 130 and err.startswith(b"cay: cancelled by Interrupt")
    wait_until(lambda: daemon.metric("cay_runs_active") == 0, 10, "the end of the run")


def test_by_tcp_with_a_key(cli, daemon):
    key = cli("key", "create", "tcp").ok().text.strip()
    place = {"CAY_HOST": f"http://127.0.0.1:{daemon.port}"}
    assert cli("run", "-c", "print(1)", env=dict(place, CAY_API_KEY=key)).ok().text == "1\n"
    done = cli("run", "--json", "-c", "print(1)", env=place)
    assert done.rc == OURS and done.error["code"] == "unauthorized"
    key_id = json.loads(cli("key", "list", "--json").ok().text)["keys"][0]["id"]
    cli("key", "revoke", key_id).ok()
    assert cli("ps", env=dict(place, CAY_API_KEY=key)).rc == OURS
    assert cli("ps", env=dict(place, CAY_API_KEY="a\r\nX: y")).said == ["cay: CAY_API_KEY can't be a key"]


# Live sandboxes

def test_the_life_of_a_sandbox(cli):
    name = cli("create", "--name", "life", "-m", "64m", "--ttl", "1h", "--idle-timeout", "30m").ok().text.strip()
    assert re.fullmatch(r"sbx_\w+", name)
    shown = cli("show", "--json", "life").ok().json
    assert shown["id"] == name and shown["limits"]["memory"] == 64 << 20 and shown["idle_timeout"] == 1800
    rows = [line.split() for line in cli("ps").ok().text.splitlines()]
    assert rows[0][:3] == ["ID", "NAME", "STATE"] and [name, "life", "live"] in [row[:3] for row in rows]
    assert name in [s["id"] for s in cli("ps", "--json").ok().json["sandboxes"]]
    assert "limits.memory" in cli("show", "life").ok().text
    assert cli("rm", "life").ok().text == "life\n"
    done = cli("rm", "life")
    assert done.rc == OURS and len(done.said) == 1
    assert cli("rm", "-f", "life", name).ok().out == b""
    assert cli("exec", "life", "--", "true").rc == OURS


def test_exec_keeps_files(cli, box):
    cli("exec", box, "--", "sh", "-c", "echo kept > f").ok()
    assert cli("exec", box, "-c", "print(open('f').read())").ok().text == "kept\n\n"
    assert cli("run", "--sandbox", box, "--", "cat", "f").ok().text == "kept\n"


def test_exec_exit_codes_and_streams(cli, box):
    done = cli("exec", box, "--", "sh", "-c", "echo o; echo e >&2; exit 4")
    lines = [line for line in done.errors.splitlines() if "degraded" not in line]
    assert (done.rc, done.text, lines) == (4, "o\n", ["e", "cay: exited with code 4"])
    assert cli("exec", box, "--", "nothing").rc == NOT_FOUND
    assert cli("exec", "--timeout", "0.3", box, "--", "sleep", "60").rc == TIMEOUT
    assert cli("exec", box, "--json", "--", "echo", "x").ok().json["stdout"] == "x\n"
    assert cli("exec", "-e", "A=1", "-w", "/tmp", box, "--", "sh", "-c", "echo $A; pwd").ok().text == "1\n/tmp\n"
    assert cli("exec", box, "--", "cat", input="in\n").ok().text == "in\n"
    assert cli("exec", box, "--stdin", "/dev/null", "--", "cat", input="in\n").ok().text == ""


@pytest.mark.parametrize("args", [(), ("box",), ("--", "true"), ("-l", "python", "box", "--", "true")], ids=str)
def test_exec_needs_a_sandbox_and_a_program(cli, args):
    done = cli("exec", *args)
    assert done.rc == OURS and len(done.said) == 1


def test_ctrl_c_cancels_a_command_and_not_the_sandbox(cli, box):
    p = cli.start("exec", box, "--", "sh", "-c", "echo begun; sleep 61", stdin=subprocess.DEVNULL)
    assert p.stdout.readline() == b"begun\n"
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=10)
    assert p.returncode == 143
    find = "import os; print(sum(b'sleep\\x0061' in open(f'/proc/{p}/cmdline', 'rb').read() for p in os.listdir('/proc') if p.isdigit()))"
    wait_until(lambda: cli("exec", box, "-c", find).ok().text == "0\n", 10, "the end of the command")


def test_in_the_background_with_logs(cli, box):
    run = cli("exec", "-d", box, "--", "sh", "-c", "echo out; echo err >&2; sleep 0.2; echo later").ok().text
    assert re.fullmatch(r"run_\w+\n", run)
    wait_until(lambda: "later" in cli("logs", box).ok().text, 10, "the output")
    done = cli("logs", box).ok()
    assert "out\n" in done.text and "err\n" in done.errors and "err" not in done.text
    p = cli.start("logs", "-f", box)
    cli("exec", box, "--", "echo", "followed").ok()
    seen = b""
    while b"followed\n" not in seen:
        seen += p.stdout.readline()
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=10)
    assert p.returncode == 130 and b"cay:" not in err


def test_pause_and_resume(cli, daemon, box):
    done = cli("pause", box)
    if daemon.who == "user" and done.rc:
        # No cgroup is delegated to it.
        assert "to pause islands by" in done.errors and len(done.said) == 1
        return
    assert done.ok().text == "box\n"
    assert cli("show", "--json", box).ok().json["state"] == "paused"
    cli("resume", box).ok()
    assert cli("show", "--json", box).ok().json["state"] == "live"


def test_copy(cli, daemon, box):
    tree = daemon.place / "tree"
    (tree / "sub").mkdir(parents=True, exist_ok=True)
    (tree / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "run.sh").chmod(0o755)
    (tree / "sub" / "data").write_bytes(bytes(range(256)) * 5000)
    if not (tree / "link").is_symlink():
        (tree / "link").symlink_to("/etc/passwd")
    for path in (tree, tree / "sub", daemon.place):
        path.chmod(0o777)
    done = cli("cp", "tree", f"{box}:")
    assert done.rc == 0 and "1 left out" in done.errors
    assert cli("exec", box, "--", "./tree/run.sh").ok().text == "ran\n"
    assert cli("exec", box, "--", "ls", "tree").ok().text == "run.sh\nsub\n"
    cli("cp", f"{box}:tree", "back").ok()
    assert (daemon.place / "back/sub/data").read_bytes() == (tree / "sub/data").read_bytes()
    assert os.access(daemon.place / "back/run.sh", os.X_OK)
    cli("cp", "tree/run.sh", f"{box}:new/name.sh").ok()
    cli("cp", f"{box}:new/name.sh", ".").ok()
    assert (daemon.place / "name.sh").read_text() == (tree / "run.sh").read_text()
    assert "ran" in cli("exec", box, "--", "sh", "/workspace/new/name.sh").ok().text
    assert not [n for n in os.listdir(daemon.place) if n.startswith(".cay-cp")]


def test_holes_stay_holes(cli, daemon, box):
    """A file of nothing must not fill the disk of whoever copies it."""
    make = ("f = open('holes', 'wb'); f.write(b'begin'); f.seek(20 << 20); f.write(b'x' * 10000);"
            "f.seek(30 << 20); f.write(b'end'); f.truncate(50 << 20)")
    cli("exec", box, "--", "python3", "-c", make).ok()
    cli("cp", f"{box}:holes", ".").ok()
    got = daemon.place / "holes"
    assert got.stat().st_size == 50 << 20 and got.stat().st_blocks * 512 < 1 << 20
    data = got.read_bytes()
    assert data.startswith(b"begin\0") and data[20 << 20:(20 << 20) + 10001] == b"x" * 10000 + b"\0"
    assert data[30 << 20:(30 << 20) + 4] == b"end\0" and data.count(0) == (50 << 20) - 10008


@pytest.mark.parametrize("words", [("a", "b"), ("nowhere", "box:"), ("box:nowhere", "."), ("box:a", "box:b"),
                                   ("x",), ("nobox:x", ".")], ids=" ".join)
def test_copies_that_cannot_be(cli, box, words):
    done = cli("cp", *words)
    assert done.rc == OURS and len(done.said) == 1


def test_a_copy_that_does_not_fit(cli, daemon):
    (daemon.place / "big").write_bytes(b"x" * (8 << 20))
    (daemon.place / "big").chmod(0o644)
    cli("create", "--name", "small", "--disk", "1m").ok()
    try:
        done = cli("cp", "big", "small:")
        assert done.rc == OURS and len(done.said) == 1 and "big" in done.errors
    finally:
        cli("rm", "small").ok()


def test_completion_knows_the_sandboxes(cli, box):
    for verb in ("exec", "rm", "show", "logs", "shell"):
        assert "box" in [line.split("\t")[0] for line in cli("__complete", verb, "b").ok().text.splitlines()]


def test_without_a_daemon(cli):
    for args in (("ps",), ("create",), ("exec", "x", "--", "true"), ("cp", "/etc/hostname", "x:"), ("key", "list"),
                 ("run", "-c", "1")):
        done = cli(*args, env={"CAY_HOST": "unix:/nowhere/x.sock"})
        assert done.rc == OURS and len(done.said) == 1 and "no daemon at /nowhere/x.sock" in done.errors
    for host in ("nonsense", "unix:x", "http://x", "ftp://x:1"):
        done = cli("run", "-c", "1", env={"CAY_HOST": host})
        assert done.rc == OURS and "CAY_HOST" in done.errors


# The terminal

def test_shell(cli, daemon, box):
    t = Terminal(daemon, "shell", box)
    t.type(b"echo $((40+2)); stty size\n")
    t.until(b"42\r\n30 100")
    fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 70, 0, 0))
    os.kill(t.pid, signal.SIGWINCH)
    time.sleep(0.3)
    t.type(b"stty size\n")
    t.until(b"20 70")
    t.type(b"sleep 60\n")
    t.until(b"sleep 60")
    time.sleep(0.3)
    t.type(b"\x03")
    t.type(b"echo st''ill\n")
    t.until(b"still")
    t.type(b"exit 7\n")
    assert t.end() == 7


def test_shell_with_a_command(cli, daemon, box):
    t = Terminal(daemon, "shell", box, "--", "sh", "-c", "echo it''s; exit 3")
    t.until(b"its")
    assert t.end() == 3


def test_shell_is_left_and_come_back_to(cli, daemon, box):
    t = Terminal(daemon, "shell", box)
    t.type(b"A=remem''bered; echo re''ady\n")
    t.until(b"ready")
    t.type(b"\x10\x11")
    t.until(b"left running")
    command = t.until(b"\n").decode()
    terminal = re.search(r"--terminal (\w+)", command)[1]
    assert t.end() == 0
    t = Terminal(daemon, "shell", "--terminal", terminal, box)
    t.type(b"echo again $A\n")
    t.until(b"again remembered")
    t.type(b"\x10\x15exit 5\n")  # Ctrl-P alone is a key like others
    assert t.end() == 5


def test_shell_needs_a_terminal_and_a_sandbox(cli, daemon, box):
    done = cli("shell", box)
    assert done.rc == OURS and "needs a terminal" in done.errors
    t = Terminal(daemon, "shell", "nobox")
    t.until(b"no sandbox nobox")
    assert t.end() == OURS
