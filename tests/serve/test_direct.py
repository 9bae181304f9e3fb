"""Runs without a sandbox: whom they run as, that they can be ended, and that nothing is left of them."""

import base64
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from support import STRANGER, must_work, wait_until

CALLER, USER = STRANGER, STRANGER + 1

# Asks as somebody else: by the kernel's word, which is all that counts.
CLIENT = """
import json, os, socket, sys
uid, path, method, url, body, key = int(sys.argv[1]), *sys.argv[2:7]
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
s = socket.socket(socket.AF_UNIX); s.connect(path); s.settimeout(60)
head = f"{method} {url} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Length: {len(body.encode())}\\r\\n"
if key: head += f"Authorization: Bearer {key}\\r\\n"
s.sendall((head + "\\r\\n" + body).encode())
data = b""
while (more := s.recv(65536)): data += more
head, _, body = data.partition(b"\\r\\n\\r\\n")
print(int(head.split()[1])); sys.stdout.flush(); sys.stdout.buffer.write(body)
"""


@pytest.fixture(autouse=True)
def is_root():
    if os.geteuid() != 0:
        must_work("only root can be another user")


class Direct:
    """A daemon of root's whose socket is open to all, and what others say to it."""

    def __init__(self, daemon):
        self.daemon = daemon
        os.chmod(daemon.socket, 0o666)

    def ask(self, body, uid=CALLER, path="/v1/runs", key="", method="POST"):
        done = subprocess.run([sys.executable, "-c", CLIENT, str(uid), str(self.daemon.socket), method, path,
                               json.dumps(body), key], capture_output=True, timeout=90)
        assert done.returncode == 0, done.stderr
        status, _, answer = done.stdout.partition(b"\n")
        return int(status), json.loads(answer)

    def run(self, body, **more):
        status, answer = self.ask(body, **more)
        assert status == 200, answer
        return answer

    def refused(self, body, code, says, **more):
        status, answer = self.ask(body, **more)
        assert answer["error"]["code"] == code, answer
        text = answer["error"]["message"] + " " + answer["error"]["hint"]
        assert says in text, text
        return answer["error"]


@pytest.fixture
def direct(make_daemon):
    return lambda settings: Direct(make_daemon(settings=f"[serve]\n{settings}\n"))


@pytest.fixture
def off(direct):
    return direct("mode = off")


def is_direct(result, uid=CALLER):
    assert (result["engine"], result["sandboxed"]) == ("direct", False), result
    assert result["isolation"]["seccomp"] == "none" and result["isolation"]["network"] == "host"
    assert result["network"] == "host" and result["isolation"]["namespaces"] == []
    assert result["isolation"]["capabilities"] == "none" and result["isolation"]["no_new_privs"] is True
    assert f"as user {uid}" in result["engine_reason"]
    return True


def is_sandboxed(result):
    return result["engine"] == "native" and result["sandboxed"] is True and result["isolation"]["user"] == "userns"


def workspaces(direct):
    tmp = pathlib.Path(direct.daemon.cay.env["TMPDIR"])
    return [p.name for p in tmp.iterdir() if p.name.startswith("cay-direct-")]


def is_gone(mark):
    """No process has it on its command line."""
    for p in pathlib.Path("/proc").iterdir():
        try:
            if p.name.isdigit() and mark in (p / "cmdline").read_bytes():
                return False
        except OSError:
            pass
    return True


# Whom it runs as

def test_as_the_caller(off):
    result = off.run({"command": "id -u; id -g; id -G; umask; pwd; echo $HOME; stat -c %u:%a ."})
    lines = result["stdout"].split("\n")
    assert lines[:4] == [str(CALLER), str(CALLER), str(CALLER), "0022"]
    assert lines[4] == lines[5] and "/cay-direct-" in lines[4]
    assert lines[6] == f"{CALLER}:700"
    assert is_direct(result) and result["engine_reason"].startswith("mode off")
    assert result["message"] == f"ran without a sandbox, as user {CALLER}" and result["success"]
    assert '"asked for a run without a sandbox"' in off.daemon.log and result["id"] in off.daemon.log
    wait_until(lambda: not workspaces(off), 5, "the workspace's end")


def test_root_needs_a_user(off):
    off.refused({"code": "1"}, "policy_denied", "direct_user", uid=0)
    assert is_sandboxed(off.run({"code": "1", "mode": "all"}, uid=0))


def test_root_as_the_configured_user(direct):
    d = direct(f"mode = off\ndirect_user = {USER}")
    result = d.run({"command": "id -u; id -g"}, uid=0)
    assert result["stdout"] == f"{USER}\n{USER}\n" and is_direct(result, USER)
    assert d.run({"command": "id -u"})["stdout"] == f"{CALLER}\n"


def test_a_name_is_looked_up(direct):
    d = direct("mode = off\ndirect_user = nobody")
    assert d.run({"command": "id -un"}, uid=0)["stdout"] == "nobody\n"


@pytest.mark.parametrize("settings, says", [
    ("mode = off\ndirect_user = no-such-user-here", "no user"), ("direct_user = root", "nothing runs as root"),
    ("mode = off\n[engine]\ndirect = no", "[engine] direct = no")])
def test_settings_that_can_t_be(make_daemon, settings, says):
    with pytest.raises(AssertionError) as info:
        make_daemon(settings=f"[serve]\n{settings}\n")
    assert says in str(info.value)


def test_by_tcp(direct):
    d = direct(f"mode = off\ndirect_user = {USER}")
    key, _ = d.daemon.key("k", tier="unrestricted")
    error = d.daemon.post("/v1/runs", {"code": "1"}, key=key).refused(403, "policy_denied")
    assert "direct_over_tcp" in error["hint"]
    # The same key by the socket is its holder's, but the program the peer's.
    assert d.run({"command": "id -u"}, key=key)["stdout"] == f"{CALLER}\n"


def test_by_tcp_where_the_operator_said_so(direct):
    d = direct("mode = off\ndirect_over_tcp = yes")
    key, _ = d.daemon.key("k", tier="unrestricted")
    assert "direct_user" in d.daemon.post("/v1/runs", {"code": "1"}, key=key).refused(403, "policy_denied")["hint"]
    d = direct(f"mode = off\ndirect_over_tcp = yes\ndirect_user = {USER}")
    key, _ = d.daemon.key("k", tier="unrestricted")
    result = d.daemon.run(command="id -u", key=key)
    assert result["stdout"] == f"{USER}\n" and is_direct(result, USER)


def test_of_an_ordinary_user(make_daemon):
    daemon = make_daemon("user", "[serve]\nmode = off\n")
    d = Direct(daemon)
    result = d.run({"code": "import os; print(os.getuid()); open('f', 'w').write('x')", "get": ["f"]})
    assert result["stdout"] == f"{STRANGER}\n" and is_direct(result) and result["files"][0]["path"] == "f"
    d.refused({"code": "1"}, "policy_denied", "another user's", uid=USER)
    d.refused({"code": "1"}, "policy_denied", "another user's", uid=0)
    result = d.run({"command": "sleep 4711 & echo up", "limits": {"timeout": 20}})
    assert result["stdout"] == "up\n"
    wait_until(lambda: is_gone(b"4711"), 5, "the end of what it left")


# What it has and what not

REGAIN = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name, call in (("setuid", lambda: os.setuid(0)), ("setresuid", lambda: os.setresuid(0, 0, 0)),
                   ("setgid", lambda: os.setgid(0)), ("setgroups", lambda: os.setgroups([0]))):
    try:
        call(); print(name, "worked")
    except PermissionError:
        print(name, "denied")
print(os.getresuid(), os.getresgid(), os.getgroups())
print([l for l in open("/proc/self/status") if l.startswith(("Cap", "NoNew"))])
print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
number = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
text = ctypes.create_string_buffer(200)
libc.syscall(number, 6, -3, text, 200)  # KEYCTL_DESCRIBE of the session's
print("keyring", text.value.decode() or "none")
print(os.system("su -c id root </dev/null >/dev/null 2>&1") != 0, os.geteuid())
"""


def test_root_can_t_be_had_back(off):
    out = off.run({"code": REGAIN})["stdout"]
    assert out.count("denied") == 4 and "worked" not in out
    assert f"({CALLER}, {CALLER}, {CALLER}) ({CALLER}, {CALLER}, {CALLER}) []" in out
    assert re.findall(r"Cap\w+:\\t(\w+)", out) == ["0" * 16] * 5 and "NoNewPrivs:\\t1" in out
    assert "['0', '1', '2'] 4" in out  # the fourth is the listing's own
    assert f"True {CALLER}" in out
    assert re.search(rf"keyring (none$|keyring;{CALLER};{CALLER};)", out, re.M), out


def test_the_daemons_environment_is_not_its(off):
    out = off.run({"argv": ["env"], "env": {"MINE": "1"}})["stdout"]
    names = {line.partition("=")[0] for line in out.splitlines()}
    assert {"HOME", "PATH", "MINE"} <= names and not names & {"CAY_CONFIG", "USER", "LOGNAME", "NOTIFY_SOCKET"}


def test_input_files_and_output_files(off):
    result = off.run({"code": "import sys; print(sys.stdin.read(), open('d/a').read()); open('d/b', 'w').write('out')",
                      "stdin": "in", "files": [{"path": "d/a", "text": "file"}], "get": ["d/b"]})
    assert result["stdout"] == "in file\n" and is_direct(result)
    assert [base64.b64decode(f["data"]) for f in result["files"]] == [b"out"]
    wait_until(lambda: not workspaces(off), 5, "the workspace's end")


def test_a_compiled_language(off):
    source = '#include <unistd.h>\n#include <stdio.h>\nint main(void) { printf("%d", getuid()); return 3; }'
    result = off.run({"language": "c", "code": source})
    assert (result["stdout"], result["exit_code"], result["compile"]["success"]) == (str(CALLER), 3, True)
    broken = off.run({"language": "c", "code": "int main("})
    assert broken["compile"]["success"] is False and is_direct(broken)
    wait_until(lambda: not workspaces(off), 5, "the workspaces' end")


def test_limits_that_cgroups_hold(off):
    result = off.run({"code": "x = bytearray(200 << 20)", "limits": {"memory": "64m"}})
    assert result["status"] == "out_of_memory", result
    assert result["isolation"]["memory"].startswith("cgroup") and result["isolation"]["disk"] == "none"
    result = off.run({"command": "for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait", "limits": {"pids": 4}})
    assert "ork" in result["stderr"]
    result = off.run({"code": "while True: pass", "limits": {"cpu_time": 1, "timeout": 20}})
    assert result["status"] == "timeout" or result["signal"] is not None, result


@pytest.mark.parametrize("more, field", [
    ({"network": {"mode": "none"}}, "network:"), ({"limits": {"disk": "1m"}}, "limits.disk:"),
    ({"user": "cay"}, "user:"),
    ({"mounts": [{"source": "/usr", "target": "/data"}]}, "mounts:"),
    ({"files": [{"path": "/tmp/x", "text": ""}]}, "files[0].path:")], ids=str)
def test_what_can_t_be_had_is_named(off, more, field):
    off.refused({"code": "1", **more}, "unsupported", field)


def test_no_such_program(off):
    off.refused({"argv": ["no-such-program"]}, "not_found", "no-such-program")
    off.refused({"code": "1", "workdir": "/root/x"}, "invalid_request", "/root/x")


# Its end

@pytest.mark.parametrize("more", [{}, {"files": [{"path": "a", "text": ""}]}], ids=["run", "with files"])
def test_a_time_out_ends_what_hides(off, more):
    """In sessions of its own, with parents that are gone."""
    mark = f"48{os.getpid()}"
    line = f"for i in 1 2 3; do (setsid setsid sleep {mark} >/dev/null 2>&1 &); done; sleep 0.2; sleep {mark}"
    result = off.run({"command": line, "limits": {"timeout": 1}, **more})
    assert result["status"] == "timeout" and is_direct(result)
    wait_until(lambda: is_gone(mark.encode()), 3, "its end")
    wait_until(lambda: not workspaces(off), 5, "the workspace's end")


def test_its_end_ends_what_hides(off):
    mark = f"49{os.getpid()}"
    result = off.run({"command": f"(setsid setsid sleep {mark} >/dev/null 2>&1 &); sleep 0.2; sleep {mark} & echo done"})
    assert result["stdout"] == "done\n" and result["status"] == "ok"
    wait_until(lambda: is_gone(mark.encode()), 3, "its end")


def test_cancelling_ends_it(off):
    mark = f"47{os.getpid()}"
    status, run = off.ask({"command": f"(setsid setsid sleep {mark} &); sleep {mark}", "background": True})
    assert status == 202
    wait_until(lambda: not is_gone(mark.encode()), 5, "its start")
    off.ask({}, path=f"/v1/runs/{run['id']}", method="DELETE")
    wait_until(lambda: is_gone(mark.encode()), 5, "its end")


@pytest.mark.parametrize("which", ["serve", "launcher", "api"])
def test_kill_9_leaves_nothing(off, which):
    mark = f"46{os.getpid()}"
    status, _ = off.ask({"command": f"(setsid setsid sleep {mark} >/dev/null 2>&1 &); mkdir -m 0 closed; sleep {mark}",
                         "background": True})
    assert status == 202
    wait_until(lambda: not is_gone(mark.encode()) and workspaces(off), 5, "its start")
    off.daemon.kill9(which)
    wait_until(lambda: is_gone(mark.encode()), 5, "its end")
    if which == "serve":
        off.daemon.start()
    wait_until(lambda: not workspaces(off), 5, "the workspace's end")


def test_a_workspace_that_does_not_want_to_go(off):
    off.run({"command": "mkdir -p a/b; touch a/b/c; ln -s / a/l; ln -s /etc/passwd p; chmod 0 a/b a; chmod 0 ."})
    wait_until(lambda: not workspaces(off), 5, "the workspace's end")
    assert os.path.exists("/etc/passwd")


# Modes

def test_mode_all_is_the_default(make_daemon):
    d = Direct(make_daemon())
    assert is_sandboxed(d.run({"code": "1", "trusted": True}))
    for body in ({"engine": "direct"}, {"mode": "off"}, {"mode": "selective", "trusted": True}):
        d.refused({"code": "1", **body}, "policy_denied", "mode")
        d.refused({"code": "1", **body}, "policy_denied", "mode", uid=0)


def test_selective(direct):
    d = direct("mode = selective")
    result = d.run({"command": "id -u"})
    assert is_sandboxed(result) and "not marked as trusted" in result["engine_reason"]
    result = d.run({"command": "id -u", "trusted": True})
    assert is_direct(result) and "marked as trusted" in result["engine_reason"]
    assert is_direct(d.run({"code": "1", "trusted": True, "engine": "direct"}))
    assert is_sandboxed(d.run({"code": "1", "trusted": True, "mode": "all"}))
    assert is_sandboxed(d.run({"code": "1", "trusted": True, "engine": "native"}))
    d.refused({"code": "1", "engine": "direct"}, "policy_denied", "trusted")
    d.refused({"code": "1", "trusted": True, "mode": "off"}, "policy_denied", "selective")


def test_off_can_be_narrowed(off):
    assert is_sandboxed(off.run({"code": "1", "mode": "all"}))
    assert is_sandboxed(off.run({"code": "1", "engine": "native"}))
    assert is_sandboxed(off.run({"code": "1", "mode": "selective"}))
    assert is_direct(off.run({"code": "1", "engine": "direct"}))


def test_keys_bounds(direct):
    d = direct(f"mode = off\ndirect_over_tcp = yes\ndirect_user = {USER}")
    native, _ = d.daemon.key("n", tier="unrestricted", bounds={"engines": ["native"]})
    only, _ = d.daemon.key("d", tier="unrestricted", bounds={"engines": ["direct"]})
    both, _ = d.daemon.key("b", tier="unrestricted", bounds={"engines": ["native", "direct"]})
    result = d.daemon.run("1", key=native)
    assert is_sandboxed(result) and "key" in result["engine_reason"]
    error = d.daemon.post("/v1/runs", {"code": "1", "engine": "direct"}, key=native).refused(403, "policy_denied")
    assert "engines" in error["hint"]
    d.refused({"code": "1", "engine": "direct"}, "policy_denied", "engines", key=native)
    assert is_direct(d.daemon.run("1", key=only), USER) and is_direct(d.daemon.run("1", key=both), USER)
    d.daemon.post("/v1/runs", {"code": "1", "mode": "all"}, key=only).refused(403, "policy_denied")


def test_live_sandboxes_are_sandboxes(off):
    status, box = off.ask({}, path="/v1/sandboxes")
    assert status == 201, box
    result = off.run({"command": "id -u"}, path=f"/v1/sandboxes/{box['id']}/runs")
    assert is_sandboxed(result) and result["stdout"] == "1000\n"
    for more in ({"engine": "direct"}, {"mode": "off"}, {"trusted": True}):
        off.refused(more, "unsupported", "lives on", path="/v1/sandboxes")


def test_batches(off):
    body = {"runs": [{"command": "id -u"}, {"command": "id -u", "mode": "all"}]}
    done = subprocess.run([sys.executable, "-c", CLIENT, str(CALLER), str(off.daemon.socket), "POST", "/v1/batches",
                           json.dumps(body), ""], capture_output=True, timeout=60)
    outs = sorted(re.findall(rb'"stdout":"(\d+)', done.stdout))
    assert outs == sorted([str(CALLER).encode(), b"1000"]), done.stdout


def test_dry_run_says_as_whom(direct):
    d = direct("mode = off")
    plan = d.run({"code": "1", "dry_run": True})["dry_run"]
    assert (plan["engine"], plan["user"], plan["sandboxed"]) == ("direct", str(CALLER), False)
    assert "mode off" in plan["engine_reason"] and plan["network"] == "host" and plan["enforced"] == []
    plan = d.run({"code": "1", "dry_run": True, "mode": "all"})["dry_run"]
    assert (plan["engine"], plan["user"], plan["sandboxed"]) == ("native", None, True) and plan["enforced"]
    d.refused({"code": "1", "dry_run": True}, "policy_denied", "direct_user", uid=0)


# The client

def test_cay_run_says_so(off):
    cay = off.daemon.cay
    cay.prefix = ["setpriv", f"--reuid={CALLER}", f"--regid={CALLER}", "--clear-groups"]
    try:
        done = cay.run("--", "id", "-u", env={"CAY_HOST": f"unix:{off.daemon.socket}"})
    finally:
        cay.prefix = []
    assert done.rc == 0 and done.text == f"{CALLER}\n"
    assert done.errors.count("cay: ") == 1 and "without a sandbox" in done.errors, done.errors
