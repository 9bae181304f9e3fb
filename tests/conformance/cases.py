"""What is asked, in every way. Each row is a request of the API's and what must come of it the first way."""

import base64
import dataclasses
import re

from language_table import LANGUAGES, SLOW
from support import MIB, SOAK


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    request: dict
    shows: dict          # of the first way's result or error: what the row is about happened
    island: bool = False  # asks for what only an island has
    never: dict = dataclasses.field(default_factory=dict)  # way: why it is not asked
    # Way: (why, {field: its value there, or a function of the first way's}).
    differs: dict = dataclasses.field(default_factory=dict)


OK = {"status": "ok"}
MISSING = {"code": "not_found", "details": {"exit_code": 127}}
NOT_EXECUTABLE = {"code": "invalid_request", "details": {"exit_code": 126}}


def python(code, **more):
    return dict(more, code=code)


def sh(line, **more):
    return dict(more, command=line)


def out(text, **more):
    return dict(more, stdout=text)


# The ways that speak JSON to the daemon.
API = ["post", "cold", "file beside", "events", "batch", "background", "followed", "sandbox", "borne sandbox",
       "mode off"]


def names_field(field):
    """Why it is no different: an error of the API's says where in the request."""
    return dict.fromkeys(API, ("says which field", {
        "error": lambda first: dict(first, message=f"{field}: {first['message']}")}))


def names_it_as(option, field):
    """The same error, with the field's name in place of the option's."""
    return dict.fromkeys(API, ("says which field", {
        "error": lambda first: dict(first, message=first["message"].replace(f"--{option}:", f"{field}:"))}))


# Its root is laid out once for all islands, before any has ids: nobody's, with a /proc below the island's own.
SANDBOXES = ["sandbox", "borne sandbox"]
TEMPLATE = "the root is a template"
# The host's own, as the template has it from there; where there are several, the last is in sight.
HOST_PROC = [line for line in open("/proc/self/mounts") if " /proc proc " in line][-1]
BY_DAEMON = ["cli by daemon", "post", "cold", "file beside", "events", "batch", "background", "followed", "sandbox",
             "borne sandbox"]


def not_found(program):
    """There is no island to speak of; the command line's engine has the kernel's words."""
    return {"direct cli": ("the kernel's words", {"error": lambda first: dict(
                first, message=f"{program} can't be executed: No such file or directory")}),
            "mode off": ("no island", {"error": lambda first: dict(
                first, message=first["message"].removesuffix(" on the island"))})}


def without(*parts):
    def change(first):
        for part in parts:
            assert part in first
            first = first.replace(part, "")
        return first
    return change


def with_installs(first):
    """What is installed into a sandbox stays there: pip and npm are told where to, and programs found."""
    lines = first.replace("PATH=", "PATH=/workspace/.local/bin:").splitlines() + [
        "NPM_CONFIG_PREFIX=/workspace/.local", "PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_DISABLE_PIP_VERSION_CHECK=1"]
    return "".join(f"{line}\n" for line in sorted(lines))


NAMELESS = ("users of the host have no name here", {"stdout": without("LOGNAME=cay\n", "USER=cay\n")})


LANGUAGE_CASES = [
    Case(language.name, {"language": language.name, "code": language.echo, "args": ["a", "b c"], "stdin": "hello\n"},
         out("a\nb c\nHELLO\n", success=True, language=language.name))
    for language in LANGUAGES if SOAK or language.name not in SLOW]

BYTES = bytes(range(256))

PROGRAMS = [
    Case("code", python("print(42)"), out("42\n", status="ok", exit_code=0)),
    Case("exit code", python("raise SystemExit(3)"), {"status": "failed", "exit_code": 3}),
    Case("largest exit code", sh("exit 255"), {"exit_code": 255}),
    Case("traceback", python("def f():\n    1/0\nf()"), {"exit_code": 1}),
    Case("syntax error", python("print("), {"exit_code": 1}),
    Case("long code", python("#" * 200000 + "\nprint(len(open(__file__).read()) > 200000)"), out("True\n")),
    Case("empty code", python(""), OK),
    Case("command", sh("echo $0 $#; exit 5", args=["x", ""]), {"exit_code": 5}),
    Case("argv", {"argv": ["printf", "%s|", "a b", "", "ü€😀", "$HOME"]}, out("a b||ü€😀|$HOME|")),
    Case("missing program", {"argv": ["no-such-program"]}, MISSING, differs=not_found("no-such-program")),
    Case("missing path", {"argv": ["/nowhere/at/all"]}, MISSING, differs=not_found("/nowhere/at/all")),
    Case("not executable", {"argv": ["/etc/passwd"]}, NOT_EXECUTABLE),
    Case("a directory", {"argv": ["/usr"]}, NOT_EXECUTABLE),
    Case("no interpreter", {"argv": ["./tool"], "files": [
        {"path": "tool", "text": "#!/nowhere\n", "executable": True}]}, MISSING, differs=not_found("./tool")),
    Case("missing program in a shell", sh("no-such-program"), {"exit_code": 127}),
    Case("own program", {"argv": ["./tool", "x"], "files": [
        {"path": "tool", "text": "#!/bin/sh\necho $0 $1\nexit 6\n", "executable": True}]}, {"exit_code": 6}),
    Case("script", {"code": "import sys\nprint(sys.argv, __file__)\n1/0", "filename": "prög.py", "args": ["a"]},
         {"exit_code": 1}),
    Case("file", {"file": "below/prog.py", "args": ["a"], "files": [
        {"path": "below/prog.py", "text": "import sys\nprint(sys.argv[1:])"}]}, out("['a']\n")),
    Case("compile error", {"language": "c", "code": "int main(void) { return x; }"}, {"status": "failed"}),
    Case("compile error of typescript", {"language": "typescript", "code": "const x: number = ;"},
         {"status": "failed"}),
    # gcc looks for its parts there first, and this one ends it.
    Case("compiler killed", {"language": "c", "code": "int main(void) { return 0; }", "env": {"COMPILER_PATH": "bin"},
                             "files": [{"path": "bin/cc1", "text": "#!/bin/sh\nkill -9 $PPID\n", "executable": True}]},
         {"status": "signal", "signal": 9, "message": "ended by signal 9 (Killed) while compiling"}),
    Case("compile warning", {"language": "c", "code": "#warning beware\nint main(void) { return 4; }"},
         {"exit_code": 4}),
    Case("no such language", {"language": "klingon", "code": "x"}, {"code": "runtime_not_found"},
         differs=names_field("language")),
    Case("no such version", {"language": "python", "version": "2.1", "code": "x"}, {"code": "runtime_not_found"}),
]

STREAMS = [
    Case("no stdin", python("import os, sys\nprint(repr(sys.stdin.read()), os.fstat(0).st_rdev)"), OK),
    Case("empty stdin", python("import sys\nprint(repr(sys.stdin.read()))", stdin=""), out("''\n")),
    Case("stdin", python("print(input(), input())", stdin="ü\n€"), out("ü €\n")),
    Case("binary stdin", python("import sys\nprint(sys.stdin.buffer.read() == bytes(range(256)))",
                                stdin_base64=base64.b64encode(BYTES).decode()), out("True\n")),
    Case("large stdin", {"argv": ["sha256sum"], "stdin": "0123456789abcdef" * (MIB // 16)}, OK),
    Case("large stdin that is not read", {"argv": ["true"], "stdin": "x" * MIB}, OK),
    Case("both streams", python("import sys\nprint('o')\nprint('e', file=sys.stderr)"),
         {"stdout": "o\n", "stderr": "e\n"}),
    Case("binary output", python(f"import sys\nsys.stdout.buffer.write({BYTES!r})"),
         {"stdout_base64": base64.b64encode(BYTES).decode()}),
    Case("no UTF-8", python("import sys\nsys.stdout.buffer.write(b'a\\xff\\xc3')\n"
                            "sys.stderr.buffer.write(b'\\xed\\xa0\\x80')"), OK),
    Case("NUL", {"argv": ["printf", r"a\0b"]}, out("a\0b")),
    Case("control characters", python(r"print('\x1b]52;c;x\x07\x1b[31m\u202e\r')"), OK),
    Case("truncated", python("print('a' * 5000 + 'ü' * 5000)", limits={"output": "1k"}), {"stdout_truncated": True}),
    Case("truncated errors", sh("seq 1 1000 >&2; seq 1 9", limits={"output": "1k"}),
         {"stderr_truncated": True, "stdout_truncated": False}),
    Case("truncated bytes", python("import sys\nsys.stdout.buffer.write(b'\\xff' * 5000)", limits={"output": "1k"}),
         {"stdout_truncated": True}),
    Case("exactly the limit", python("print('x' * 1023)", limits={"output": "1k"}), {"stdout_truncated": False}),
    Case("default limit", python("print('x' * (2 << 20))"), {"stdout_truncated": True}),
    Case("flood", {"argv": ["yes"]}, {"status": "output_limit"}, never=dict.fromkeys(
        ["events", "followed"], "all of it goes out as it comes: the program is as slow as who reads, here Python")),
    Case("closed output", python("import os\nos.close(1)\nos.close(2)\nos._exit(4)"), {"exit_code": 4}),
    Case("output of one left behind", sh("(sleep 0.1; echo late) & echo early"), OK),
]

FILES = [
    Case("files", {"command": "cat a.txt b/c.bin; stat -c %A b\n"
                              "find . -name .beside -o -type f -printf '%M %s %p\\n' | sort", "files": [
        {"path": "a.txt", "text": "ü\n"}, {"path": "b/c.bin", "data": base64.b64encode(b"x\ny\n").decode()},
        {"path": "b/run", "text": "x", "executable": True}, {"path": "übel ß.txt", "text": ""}]}, OK),
    Case("get", sh("mkdir d; echo a >a.txt; printf '\\377' >d/b.txt; echo c >ü.txt; echo no >no",
                   get=["*.txt", "d/*"]), OK),
    Case("get nothing", sh("true", get=["nothing*"]), {"files": []}),
    Case("get after a failure", sh("echo a >a; exit 3", get=["a"]), {"exit_code": 3}),
    Case("get a link", sh("ln -s /etc/passwd l; mkfifo f; echo a >a", get=["*"]), OK),
    Case("get what is new", sh("mkdir -p d/.h; echo a >d/.h/a; echo more >>changed; chmod 600 kept/x; echo c >c", get=["*"],
                               files=[{"path": name, "text": "old"} for name in ("changed", "kept/x", "kept/y", "same")]),
         OK, differs=dict.fromkeys(["docker", "podman"], ("what was put in is copied there, and so is new, too", {
             "files": lambda first: first + [{"path": name, "size": 3, "data": "b2xk"} for name in ("kept/y", "same")]}))),
    Case("put and get", sh("echo more >>a", files=[{"path": "a", "text": "some\n"}], get=["a"]), OK),
]

ENDS = [
    Case("killed", sh("kill -9 $$"), {"status": "signal", "signal": 9, "exit_code": None}),
    Case("terminated", sh("kill -15 $$"), {"status": "signal", "signal": 15}),
    Case("fault", python("import ctypes\nctypes.string_at(0)"), {"status": "signal", "signal": 11}),
    Case("time-out", sh("echo before; sleep 60", limits={"timeout": "0.3"}),
         {"status": "timeout", "timed_out": True, "stdout": "before\n"}),
    Case("time-out of one that ignores", sh("trap '' TERM INT; sleep 60 & wait; sleep 60", limits={"timeout": "0.3"}),
         {"status": "timeout"}),
    Case("memory", python("print('x', flush=True)\nx = bytearray(200 << 20)", limits={"memory": "64m"}),
         {"status": "out_of_memory", "stdout": "x\n"}, island=True),
    Case("memory of a child", sh("(python3 -c 'x = bytearray(200 << 20)'; sleep 9) 2>/dev/null", limits={"memory": "64m"}),
         {"status": "out_of_memory"}, island=True),
    Case("processes", python("import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n"
                             "            time.sleep(9)\n        n += 1\nexcept OSError as e:\n    print(n, e)",
                             limits={"pids": 8}), OK, island=True),
    Case("CPU time", sh("while :; do :; done", limits={"cpu_time": "0.3"}), {"status": "timeout", "signal": None}),
    Case("CPU time over forks", python("import os, time\nfor n in range(3):\n    if os.fork() == 0:\n"
                                       "        while time.process_time() < 0.3: pass\n        os._exit(0)\n"
                                       "    os.wait()", limits={"cpu_time": "0.6"}), {"status": "timeout"},
         island=True),
    Case("disk", sh("head -c 20m /dev/zero >a; echo $?; stat -c %s a", limits={"disk": "8m"}), OK, island=True),
]

INSIDE = [
    Case("environment", sh("env | sort", env={"A": "b=c", "U": "ü€", "EMPTY": ""}), OK, differs={
        **dict.fromkeys(SANDBOXES, ("variables for installing", {"stdout": with_installs})), "direct cli": NAMELESS,
        "mode off": NAMELESS}),
    Case("environment of code", python("import os\nprint(repr(os.environ['A']))", env={"A": "a\n\tb "}),
         out("'a\\n\\tb '\n")),
    Case("environment replaced", sh("echo $PATH $HOME $LANG $TZ",
                                    env={"PATH": "/usr/bin:/nowhere", "HOME": "/tmp", "LANG": "C", "TZ": "UTC"}),
         out("/usr/bin:/nowhere /tmp C UTC\n")),
    Case("working directory", sh("pwd; echo $PWD $HOME", workdir="/tmp"), out("/tmp\n/tmp /workspace\n"), island=True),
    Case("working directory that came", sh("pwd; ls", workdir="/workspace/a/b", files=[
        {"path": "a/b/c", "text": ""}]), out("/workspace/a/b\nc\n"), island=True),
    Case("no working directory", sh("pwd", workdir="/nowhere"), {"code": "invalid_request"}, island=True),
    Case("cwd", sh("pwd; ls -A --ignore=.beside; stat -c '%a %u %g' . /tmp"), OK, island=True),
    Case("ids", sh("id; umask; cat /proc/self/uid_map | wc -l; whoami; echo ~"), OK, island=True),
    Case("rlimits", sh("cat /proc/self/limits"), OK, island=True),
    Case("state", sh("grep -E '^(State|TracerPid|Uid|Gid|FDSize|Groups|Kthread|CoreDumping|THP|"
                     "untag|Threads|SigQ|SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt|Cap...|NoNewPrivs|Seccomp|Seccomp_filters|"
                     "Speculation.*|Mems_allowed_list):' /proc/self/status"), OK, island=True),
    Case("processes seen", sh("cd /proc; for p in [0-9]*; do tr '\\0' ' ' <$p/cmdline | tr -s ' '; echo; done\n"
                              "ls -d /proc/[a-z]*"), OK, island=True),
    Case("mounts", sh("sed 's/,.id=[0-9]*//g' /proc/self/mounts"), OK, island=True, differs={
        **dict.fromkeys(BY_DAEMON, (TEMPLATE, {"stdout": lambda first: first.replace(
            "none /proc proc ", f"{HOST_PROC}none /proc proc ")})),
        "borne sandbox": ("its root is a zygote's, with that one's /proc below its own", {
            "stdout": lambda first: re.sub(r"(none /proc proc .*\n)", rf"{HOST_PROC}\1\1", first)})}),
    Case("namespaces", sh("cat /proc/self/cgroup; hostname; uname -n; cat /proc/net/dev | wc -l; nproc; "
                          "cat /sys/devices/system/cpu/online"), OK, island=True,
         differs=dict.fromkeys(SANDBOXES, ("each command is in a cgroup below the sandbox's, to be ended alone", {
             "stdout": lambda first: first.replace(":pids:/\n", ":pids:/command-1\n")}))),
    Case("root", sh("stat -c '%A %U:%G %n' / /* /etc/* /dev/*; ls -A /tmp"), OK, island=True,
         differs=dict.fromkeys(BY_DAEMON, (TEMPLATE, {
             "stdout": lambda first: re.sub(r"root:root (?!/(sys|dev/pts)$)", "nobody:nogroup ", first, flags=re.M)}))),
    Case("file descriptors", python("import os, stat\nfor n in sorted(map(int, os.listdir('/proc/self/fd')))[:-1]:\n"
                                    "    s = os.fstat(n)\n    print(n, stat.S_IFMT(s.st_mode), s.st_rdev, os.isatty(n),"
                                    " os.get_blocking(n))"), OK),
    Case("session", python("import os\nprint(os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(),"
                           " os.nice(0), open('/proc/self/oom_score_adj').read())"), OK, island=True,
         differs={"borne sandbox": ("programs go before PID 1, which is an interpreter", {
             "stdout": lambda first: first.replace(" 0\n", " 600\n")})}),
    Case("signals", python("import signal\nprint([s for s in signal.valid_signals() if signal.getsignal(s) =="
                           " signal.SIG_IGN], signal.pthread_sigmask(0, []))"), OK),
    Case("refused calls", python("import os\nfor f in (lambda: os.mkdir('/x'), lambda: os.chroot('/tmp'),"
                                 " lambda: os.setuid(0), lambda: os.mknod('/tmp/n', 0o20600, 259),"
                                 " lambda: open('/proc/sysrq-trigger', 'w'), lambda: os.kill(1, 9),"
                                 " lambda: open('/proc/1/mem')):\n"
                                 "    try: print(f())\n    except Exception as e: print(type(e).__name__, e)"), OK,
         island=True),
]

# ways.SETTINGS are the operator's.
NETWORKS = [
    Case("no network unless asked for", sh("env | grep -ci proxy; cat /proc/net/dev | wc -l"), {"network": "none"},
         island=True),
    Case("a network that refuses", python("""
import socket
for host, port in ("93.184.216.34", 80), ("evil.test", 443):
    try:
        socket.create_connection((host, port), 20)
    except OSError as e:
        print(host, e.errno)
""", network={"mode": "allowlist"}), out("93.184.216.34 111\nevil.test -2\n", network="allowlist", egress=[
        {"name": "93.184.216.34", "port": 80, "verdict": "denied", "why": "an address, where only names are allowed",
         "times": 1},
        {"name": "evil.test", "verdict": "denied", "why": "not in allow list", "times": 2}]), island=True),
    Case("no network by name", sh("true", network={"mode": "none"}), {"network": "none"}, island=True),
    Case("unknown network mode", sh("true", network={"mode": "some"}), {"code": "invalid_request"}, island=True,
         differs=names_it_as("network", "network.mode")),
    Case("an address as a domain", sh("true", network={"allow": ["10.0.0.1"]}), {"code": "invalid_request"},
         island=True, differs=names_it_as("allow-domain", "network.allow[0]")),
    Case("a URL as a domain", sh("true", network={"block": ["https://example.org/"]}), {"code": "invalid_request"},
         island=True, differs=names_it_as("block-domain", "network.block[0]")),
    Case("more network than the operator allows", sh("true", network={"mode": "full"}), {"code": "policy_denied"},
         island=True),
    Case("another domain than the operator allows", sh("true", network={"allow": ["a.example.org", "example.com"]}),
         {"code": "policy_denied"}, island=True),
    Case("another port than the operator allows", sh("true", network={"allow": ["a.example.org:22"]}),
         {"code": "policy_denied"}, island=True),
    Case("domains and no network", sh("true", network={"mode": "none", "allow": ["a.example.org"]}),
         {"code": "invalid_request"}, island=True),
]

CASES = [*NETWORKS, *PROGRAMS, *STREAMS, *FILES, *ENDS, *INSIDE, *LANGUAGE_CASES]
