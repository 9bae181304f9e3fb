"""Sandboxes that live on: what stays, what ends, and who says so."""

import concurrent.futures
import io
import tarfile
import time

import pytest

from support import wait_until


@pytest.fixture
def box(daemon):
    made = daemon.request("POST", "/v1/sandboxes", json={}).ok(201)
    yield made["id"]
    daemon.request("DELETE", f"/v1/sandboxes/{made['id']}")


def run(daemon, box, **body):
    return daemon.request("POST", f"/v1/sandboxes/{box}/runs", json=body)


def out(daemon, box, line, **more):
    result = run(daemon, box, command=line, **more).ok()
    assert result["status"] == "ok", result
    return result["stdout"]


def test_files_and_background_processes_stay(daemon, box):
    out(daemon, box, "mkdir d; echo kept >d/f; (setsid sleep 1000 >/dev/null 2>&1 &)")
    assert out(daemon, box, "cat d/f; pgrep -c sleep") == "kept\n1\n"


def test_what_is_left_running_may_go_on_printing(daemon, box):
    """Its pipe has a reader, although the command is over."""
    out(daemon, box, "(for i in $(seq 20); do echo $i; sleep 0.05; done; touch survived) & echo started")
    wait_until(lambda: out(daemon, box, "ls") == "survived\n", 20, "the background process")


def test_a_result_names_its_sandbox(daemon, box):
    result = run(daemon, box, command="true").ok()
    assert result["sandbox"] == box
    assert result["isolation"]["seccomp"] == "allowlist"


def test_commands_side_by_side(daemon, box):
    ids = [daemon.request("POST", f"/v1/sandboxes/{box}/runs", json={
        "command": f"echo {n} >>all; while [ $(wc -l <all) -lt 5 ]; do sleep 0.02; done",
        "background": True}).ok(202)["id"] for n in range(5)]
    for id in ids:
        wait_until(lambda: daemon.request("GET", f"/v1/runs/{id}").ok().get("status") == "ok", 20,
                   "a command in the background")


PROGRAMS = {
    "c": '#include <stdio.h>\nint main(void) {{ puts("{0}"); }}',
    "go": 'package main\nimport "fmt"\nfunc main() {{ fmt.Println("{0}") }}',
    "java": 'public class Main {{ public static void main(String[] a) {{ System.out.println("{0}"); }} }}',
    "lua": 'print("{0}")',
}


@pytest.mark.parametrize("language", PROGRAMS)
def test_compilers_side_by_side(daemon, box, language):
    """Each has its own source and its own program, and nothing of either is left."""
    n = 2 if language == "java" else 4  # a JVM has twenty threads and more
    out(daemon, box, "echo mine >main.c; echo mine >main.lua")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda i: run(daemon, box, language=language, get=["main.*"],
                                           code=PROGRAMS[language].format(f"I am {i}")).ok(), range(n)))
    assert [r["stdout"] for r in done] == [f"I am {i}\n" for i in range(n)], done
    assert {f["path"] for r in done for f in r["files"]} >= {"main.c", "main.lua"}
    assert out(daemon, box, "cat main.c main.lua; ls; ls /tmp /tmp/cay-build | grep run_ || true") == \
        "mine\nmine\nmain.c\nmain.lua\n"


def test_nothing_is_left_of_a_program_that_does_not_compile(daemon, box):
    result = run(daemon, box, language="c", code="int main(void) { return x; }").ok()
    assert result["status"] == "failed" and "main-run_" in result["compile"]["output"], result
    run(daemon, box, language="c", code="int main(void) { for (;;) ; }", limits={"timeout": 1}).ok()
    assert out(daemon, box, "ls; ls /tmp/cay-build") == ""


def test_a_file_is_run_where_it_lies(daemon, box):
    out(daemon, box, "mkdir d; echo 'import other, sys; print(other.word, sys.argv)' >d/a.py; echo 'word = 1' >d/other.py")
    result = run(daemon, box, file="d/a.py", args=["x"]).ok()
    assert result["stdout"] == "1 ['/workspace/d/a.py', 'x']\n" and result["language"] == "python", result
    files = [{"path": "b.c", "text": PROGRAMS["c"].format("compiled")}]
    assert run(daemon, box, file="b.c", files=files).ok()["stdout"] == "compiled\n"
    assert daemon.request("POST", "/v1/runs", json={"file": "b.c", "files": files}).ok()["stdout"] == "compiled\n"
    assert out(daemon, box, "ls; ls /tmp/cay-build") == "b.c\nd\n"  # it is the user's, and stays
    assert "file" in run(daemon, box, file="tool").refused(400, "invalid_request")["message"]
    run(daemon, box, file="a.py", code="1").refused(400, "invalid_request")
    run(daemon, box, file="A.java").refused(422, "unsupported")


def test_a_program_includes_what_lies_beside_it(daemon, box):
    out(daemon, box, "echo '#define WORD \"header\"' >word.h")
    code = '#include <stdio.h>\n#include "word.h"\nint main(void) { puts(WORD); }'
    assert run(daemon, box, language="c", code=code).ok()["stdout"] == "header\n"


def test_a_time_out_ends_the_command_alone(daemon, box):
    out(daemon, box, "(setsid sleep 1111 >/dev/null 2>&1 &)")
    result = run(daemon, box, command="echo begun; (setsid sleep 2222 &) ; sleep 3333",
                 limits={"timeout": 0.5}).ok()
    assert (result["status"], result["stdout"]) == ("timeout", "begun\n")
    if not result["isolation"]["degraded"]:
        wait_until(lambda: out(daemon, box, "pgrep -a sleep | cut -d' ' -f3") == "1111\n", 5,
                   "the end of what the command started")
    assert out(daemon, box, "echo well") == "well\n"


# Processes that leave their parents, one after the other, as fast as they can.
LEAVING = """
import os, sys
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


def test_commands_beside_one_that_is_ended_go_on(daemon, box):
    """With cgroups and without; and nothing of the one that is ended does."""
    daemon.request("PUT", f"/v1/sandboxes/{box}/files?path=leaving.py", body=LEAVING.encode()).ok(201)
    beside = [run(daemon, box, command="(sleep 1111; true) & wait; echo not ended", background=True).ok(202)["id"]
              for _ in range(3)]
    for line in ("(setsid sleep 2222 &) ; sleep 3333", "python3 leaving.py & sleep 3333"):
        result = run(daemon, box, command=line, limits={"timeout": 0.5}).ok()
        assert result["status"] == "timeout"
        wait_until(lambda: out(daemon, box, "pgrep -c '^(python3|sleep)' || true") == "3\n", 5,
                   "the end of what the command started")
    for id in beside:
        assert daemon.request("GET", f"/v1/runs/{id}").ok()["status"] == "running"
        daemon.request("DELETE", f"/v1/runs/{id}").ok(202)
        wait_until(lambda: daemon.request("GET", f"/v1/runs/{id}").ok()["status"] == "cancelled", 5, "its end")


def test_no_memory_is_told_of_the_command_and_the_sandbox_lives(daemon):
    made = daemon.request("POST", "/v1/sandboxes", json={"limits": {"memory": "64m"}}).ok(201)
    box = made["id"]
    if daemon.who == "user":  # without a cgroup there is no limit, and it says so
        assert "memory" in made["isolation"]["degraded"]
        return
    result = run(daemon, box, code="x = bytearray(200 << 20)").ok()
    assert result["status"] == "out_of_memory", result
    assert out(daemon, box, "echo well") == "well\n"
    daemon.request("DELETE", f"/v1/sandboxes/{box}").ok()


def test_names_are_one_s_own(daemon):
    first = daemon.request("POST", "/v1/sandboxes", json={"name": "n1"}).ok(201)
    daemon.request("POST", "/v1/sandboxes", json={"name": "n1"}).refused(409, "conflict")
    assert daemon.request("GET", "/v1/sandboxes/n1").ok()["id"] == first["id"]
    daemon.request("DELETE", "/v1/sandboxes/n1").ok()
    daemon.request("POST", "/v1/sandboxes", json={"name": "n1"}).ok(201)
    daemon.request("DELETE", "/v1/sandboxes/n1").ok()


def test_what_is_gone_says_so(daemon):
    id = daemon.request("POST", "/v1/sandboxes", json={}).ok(201)["id"]
    assert daemon.request("DELETE", f"/v1/sandboxes/{id}").ok()["state"] == "gone"
    for method, path in (("DELETE", ""), ("GET", ""), ("POST", "/pause"), ("GET", "/logs")):
        daemon.request(method, f"/v1/sandboxes/{id}{path}").refused(410, "expired")
    run(daemon, id, command="true").refused(410, "expired")
    daemon.request("GET", "/v1/sandboxes/sbx_0000000000000000").refused(404, "not_found")


def test_deleted_while_busy(daemon, box):
    id = daemon.request("POST", f"/v1/sandboxes/{box}/runs",
                        json={"command": "sleep 1000", "background": True}).ok(202)["id"]
    daemon.request("DELETE", f"/v1/sandboxes/{box}").ok()
    wait_until(lambda: daemon.request("GET", f"/v1/runs/{id}").ok()["status"] == "cancelled", 10,
               "the end of what ran there")


def test_idle_and_expired_are_reaped(daemon):
    idle = daemon.request("POST", "/v1/sandboxes", json={"idle_timeout": 1}).ok(201)["id"]
    busy = daemon.request("POST", "/v1/sandboxes", json={"idle_timeout": 1}).ok(201)["id"]
    old = daemon.request("POST", "/v1/sandboxes", json={"ttl": 1}).ok(201)["id"]
    daemon.request("POST", f"/v1/sandboxes/{busy}/runs",
                   json={"command": "sleep 1000", "background": True}).ok(202)
    for gone in (idle, old):
        wait_until(lambda: daemon.get(f"/v1/sandboxes/{gone}").status != 200, 10, "its end")
    assert "idle" in daemon.request("GET", f"/v1/sandboxes/{idle}").refused(410, "expired")["message"]
    assert "expired" in daemon.request("GET", f"/v1/sandboxes/{old}").refused(410, "expired")["message"]
    daemon.request("GET", f"/v1/sandboxes/{busy}").ok()
    daemon.request("DELETE", f"/v1/sandboxes/{busy}").ok()


def test_pause(daemon, box):
    if daemon.who == "user":
        daemon.request("POST", f"/v1/sandboxes/{box}/pause").refused(422, "unsupported")
        return
    out(daemon, box, "(while :; do date +%s%N >now; sleep 0.01; done >/dev/null 2>&1 &)")
    assert daemon.request("POST", f"/v1/sandboxes/{box}/pause").ok()["state"] == "paused"
    daemon.request("POST", f"/v1/sandboxes/{box}/pause").refused(409, "conflict")
    assert "resume" in run(daemon, box, command="true").refused(409, "conflict")["hint"]
    time.sleep(0.3)
    assert daemon.request("POST", f"/v1/sandboxes/{box}/resume").ok()["state"] == "live"
    daemon.request("POST", f"/v1/sandboxes/{box}/resume").refused(409, "conflict")
    first = out(daemon, box, "cat now")
    wait_until(lambda: out(daemon, box, "cat now") != first, 5, "the process that was paused")


def test_changes(daemon, box):
    changed = daemon.request("PATCH", f"/v1/sandboxes/{box}",
                             json={"labels": {"a": "b"}, "ttl": 100, "idle_timeout": 50}).ok()
    assert changed["labels"] == {"a": "b"} and changed["idle_timeout"] == 50 and changed["expires"]
    daemon.request("PATCH", f"/v1/sandboxes/{box}", json={"limits": {}}).refused(400, "invalid_request")


def test_what_was_decided_can_t_be_asked_for_again(daemon, box):
    run(daemon, box, command="true", limits={"memory": "1g"}).refused(400, "invalid_request")
    run(daemon, box, command="true", mounts=[]).refused(400, "invalid_request")


def test_it_begins_with_its_files(daemon):
    files = [{"path": "d/tool", "text": "#!/bin/sh\necho it is $(id -un)\n", "executable": True},
             {"path": "/tmp/t", "data": "AAEC"}, {"path": "large", "text": "x" * (8 << 20)}]
    box = daemon.request("POST", "/v1/sandboxes", json={"files": files}).ok(201)["id"]
    assert out(daemon, box, "d/tool; od -An -tx1 /tmp/t; wc -c <large; stat -c %U large") == \
        "it is cay\n 00 01 02\n8388608\ncay\n"
    daemon.request("DELETE", f"/v1/sandboxes/{box}").ok()


def test_a_sandbox_whose_files_can_t_be_put_there_is_none(daemon):
    before = daemon.request("GET", "/v1/sandboxes").ok()
    error = daemon.request("POST", "/v1/sandboxes", json={"files": [{"path": "/usr/f", "text": ""}]})
    assert "usr/f" in error.refused(403, "policy_denied")["message"]
    files = [{"path": "f", "text": "x" * (2 << 20)}]
    daemon.request("POST", "/v1/sandboxes", json={"files": files, "limits": {"disk": "1m"}}).refused(413, "too_large")
    assert daemon.request("GET", "/v1/sandboxes").ok() == before


def test_idempotency_of_what_is_done_to_it(daemon, box):
    """Of every POST there: the second gets the first one's answer, and nothing is done."""
    def twice(what, key, **more):
        first, second = (daemon.request("POST", f"/v1/sandboxes/{box}/{what}", headers={"Idempotency-Key": key}, **more)
                         for _ in range(2))
        assert (second.status, second.body) == (first.status, first.body), second.body
        assert second.headers["idempotency-replayed"] == "true" and "idempotency-replayed" not in first.headers
        return first.ok(first.status)

    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as t:
        t.addfile(tarfile.TarInfo("f"))
    twice("files/mkdir", "a", json={"path": "d"})
    twice("files/move", "b", json={"from": "d", "to": "e"})
    assert twice("files/archive?path=e", "c", body=tar.getvalue() + bytes(4 << 20))["entries"] == 1
    twice("runs", "d", json={"command": "echo x >>e/f; date +%N"})
    assert out(daemon, box, "cat e/f") == "x\n"
    archive = f"/v1/sandboxes/{box}/files/archive"
    for path, body in (("e", tar.getvalue()), ("elsewhere", tar.getvalue() + bytes(4 << 20))):
        daemon.request("POST", f"{archive}?path={path}", body=body,
                       headers={"Idempotency-Key": "c"}).refused(409, "conflict")
    if daemon.who == "root":
        twice("pause", "e")
        twice("resume", "f")


def test_what_would_be_made(daemon):
    body = {"dry_run": True, "limits": {"memory": "64m"}, "env": {"A": "b"}, "persistent": True, "name": "dry"}
    plan = daemon.request("POST", "/v1/sandboxes", json=body).ok()["dry_run"]
    assert plan["limits"]["memory"] == 64 << 20 and plan["limits"]["timeout"] == 300
    assert "A=b" in plan["env"] and plan["argv"] == [] and "seccomp" in plan["enforced"]
    assert [m["target"] for m in plan["mounts"]] == ["/workspace"]
    assert daemon.request("GET", "/v1/sandboxes/dry").status == 404
    daemon.request("POST", "/v1/sandboxes", json={"dry_run": True, "limits": {"memory": "1k"}}).refused(
        400, "invalid_request")


def test_environment_of_the_sandbox_and_of_the_command(daemon):
    box = daemon.request("POST", "/v1/sandboxes", json={"env": {"A": "1", "B": "2"}}).ok(201)["id"]
    assert out(daemon, box, 'echo "$A $B $C"', env={"B": "3", "C": "4"}) == "1 3 4\n"
    daemon.request("DELETE", f"/v1/sandboxes/{box}").ok()


def test_compiled_languages(daemon, box):
    for n in range(2):
        result = run(daemon, box, language="c",
                     code=f'#include <stdio.h>\nint main(void) {{ puts("{n}"); }}').ok()
        assert (result["stdout"], result["compile"]["success"]) == (f"{n}\n", True)
    result = run(daemon, box, language="c", code="int main(void) { return x; }").ok()
    assert result["status"] == "failed" and "undeclared" in result["compile"]["output"]


WHEEL = r"""
import base64, hashlib, zipfile
files = {"island_demo.py": "answer = 42\n",
         "island_demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: island-demo\nVersion: 1.0\n",
         "island_demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
record = "".join(f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()},{len(t)}\n"
                 for n, t in files.items()) + "island_demo-1.0.dist-info/RECORD,,\n"
with zipfile.ZipFile("island_demo-1.0-py3-none-any.whl", "w") as z:
    for name, text in {**files, "island_demo-1.0.dist-info/RECORD": record}.items():
        z.writestr(name, text)
"""


def test_packages_stay_installed(daemon):
    box = daemon.request("POST", "/v1/sandboxes", json={}).ok(201)["id"]
    assert run(daemon, box, code=WHEEL).ok()["status"] == "ok"
    result = run(daemon, box, command="pip install ./island_demo-1.0-py3-none-any.whl").ok()
    assert result["status"] == "ok", result
    assert run(daemon, box, code="import island_demo; print(island_demo.answer)").ok()["stdout"] == "42\n"
    out(daemon, box, "mkdir -p pkg/package && cd pkg && printf '{\"name\":\"demo\",\"version\":\"1.0.0\","
        "\"main\":\"i.js\"}' >package/package.json && echo 'module.exports = 43' >package/i.js && "
        "tar czf ../demo.tgz package")
    result = run(daemon, box, command="npm install --offline --no-audit --no-fund ./demo.tgz").ok()
    assert result["status"] == "ok", result
    result = run(daemon, box, language="node", code="console.log(require('demo'))").ok()
    assert result["stdout"] == "43\n", result
    daemon.request("DELETE", f"/v1/sandboxes/{box}").ok()


def test_nobody_is_left_in_the_middle_by_a_crash(make_daemon):
    """What ran is interrupted or cancelled, what lived is lost, and the next start serves on."""
    for which in ("api", "launcher"):
        daemon = make_daemon()
        box = daemon.request("POST", "/v1/sandboxes", json={}).ok(201)["id"]
        id = daemon.request("POST", f"/v1/sandboxes/{box}/runs",
                            json={"command": "sleep 1000", "background": True}).ok(202)["id"]
        daemon.kill9(which)
        assert daemon.request("GET", f"/v1/runs/{id}").ok()["status"] == "interrupted"
        daemon.request("GET", f"/v1/sandboxes/{box}").refused(410, "expired")
        assert daemon.request("POST", "/v1/runs", json={"command": "echo on"}).ok()["stdout"] == "on\n"
        daemon.stop()


def test_cpu_time_of_commands_side_by_side(daemon):
    """Each has its own, of all that it started; its neighbour is not charged."""
    if daemon.who == "user":
        return  # without a cgroup each process has its own
    work = ("import os, time\nfor n in range(3):\n    if os.fork() == 0:\n"
            "        while time.process_time() < 0.6: pass\n        os._exit(0)\nfor n in range(3): os.wait()")
    path = f"/v1/sandboxes/{daemon.post('/v1/sandboxes', {'limits': {'cpu_time': 1}}).ok(201)['id']}"
    neighbour = daemon.post(f"{path}/runs", {"code": "import time\ntime.sleep(3)", "background": True}).ok(202)["id"]
    worker = daemon.post(f"{path}/runs", {"code": work}).ok()
    assert (worker["status"], worker["message"]) == ("timeout", "CPU time limit of 1 s reached")
    assert daemon.post(f"{path}/runs", {"code": "print(1)"}).ok()["status"] == "ok"
    wait_until(lambda: daemon.get(f"/v1/runs/{neighbour}").ok()["status"] == "ok", 60, "the neighbour's end")
    daemon.delete(path).ok()
