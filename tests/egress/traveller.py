"""cay in the world: how programs are sent out, and what is looked at when they are back."""

import json

from support import Cay, STRANGER

ALLOW = ("*.example.org",)

# The island's own; without them a program has only its own way of finding hosts.
NO_PROXIES = ["env", *(word for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
                       for word in ("-u", name, "-u", name.upper()))]


def words(option, values):
    return [word for value in values for word in (option, value)]


class Result:
    """Of a run with --json."""

    def __init__(self, done):
        self.seconds, self.all = done.seconds, done.json
        assert "error" not in self.all, self.all["error"]
        self.rc, self.out, self.err = self.all["exit_code"], self.all["stdout"], self.all["stderr"]

    def ok(self):
        assert self.rc == 0, (self.rc, self.out, self.err, self.egress)
        return self

    @property
    def json(self):
        return json.loads(self.ok().out)

    @property
    def egress(self):
        return self.all["egress"]

    def of(self, name, verdict):
        """The entries about a name that have this verdict: {(port or None, why)}."""
        return {(e.get("port"), e.get("why", "")) for e in self.egress if (e["name"], e["verdict"]) == (name, verdict)}

    def allowed(self, name, port):
        """The entry of connections that were; there must be one."""
        found = [e for e in self.egress if (e["name"], e.get("port"), e["verdict"]) == (name, port, "allowed")]
        assert len(found) == 1, self.egress
        return found[0]

    def denied(self, name, why):
        assert why in {w for _, w in self.of(name, "denied")}, self.egress

    def failed(self, name, why):
        assert why in {w for _, w in self.of(name, "failed")}, self.egress


class Traveller:
    """cay, started in the world by root or by an ordinary user; may go where ALLOW says unless told otherwise."""

    def __init__(self, world, place, scratch, who):
        self.world, self.place, self.who = world, place, who
        self.cay = Cay(place, scratch / ("home" if who == "root" else "stranger"), scratch / "tmp")
        self.cay.prefix = world.enter(place)
        self.options = []
        if who == "user":
            self.cay.prefix += ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
            self.options = ["--allow-degraded"]

    def arguments(self, command, allow=ALLOW, block=(), mode="allowlist", options=()):
        return ["--json", *self.options, *(["--network", mode] if mode else []), *words("--allow-domain", allow),
                *words("--block-domain", block), *options, "--", *command]

    def send(self, *command, allow=ALLOW, block=(), mode="allowlist", options=(), **more):
        """A program, with the variables that name a proxy; returns its Result."""
        more.setdefault("timeout", 90)
        return Result(self.cay.run(*self.arguments(command, allow, block, mode, options), **more))

    def direct(self, *command, **more):
        """A program that is told of no proxy."""
        return self.send(*NO_PROXIES, *command, **more)

    def python(self, code, **more):
        return self.direct("/usr/bin/python3", "-c", PRELUDE + code, **more)

    def begin(self, code, allow=ALLOW, **more):
        """Python code that runs on, for tests that meanwhile do something."""
        command = [*NO_PROXIES, "/usr/bin/python3", "-uc", PRELUDE + code]
        return self.cay.start("run", *self.arguments(command, allow), **more)


# What code on an island has at hand.
PRELUDE = """
import errno, hashlib, json, os, socket, struct, sys, time
def name_of(e):
    if isinstance(e, socket.gaierror): return {-2: 'EAI_NONAME', -3: 'EAI_AGAIN', -5: 'EAI_NODATA'}.get(e.errno, str(e.errno))
    if isinstance(e, TimeoutError) and not e.errno: return 'slow'
    return errno.errorcode.get(e.errno, repr(e)) if isinstance(e, OSError) else repr(e)
def attempt(f, *args):
    try: f(*args); return 'worked'
    except (OSError, ValueError) as e: return name_of(e)
def tcp(host, port, timeout=20):
    return socket.create_connection((host, port), timeout)
def tool(line, host='tcp.example.org', port=9000):
    s = tcp(host, port); s.sendall(line.encode() + b'\\n'); return s
def everything(s):
    return b''.join(iter(lambda: s.recv(1 << 16), b''))
def say(what): print(json.dumps(what), flush=True)
"""
