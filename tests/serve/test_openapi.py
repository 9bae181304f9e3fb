"""api/openapi.yaml says what the daemon does: every operation is driven, and what is sent and what comes
back is compared with it; and it names the routes, fields and codes that the sources have."""
import io
import json
import re
import tarfile
import threading
import time

import jsonschema
import pytest

from described import METHODS, OPERATIONS, SCHEMAS, SPEC, Api, check, fits, resolve
from overlays import NAMED, below, daemon, named, workspace  # noqa: F401: fixtures among them
from sandbox import Sandbox
from support import ROOT, wait_until
from terminal import Terminal

by_root = pytest.mark.parametrize("daemon", ["root"], indirect=True)
SRC = ROOT / "src"


@pytest.fixture
def api(daemon):
    return Api(daemon)


# The description and the sources

def test_it_is_openapi():
    assert SPEC["openapi"].startswith("3.1.") and len(OPERATIONS) > 30
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
    assert SPEC["info"]["version"] == version
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_references():
    used = set(references(SPEC))
    for reference in used:
        assert resolve({"$ref": reference}) is not None
    defined = {f"#/components/{kind}/{name}" for kind, all in SPEC["components"].items()
               for name in all if kind != "securitySchemes"}
    assert used == defined


def test_parameters_of_paths():
    for op in OPERATIONS.values():
        named = {p["name"] for p in op.parameters if p["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", op.path)), op.id


def routes():
    """(method, pattern, name) of every row of api_routes, from the sources."""
    text = "\n".join(p.read_text() for p in sorted((SRC / "api").glob("*.c")))
    found = {}
    for name, row in re.findall(r"const struct route (route_\w+) =\s*(\{.*?\}|ROUTE\(.*?\));", text, re.S):
        if row.startswith("ROUTE"):
            method, pattern, id = re.findall(r'"([^"]*)"', row)
        else:
            method, pattern, id = (re.search(rf'\.{field} = "([^"]*)"', row)[1]
                                   for field in ("method", "pattern", "name"))
        found[name] = method, pattern, id
    listed = re.search(r"api_routes\[\] = \{(.*?)\};", (SRC / "api" / "routes.c").read_text(), re.S)[1]
    return [found[name] for name in re.findall(r"&(route_\w+)", listed)]


def test_every_route_is_described_and_the_other_way_round():
    described = {(o.method, o.path, o.id) for o in OPERATIONS.values()}
    assert sorted(routes()) == sorted(described)


def test_fields_of_requests():
    text = (SRC / "spec" / "request.c").read_text()
    places = {"PROGRAM": {"Run", "Command"}, "ISLAND": {"Run", "Sandbox"}, "ALL": {"Run", "Sandbox", "Command"},
              "REQUEST_SANDBOX": {"Sandbox"}, "REQUEST_RUN": {"Run"}, "REQUEST_COMMAND": {"Command"}}
    table = text[text.rindex("static const struct field fields[]"):]
    rows = re.findall(r'\{"(\w+)", [\w| ]+, \w+, (\w+)\}', table)
    assert len(rows) > 30
    for kind in ("Run", "Sandbox", "Command"):
        assert {n for n, place in rows if kind in places[place]} == \
            set(SCHEMAS[f"{kind}Request"]["properties"]), kind


def test_limits():
    names = re.findall(r'ROW\("(\w+)"', (SRC / "core" / "limit.c").read_text())
    assert set(names) == set(SCHEMAS["Limits"]["properties"]) == set(SCHEMAS["LimitsInForce"]["properties"])


def test_codes():
    rows = re.findall(r'\[CAY_E_\w+\] = \{"(\w+)", (\d+)\}', (SRC / "core" / "error.c").read_text())
    codes = SCHEMAS["ErrorCode"]
    assert {name: int(status) for name, status in rows} == codes["x-status"]
    assert set(codes["enum"]) == set(codes["x-status"])


@by_root
def test_it_is_what_is_served(api):
    served = api("openapi").json
    assert served == json.loads(json.dumps(SPEC))


# Every operation

def run_create(api):
    assert api("run.create", {"code": "print(6*7)"}).json["stdout"] == "42\n"
    api("run.create", {"command": "exit 3", "labels": {"a": "b"}, "limits": {"timeout": 5, "memory": "64m"}})
    api("run.create", {"argv": ["/bin/sh", "-c", "cat; kill -9 $$"], "stdin": "x"})
    api("run.create", {"command": r"printf '\377' | tee out", "get": ["out"], "env": {"A": "b"},
                       "files": [{"path": "in", "text": "x"}]})
    api("run.create", {"code": "int main(){return 0;}", "language": "c"})
    api("run.create", {"command": "sleep 9", "limits": {"timeout": "100ms"}})
    with api.events("run.create", {"command": r"echo o; echo e >&2; printf '\377'"}) as events:
        assert set(events.until("result")) == {"start", "stdout", "stderr", "result"}
    assert api("run.create", {"command": "true", "background": True}, status=202).json["id"]
    api("run.create", {"command": "true", "dry_run": True})
    api("run.create", {"code": "1", "argv": ["x"]}, 400, wrong=True)
    api("run.create", {"code": "1", "nosuch": 1}, 400, wrong=True)
    api("run.create", {"code": "1", "language": "klingon"}, 404)
    api("run.create", {"code": "1", "network": {"mode": "some"}}, 400, wrong=True)
    api("run.create", {"code": "1", "network": {"allow": ["10.0.0.1"]}}, 400)
    api("run.create", {"code": "1", "tier": "top"}, 400, wrong=True)
    dry = api("run.create", {"code": "1", "network": {"allow": ["a.b"], "block": ["c.d"]}, "dry_run": True})
    assert dry.json["dry_run"]["network_rules"] == {"allow": ["a.b"], "block": ["c.d"]}
    api("run.create", b"{", 400)


def background(api, command):
    return api("run.create", {"command": command, "background": True}, status=202).json["id"]


def run_list(api):
    background(api, "sleep 3")
    for run in api("run.list").json["runs"]:
        api("run.get", id=run["id"])
    first = api("run.list", limit=1).json
    if first.get("cursor"):
        api("run.list", limit=1, cursor=first["cursor"])
    api("run.list", limit=0, status=400, wrong=True)


def wait_for_result(api, id):
    wait_until(lambda: api("run.get", id=id).json["status"] != "running", 20, "the result")
    return api("run.get", id=id).json


def run_get(api):
    assert wait_for_result(api, background(api, "echo kept"))["stdout"] == "kept\n"
    api("run.get", id="run_0000000000000000", status=404)


def run_cancel(api):
    id = background(api, "sleep 60")
    api("run.cancel", id=id, status=202)
    assert wait_for_result(api, id)["status"] == "cancelled"
    api("run.cancel", id=id)
    api("run.cancel", id="run_0000000000000000", status=404)


def run_events(api):
    id = background(api, "sleep 0.5; echo hello")
    with api.events("run.events", id=id) as events:
        assert events.until("result")[-2:] == ["stdout", "result"]
    with api.events("run.events", id=id) as events:
        assert events.until("result") == ["result"]
    api("run.events", id="run_0000000000000000", status=404)


def batch_create(api):
    runs = [{"command": f"echo {n}"} for n in range(5)] + [{"code": "1", "language": "klingon"}]
    lines = [json.loads(x) for x in api("batch.create", {"runs": runs, "parallel": 2}).body.splitlines()]
    assert sorted(line["index"] for line in lines) == list(range(6))
    with api.events("batch.create", {"runs": runs[:2]}) as events:
        assert [name for name, _ in events] == ["result", "result"]
    api("batch.create", {"runs": 1}, 400, wrong=True)
    api("batch.create", {"runs": [], "more": 1}, 400, wrong=True)


def made(api, **request):
    return api("sandbox.create", request, status=201).json["id"]


def sandbox_create(api):
    id = made(api, name="described", labels={"a": "b"}, ttl="1h", idle_timeout=600, env={"A": "b"},
              limits={"memory": "256m"})
    api("sandbox.create", {"name": "described"}, 409)
    api("sandbox.delete", id=id)
    api("sandbox.create", {"code": "1"}, 400, wrong=True)
    api("sandbox.create", {"nosuch": 1}, 400, wrong=True)
    api("sandbox.create", {"ttl": 0}, 400, wrong=True)


def sandbox_list(api):
    id = made(api)
    assert id in [s["id"] for s in api("sandbox.list").json["sandboxes"]]
    api("sandbox.delete", id=id)


def sandbox_get(api):
    id = made(api, name="by-name")
    assert api("sandbox.get", id=id).json["id"] == api("sandbox.get", id="by-name").json["id"] == id
    api("sandbox.delete", id=id)
    api("sandbox.get", id="sbx_0000000000000000", status=404)


def sandbox_patch(api):
    id = made(api, labels={"a": "b"})
    changed = api("sandbox.patch", {"labels": {"c": "d"}, "ttl": 60, "idle_timeout": "2m"}, id=id).json
    assert changed["labels"] == {"c": "d"} and changed["expires"] and changed["idle_timeout"] == 120
    api("sandbox.patch", {"name": "x"}, 400, id=id, wrong=True)
    api("sandbox.patch", {"network": {"mode": "full"}}, 400, id=id, wrong=True)
    api("sandbox.patch", {"network": {"allow": ["a.b"]}}, 409, id=id)
    api("sandbox.delete", id=id)


def sandbox_delete(api):
    id = made(api)
    api("sandbox.delete", id=id)
    assert api.daemon.delete(f"/v1/sandboxes/{id}").status in (404, 410)


def sandbox_run(api):
    id = made(api)
    assert api("sandbox.run", {"code": "print(1)"}, id=id).json["sandbox"] == id
    with api.events("sandbox.run", {"command": "echo x"}, id=id) as events:
        events.until("result")
    run = api("sandbox.run", {"command": "sleep 0.1", "background": True}, id=id, status=202).json["id"]
    wait_for_result(api, run)
    api("sandbox.run", {"command": "true", "network": {"mode": "none"}}, 400, id=id, wrong=True)
    api("sandbox.run", {"command": "true", "limits": {"memory": "1g"}}, 400, id=id, wrong=True)
    api("sandbox.delete", id=id)
    api("sandbox.run", {"command": "true"}, 404, id="sbx_0000000000000000")


def scopes(api):
    run = api("run.create", {"command": "true", "scope": "session:described"}).json
    assert run["policy"]["scope"] == "session:described"
    assert run["sandbox"] in [s["id"] for s in api("scope.list").json["scopes"]]
    api("scope.end", scope="session:described")
    api("scope.end", scope="session:described", status=404)


def sandbox_pause(api):
    id = made(api)
    assert api("sandbox.pause", id=id).json["state"] == "paused"
    api("sandbox.run", {"command": "true"}, 409, id=id)
    assert api("sandbox.resume", id=id).json["state"] == "live"
    api("sandbox.delete", id=id)


def sandbox_logs(api):
    id = made(api)
    run = api("sandbox.run", {"command": r"echo x; printf '\377' >&2"}, id=id).json["id"]
    assert len(api("sandbox.logs", id=id).json["logs"]) == 2
    api("sandbox.logs", id=id, run=run)
    api("sandbox.logs", id=id, run="x", status=400, wrong=True)
    with api.events("sandbox.logs", id=id, follow="1") as events:
        assert {next(events)[0], next(events)[0]} == {"stdout", "stderr"}
        api("sandbox.delete", id=id)
        assert events.until("end") == ["end"]


def contexts(api):
    id = made(api)
    assert api("sandbox.run", {"code": "1", "context": "main"}, id=id).json["results"]
    assert [c["name"] for c in api("context.list", id=id).json["contexts"]] == ["main"]
    api("context.interrupt", id=id, name="main", status=409)
    with api.events("sandbox.run", {"code": "display(1); input('?')", "context": "main"}, id=id) as events:
        events.until("input")
        assert api("context.get", id=id, name="main").json["state"] == "busy"
        api("context.input", {"text": "x"}, id=id, name="main")
        events.until("result")
    api("context.input", {"text": "x"}, 409, id=id, name="main")
    api("context.input", {"texts": "x"}, 400, id=id, name="main", wrong=True)
    with api.events("sandbox.run", {"code": "import time; time.sleep(60)", "context": "main"}, id=id) as events:
        events.until("start")
        api("context.interrupt", id=id, name="main", status=202)
        events.until("result")
    api("context.restart", id=id, name="main")
    api("context.delete", id=id, name="main")
    api("context.get", id=id, name="main", status=404)
    api("sandbox.delete", id=id)


def terminal_open(api):
    op, id = OPERATIONS["terminal.open"], made(api)
    api.driven.add(op.id)
    words = op.response(101)["x-messages"]
    for message in ({"resize": [80, 24]}, {"signal": "USR1"}):
        check(words["client"], message)
    assert not fits(words["client"], {"resize": [0, 24]})
    with Terminal(Sandbox(api.daemon, id), command="read x", cols=100, rows=30) as t:
        t.say(resize=[80, 24])
        t.say(signal="USR1")
        t.type("\n")
        t.end()
        assert len(t.said) == 2
        for message in [t.hello, *t.said]:
            check(words["server"], message)
    api("terminal.open", id=id, status=426)
    api("sandbox.delete", id=id)


def with_files(api):
    id = made(api)
    api("file.write", b"hello", id=id, path="dir/file", mode="640", status=201)
    return id


def file_read(api):
    id = with_files(api)
    assert api("file.read", id=id, path="dir/file").body == b"hello"
    assert api("file.read", id=id, path="dir/file", headers={"Range": "bytes=1-2"}, status=206).body == b"el"
    api("file.read", id=id, path="nosuch", status=404)
    api("file.read", id=id, path="dir", status=409)
    api("file.read", id=id, status=400, wrong=True)
    api("sandbox.delete", id=id)


def file_write(api):
    id = with_files(api)
    api("file.write", b"more", id=id, path="dir/file", append="1")
    api("file.write", b"more", id=id, path="dir/file", overwrite="0", status=409)
    api("file.write", b"", id=id, path="x", mode="rwx", status=400, wrong=True)
    api("sandbox.delete", id=id)


def file_remove(api):
    id = with_files(api)
    api("file.remove", id=id, path="dir", status=409)
    assert api("file.remove", id=id, path="dir", recursive="1").json["removed"] == 2
    api("file.remove", id=id, path="dir", status=404)
    api("sandbox.delete", id=id)


def file_list(api):
    id = with_files(api)
    api("sandbox.run", {"command": "ln -s file dir/link; mkfifo dir/pipe; touch \"$(printf 'dir/\\377')\""}, id=id)
    assert len(api("file.list", id=id, path="dir").json["entries"]) == 4
    page = api("file.list", id=id, path="dir", limit=2, depth=3).json
    assert len(api("file.list", id=id, path="dir", limit=2, depth=3, cursor=page["cursor"]).json["entries"]) == 2
    api("file.list", id=id)
    api("file.list", id=id, depth=0, status=400, wrong=True)
    api("sandbox.delete", id=id)


def file_stat(api):
    id = with_files(api)
    assert api("file.stat", id=id, path="dir/file").json["mode"] == "0640"
    api("file.stat", id=id, path="dir", follow="1")
    api("file.stat", id=id, path="nosuch", status=404)
    api("sandbox.delete", id=id)


def file_mkdir(api):
    id = made(api)
    api("file.mkdir", {"path": "a/b", "mode": "750"}, id=id, status=201)
    api("file.mkdir", {"path": "a/b"}, id=id)
    api("file.mkdir", {"path": "a", "more": 1}, 400, id=id, wrong=True)
    api("sandbox.delete", id=id)


def file_move(api):
    id = with_files(api)
    api.daemon.post(f"/v1/sandboxes/{id}/files/mkdir", {"path": "other"})
    answer = api.daemon.post(f"/v1/sandboxes/{id}/files/move", {"from": "dir/file", "to": "other/file"})
    assert answer.status in (200, 201)
    api.compare(OPERATIONS["file.move"], answer)
    api.driven.add("file.move")
    api("file.move", {"from": "nosuch", "to": "x"}, 404, id=id)
    api("file.move", {"from": "x"}, 400, id=id, wrong=True)
    api("sandbox.delete", id=id)


def file_pack(api):
    id = with_files(api)
    for format in ("tar", "tar.gz", "tar.zst"):
        api("file.pack", id=id, path="dir", format=format)
    assert any(n.endswith("file") for n in
               tarfile.open(fileobj=io.BytesIO(api("file.pack", id=id).body)).getnames())
    api("file.pack", id=id, format="zip", status=400, wrong=True)
    api("sandbox.delete", id=id)


def file_unpack(api):
    id, data = made(api), io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        item = tarfile.TarInfo("in/side")
        item.size = 5
        tar.addfile(item, io.BytesIO(b"bytes"))
    assert api("file.unpack", data.getvalue(), id=id, path=".").json["bytes"] == 5
    api("file.unpack", b"no archive at all" * 100, 400, id=id)
    api("sandbox.delete", id=id)


def file_watch(api):
    id = made(api)
    with api.events("file.watch", id=id, recursive="1") as events:
        api("sandbox.run", {"command": "echo x > f; mv f g; mkdir d; rm g"}, id=id)
        assert events.until("change")
        api("sandbox.delete", id=id)
        events.until("end")


def key_create(api):
    key = api("key.create", {"name": f"described-{time.time_ns()}", "tier": "standard",
                             "quotas": {"parallel_runs": 3},
                             "bounds": {"networks": ["none"], "allow": ["*.a.b"], "block": ["c.a.b:22"],
                                        "mounts": "none", "limits": {"memory": "1g"}}}, 201).json
    api("key.create", {"name": key["name"]}, 409)
    api("key.create", {"tier": "sandbox"}, 400, wrong=True)
    api("key.create", {"name": "x", "tier": "nosuch"}, 400, wrong=True)
    return key["id"]


def key_list(api):
    id = key_create(api)
    assert id in [k["id"] for k in api("key.list").json["keys"]]
    page = api("key.list", limit=1, revoked="true").json
    assert len(page["keys"]) == 1


def key_revoke(api):
    id = key_create(api)
    api("key.revoke", id=id, status=204)
    api("key.revoke", id=id, status=404)


def runtime_list(api):
    assert any(r["language"] == "python" for r in api("runtime.list").json["runtimes"])
    api("runtime.list", language="python")
    api("runtime.list", language="klingon", status=400)


def image_list(api):
    assert api("image.list").json == {"images": []}
    api("image.list", name="nosuch", status=404)
    api("image.list", name="../x", status=400)


def image_pull(api):
    """Nobody listens there."""
    nobody = {"reference": "127.0.0.1:1/nobody:1", "platform": "linux/amd64"}
    assert api.daemon.post("/v1/images", nobody).status >= 400
    with api.events("image.pull", nobody) as events:
        events.until("error")
    api("image.pull", {"reference": "../x"}, 400)
    api("image.pull", {"reference": "host"}, 400)
    api("image.pull", {"reference": "x", "platform": "--all"}, 400)
    api("image.pull", {}, 400, wrong=True)


def image_remove(api):
    api("image.remove", name="nosuch:1", status=404)
    api("image.remove", name="../x", status=400)


def settings_put(api):
    made = api("settings.put", {"set": {"limits.memory": "64m", "limits.pids": None, "network.block": ["a.example"]}}).json
    assert made["version"] > 0
    api("settings.put", {"version": 0, "if_version": made["version"]})
    api("settings.put", {"version": 0, "if_version": made["version"]}, 409)
    api("settings.put", {"text": "[limits]\nmemory = 64m\n", "dry_run": True})
    api("settings.put", {"text": "[maximum]\n", "version": 0}, 400, wrong=True)
    api("settings.put", {"text": "[serve]\nhost = x\n"}, 403)
    api("settings.get")


def settings_history(api):
    settings_put(api)
    page = api("settings.history", limit=1).json
    api("settings.history", cursor=page["cursor"])


def health(api):
    assert api("health").json["status"] == "ok"


def events(api):
    with api.events("events") as stream:
        threading.Timer(0.2, lambda: api.daemon.post("/v1/runs", {"command": "true"})).start()
        assert stream.until("run.ended")[-2:] == ["run.started", "run.ended"]


def audit_list(api):
    api("run.create", {"command": "true"})
    page = api("audit.list", limit=1).json
    assert len(page["audit"]) == 1
    api("audit.list", operation="run.create", since=1, until=int(time.time() * 1000) + 1000)
    api("audit.list", cursor=page["cursor"])
    api("audit.list", since="yesterday", status=400, wrong=True)


def metrics(api):
    assert b"# TYPE" in api("metrics").body


def openapi(api):
    api("openapi")


SCENARIOS = {
    "run.create": run_create, "run.list": run_list, "run.get": run_get, "run.cancel": run_cancel,
    "run.events": run_events, "batch.create": batch_create, "sandbox.create": sandbox_create,
    "scope.list": scopes, "scope.end": scopes, "sandbox.list": sandbox_list, "sandbox.get": sandbox_get, "sandbox.patch": sandbox_patch,
    "sandbox.delete": sandbox_delete, "sandbox.run": sandbox_run, "sandbox.pause": sandbox_pause,
    "sandbox.resume": sandbox_pause, "sandbox.logs": sandbox_logs, **dict.fromkeys(
        ("context.list", "context.get", "context.delete", "context.interrupt", "context.restart", "context.input"),
        contexts), "terminal.open": terminal_open,
    "file.read": file_read, "file.write": file_write, "file.remove": file_remove, "file.list": file_list,
    "file.stat": file_stat, "file.mkdir": file_mkdir, "file.move": file_move, "file.pack": file_pack,
    "file.unpack": file_unpack, "file.watch": file_watch, "key.create": key_create, "key.list": key_list,
    "workspace.diff": workspace, "workspace.read": workspace, **dict.fromkeys(NAMED, named),
    "key.revoke": key_revoke, "runtime.list": runtime_list, "image.list": image_list, "image.pull": image_pull,
    "image.remove": image_remove, "settings.get": settings_put, "settings.put": settings_put,
    "settings.history": settings_history, "health": health, "events": events,
    "audit.list": audit_list, "metrics": metrics, "openapi": openapi,
}


@by_root
@pytest.mark.parametrize("id", OPERATIONS)
def test_operation(api, id):
    SCENARIOS[id](api)
    assert id in api.driven


def test_no_scenario_is_left_over():
    assert set(SCENARIOS) == set(OPERATIONS)


# What is not described is not there

@by_root
def test_what_is_not_there(daemon):
    answer = daemon.get("/v1/nosuch")
    assert answer.failure == (404, "not_found")
    check(SCHEMAS["Error"], answer.json)


@by_root
@pytest.mark.parametrize("path", SPEC["paths"])
def test_other_methods(daemon, path):
    item = SPEC["paths"][path]
    url = path.replace("{id}", "run_0000000000000000").replace("{name}", "nosuch")
    other = next(m for m in METHODS if m not in item)
    answer = daemon.request(other.upper(), url)
    assert answer.status == 405, answer.body
    check(SCHEMAS["Error"], answer.json)
    allowed = {m.strip() for m in answer.headers["allow"].split(",")}
    assert allowed - {"HEAD"} == {m.upper() for m in METHODS if m in item}


@by_root
@pytest.mark.parametrize("id", [i for i, o in OPERATIONS.items()
                                if "application/json" in o.node.get("requestBody", {}).get("content", {})])
def test_unknown_fields(daemon, api, id):
    op = OPERATIONS[id]
    with daemon.sandbox() as s:
        url = op.path.replace("{id}", s.id).replace("{name}", "nosuch")
        answer = daemon.request(op.method, url, {"surely_not_a_field": 1})
        assert answer.failure == (400, "invalid_request")
        api.compare(op, answer)
