"""api/openapi.yaml, and a client that compares all that it sends and gets with that."""
import json
import re
import urllib.parse

import jsonschema
import yaml

from support import ROOT

SPEC = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
SCHEMAS = SPEC["components"]["schemas"]
METHODS = ("get", "put", "post", "patch", "delete")


def resolve(node):
    while isinstance(node, dict) and "$ref" in node:
        target = SPEC
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


class Operation:
    def __init__(self, path, method, node, shared):
        self.path, self.method, self.node = path, method.upper(), node
        self.parameters = [resolve(p) for p in shared + node.get("parameters", [])]
        self.id = node["operationId"]

    def response(self, status):
        for key in (str(status), f"{status // 100}XX"):
            if key in self.node["responses"]:
                return resolve(self.node["responses"][key])
        raise AssertionError(f"{self.id}: {status} is not described")


OPERATIONS = {o.id: o for o in (
    Operation(path, method, item[method], item.get("parameters", []))
    for path, item in SPEC["paths"].items() for method in METHODS if method in item)}


def check(schema, value):
    """Against a schema of the description."""
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": SPEC["components"], **schema}
    jsonschema.Draft202012Validator(whole).validate(value)


def fits(schema, value):
    try:
        check(schema, value)
    except jsonschema.ValidationError:
        return False
    return True


def as_parameter(schema, text):
    """What a text in a query stands for."""
    kind = resolve(schema).get("type")
    return int(text) if kind == "integer" and re.fullmatch("-?[0-9]+", text) else text


class Api:
    """Calls operations by their names, and compares both ways with the description."""

    def __init__(self, daemon):
        self.daemon, self.driven = daemon, set()

    def url(self, op, values, wrong):
        known = {p["name"]: p for p in op.parameters if p["in"] in ("path", "query")}
        needed = {name for name, p in known.items() if p.get("required")}
        path, query = op.path, {}
        for name, value in values.items():
            if not wrong:
                check(known[name]["schema"], as_parameter(known[name]["schema"], str(value)))
            if name in known and known[name]["in"] == "path":
                path = path.replace(f"{{{name}}}", urllib.parse.quote(value, safe=""))
            else:
                query[name] = value
        assert wrong or needed <= set(values), f"{op.id} needs {needed}"
        return path + ("?" + urllib.parse.urlencode(query) if query else "")

    def body(self, op, body, wrong):
        if body is None:
            assert wrong or not op.node.get("requestBody", {}).get("required")
            return None, {}
        kind, media = next(iter(op.node["requestBody"]["content"].items()))
        if isinstance(body, bytes):
            return body, {"Content-Type": kind}
        if not wrong:
            check(media["schema"], body)
        return json.dumps(body).encode(), {"Content-Type": kind}

    def __call__(self, operation, /, body=None, status=200, wrong=False, headers=None, **values):
        """wrong: what is sent is not as described, on purpose."""
        op = OPERATIONS[operation]
        self.driven.add(op.id)
        data, more = self.body(op, body, wrong)
        answer = self.daemon.request(op.method, self.url(op, values, wrong), body=data, headers={**more, **(headers or {})})
        assert answer.status == status, (op.id, answer.status, answer.body[:500])
        self.compare(op, answer)
        return answer

    def compare(self, op, answer):
        described = op.response(answer.status)
        assert answer.headers["x-request-id"]
        if "content" not in described:
            assert answer.body == b""
            return
        kind = answer.headers["content-type"].split(";")[0]
        assert kind in described["content"], f"{op.id}: {kind} is not described"
        media = described["content"][kind]
        if kind == "application/json":
            check(media["schema"], answer.json)
        if answer.status >= 400:
            code = answer.json["error"]["code"]
            expected = resolve({"$ref": "#/components/schemas/ErrorCode"})["x-status"][code]
            assert answer.status == expected or code == "invalid_request"
        if "x-line" in media:
            for line in answer.body.splitlines():
                check(media["x-line"], json.loads(line))

    def events(self, operation, /, body=None, **values):
        """A stream of events; each that comes is compared."""
        op = OPERATIONS[operation]
        self.driven.add(op.id)
        if body is not None:
            self.body(op, body, False)
        stream = self.daemon.events(op.method, self.url(op, values, False), body, timeout=30)
        assert stream.status == 200 and stream.response.headers["content-type"] == "text/event-stream"
        return Compared(stream, op.response(200)["content"]["text/event-stream"]["x-events"])


class Compared:
    def __init__(self, stream, described):
        self.stream, self.described = stream, described

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    def __iter__(self):
        return self

    def __next__(self):
        name, data = next(self.stream)
        assert name in self.described, f"the event {name} is not described"
        check(self.described[name], data)
        return name, data

    def until(self, wanted):
        """The names of all events up to that one."""
        names = []
        for name, _ in self:
            names.append(name)
            if name == wanted:
                return names
        raise AssertionError(names)
