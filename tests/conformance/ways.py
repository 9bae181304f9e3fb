"""Every way to have something run. All take a request of the API's and give its result, or {"error": …}.

A further engine is one more row in ways_of(): its name, how it is asked, and what it does
otherwise by design.
"""

import base64
import contextlib
import copy
import dataclasses
import itertools
import json
import re
import shutil
import typing

import in_containers
from support import STRANGER, wait_until

LIMITS_OF_A_COMMAND = {"timeout", "output"}
# Nothing tells of the most processes where the kernel does not count them and nobody looked in time.
USAGE = {"wall_ms": [float], "cpu_ms": [float], "memory_peak_bytes": [int], "processes_peak": [int, type(None)], "queued_ms": [float]}
CODE_MAX = 100_000  # of one argument
# What the operator allows, whichever way it is asked.
SETTINGS = "[network]\nmode = allowlist\nallow = *.example.org\nallow = git.example.org:22\n"
OPTIONS = {"memory": "--memory", "cpus": "--cpus", "pids": "--pids-limit", "disk": "--disk", "timeout": "--timeout",
           "cpu_time": "--cpu-time", "output": "--output-limit"}


@dataclasses.dataclass(frozen=True)
class Way:
    name: str
    ask: typing.Callable
    is_island: bool = True
    # What is otherwise for every result: the value of a field, or a function of the first way's.
    by_design: dict = dataclasses.field(default_factory=dict)
    # By a case's name: why it is otherwise, and the same; None: it is not asked.
    otherwise: dict = dataclasses.field(default_factory=dict)
    # What has other names there: pattern and the name it has the first way.
    names: tuple = ()

    def answer(self, request):
        text = json.dumps(normal(self.ask(request)), ensure_ascii=False)
        for pattern, name in self.names:
            text = re.sub(pattern, name, text)
        return json.loads(text)


class Places:
    """Directories that a command is started in, with the request's files there."""

    def __init__(self, scratch):
        self.scratch, self.numbers = scratch, itertools.count()

    @contextlib.contextmanager
    def __call__(self, files):
        place = self.scratch / f"c-{next(self.numbers)}"
        for file in files:
            path = place / file["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes_of(file))
            path.chmod(0o755 if file.get("executable") else 0o644)
        place.mkdir(exist_ok=True)
        try:
            yield place
        finally:
            shutil.rmtree(place)


def normal(answer):
    """Without what is never the same twice: ids and times. What it is made of is looked at."""
    answer = copy.deepcopy(answer)
    if "error" in answer:
        answer["error"].pop("request_id", None)
        return answer
    assert re.fullmatch(r"run_[0-9a-z]+", answer.pop("id"))
    answer["usage"] = {name: type(value) in USAGE[name] for name, value in answer["usage"].items()}
    # By whom it was started is nothing that a program could tell: tests/warm sees to that.
    assert re.fullmatch(r"cold|warm:[a-z]+", answer.pop("start"))
    if answer["compile"]:
        assert answer["compile"].pop("wall_ms") > 0
    return answer


def bytes_of(file):
    return base64.b64decode(file["data"]) if "data" in file else file["text"].encode()


def program(request):
    """The words that say what is run."""
    language = request.get("language", "python")
    if "version" in request:
        language += f"@{request['version']}"
    if "argv" in request:
        return ["--", *request["argv"]]
    args = request.get("args", [])
    if "command" in request:
        return ["-l", "sh", "-c", request["command"], *args]
    if "file" in request or "filename" in request:
        return [*(["-l", language] if "language" in request else []), request.get("file") or request["filename"], *args]
    if is_long(request):
        return ["-l", language, "-", *args]
    return ["-l", language, "-c", request["code"], *args]


def is_long(request):
    return "filename" not in request and len(request.get("code", "")) > CODE_MAX


def input_of(request):
    if is_long(request):
        return request["code"]
    return base64.b64decode(request["stdin_base64"]) if "stdin_base64" in request else request.get("stdin")


def options(request):
    for name, value in request.get("env", {}).items():
        yield from ("-e", f"{name}={value}")
    for name, value in request.get("limits", {}).items():
        yield from (OPTIONS[name], str(value))
    for top in sorted({file["path"].split("/")[0] for file in request.get("files", [])}):
        yield from ("--put", top)
    for glob in request.get("get", []):
        yield from ("--get", glob)
    if "workdir" in request:
        yield from ("-w", request["workdir"])
    network = request.get("network", {})
    if "mode" in network:
        yield from ("--network", network["mode"])
    for name in ("allow", "block"):
        for rule in network.get(name, []):
            yield from (f"--{name}-domain", rule)


def by_command(cay, places, *more, env=None):
    """As somebody types it, in a directory that has the request's files."""
    def ask(request):
        files = list(request.get("files", []))
        if "filename" in request:
            files.append({"path": request["filename"], "text": request["code"]})
        with places(files) as place:
            return cay.run("--json", *more, *options(request), *program(request), input=input_of(request),
                           env=env, cwd=place).json
    return ask


def by_post(daemon):
    return lambda request: daemon.post("/v1/runs", request).json


def beside(daemon):
    """A file is there too: nothing can be made ahead but the island, which waits for it."""
    return lambda request: daemon.post("/v1/runs", dict(request, files=[
        *request.get("files", []), {"path": ".beside", "text": ""}])).json


def by_events(daemon):
    """What was told on the way must be what the result has."""
    def ask(request):
        with daemon.events("POST", "/v1/runs", request) as events:
            if events.status != 200:
                return json.loads(events.response.read())
            got = list(events)
        name, result = got[-1]
        if name == "error":
            return result
        if got[0][0] == "start":
            assert got[0][1] == {"id": result["id"], "isolation": result["isolation"]}
        for stream in ("stdout", "stderr"):
            if not result[f"{stream}_truncated"] and not result["compile"]:
                told = b"".join(d["text"].encode() if "text" in d else base64.b64decode(d["base64"])
                                for name, d in got if name == stream)
                assert told == exact(result, stream)
        return result
    return ask


def exact(result, stream):
    """The bytes."""
    data = result.get(f"{stream}_base64")
    return base64.b64decode(data) if data is not None else result[stream].encode()


def in_batch(daemon):
    """Twice at the same time, which must not matter."""
    def ask(request):
        lines = daemon.post("/v1/batches", {"runs": [request] * 2, "parallel": 2}).lines
        one, other = ({name: value for name, value in line.items() if name != "index"} for line in lines)
        one, other = (line.get("result", line) for line in (one, other))
        assert normal(one) == normal(other)
        return one
    return ask


def kept_of(daemon, run):
    wait_until(lambda: daemon.get(run).json["status"] != "running", 60, "its end")
    kept = daemon.get(run).json
    return {"error": kept["error"]} if "error" in kept else kept


def last_event(daemon, run):
    with daemon.events("GET", f"{run}/events") as events:
        assert events.status == 200
        return list(events)[-1]


def followed(daemon):
    """Whether from its start or when it is over: at last it is told what is kept."""
    def ask(request):
        begun = daemon.post("/v1/runs", dict(request, background=True)).json
        if "error" in begun:
            return begun
        run = f"/v1/runs/{begun['id']}"
        told = last_event(daemon, run)
        answer = kept_of(daemon, run)
        assert told == last_event(daemon, run) == ("error" if "error" in answer else "result", answer)
        return answer
    return ask


def in_background(daemon):
    def ask(request):
        begun = daemon.post("/v1/runs", dict(request, background=True)).json
        if "error" in begun:
            return begun
        return kept_of(daemon, f"/v1/runs/{begun['id']}")
    return ask


def in_sandbox(daemon, borne=False):
    """What is the sandbox's is said when it is made. borne: by an interpreter, which must be there by then."""
    def is_borne():
        with daemon.sandbox() as sandbox:
            return sandbox.python("1")["start"] != "cold"

    def ask(request):
        if borne:
            wait_until(is_borne, 60, "a sandbox that is borne")
        limits = request.get("limits", {})
        theirs = {name: value for name, value in limits.items() if name not in LIMITS_OF_A_COMMAND}
        own = {name: value for name, value in limits.items() if name in LIMITS_OF_A_COMMAND}
        asked = {"limits": theirs, "cold": not borne}
        if "network" in request:
            asked["network"] = request["network"]
            request = {name: value for name, value in request.items() if name != "network"}
        made = daemon.post("/v1/sandboxes", asked).json
        if "error" in made:
            return made
        result = daemon.post(f"/v1/sandboxes/{made['id']}/runs", dict(request, limits=own)).json
        daemon.delete(f"/v1/sandboxes/{made['id']}")
        if "error" not in result:
            assert result["sandbox"] == made["id"]
            result["sandbox"] = None
        return result
    return ask


# Files of a command have names of their own, as others may run there at the same time.
OF_A_COMMAND = ((r"\bmain-run_\w+\.", "main."),)
# A workspace without an island is a directory of the host's; a script is where its caller has it.
OF_THE_HOST = ((r"/[\w/-]+/cay-direct-\d+-\w+/workspace", "/workspace"), (r"/[\w/-]+/c-\d+/", "/workspace/"))

NO_ISOLATION = {"user": "none", "disk": "none", "seccomp": "none", "landlock": 0, "network": "host",
                "read_only_root": False, "namespaces": []}
# A success has nothing else to say.
NO_SANDBOX = {"engine": "direct", "sandboxed": False, "network": "host", "image": None,
              "message": lambda first: first or f"ran without a sandbox, as user {STRANGER}"}


def policy(mode, why):
    return {"mode": mode, "tier": None, "scope": None, "why": why}


def in_container(cay, places, engine):
    """As somebody types it who wants that engine."""
    return Way(engine.name, by_command(cay, places, "--engine", engine.name, "--image", in_containers.IMAGE,
                                       env=engine.environment),
               by_design={**{name: value for name, (value, _) in in_containers.BY_DESIGN.items()}, "engine": engine.name},
               otherwise=in_containers.otherwise(engine.name))


def ways_of(cay, stranger, places, daemon, off, engines):
    host = {"CAY_HOST": f"unix:{daemon.socket}"}
    return [
        Way("cli", by_command(cay, places)),
        Way("cli by daemon", by_command(cay, places, env=host)),
        Way("post", by_post(daemon)),
        Way("cold", lambda request: by_post(daemon)(dict(request, cold=True))),
        Way("file beside", beside(daemon)),
        Way("events", by_events(daemon)),
        Way("batch", in_batch(daemon)),
        Way("background", in_background(daemon)),
        Way("followed", followed(daemon)),
        Way("sandbox", in_sandbox(daemon), names=OF_A_COMMAND),
        Way("borne sandbox", in_sandbox(daemon, borne=True), names=OF_A_COMMAND),
        # By its caller, with what that has: no cgroups.
        Way("direct cli", by_command(stranger, places, "--engine", "direct"), is_island=False, names=OF_THE_HOST,
            by_design=dict(
                NO_SANDBOX, engine_reason="asked for by name: no sandbox",
                policy=policy("off", "asked for by name: no sandbox"),
                isolation=lambda first: dict(first, **NO_ISOLATION, memory="none", pids="none", cpu="none",
                                             capabilities="kept", no_new_privs=False))),
        # By the launcher, in cgroups.
        Way("mode off", by_post(off), is_island=False, names=OF_THE_HOST, by_design=dict(
            NO_SANDBOX, engine_reason=f"mode off: no sandbox; as user {STRANGER}",
            policy=policy("off", "mode off: no sandbox"),
            isolation=lambda first: dict(first, **NO_ISOLATION))),
        *(in_container(cay, places, engine) for engine in engines),
    ]
