"""A sandbox's way out: what it costs, side by side with plain loopback and others' ways.

All of it happens in a world of its own (tests/egress/world.py): its public addresses are on its
loopback, and a server there is reached from the world itself ("bare"), from an island by
name, and from namespaces that slirp4netns and pasta lead out of, as rootless containers have
them. Those filter nothing and resolve nothing.
"""

import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import serve

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("egress", "integration")]

NAME, PORT = "v4.example.org", "7000"
SETTINGS = "[network]\nconnections = 2000\nconnection_rate = 0\n"
ALLOW = ["--allow-domain", f"{NAME}:{PORT}"]

# How a peer leads a namespace out. PID: a process there. Root's, as /dev/net/tun may be root's alone.
PEERS = {
    "slirp4netns": ["slirp4netns", "--configure", "--mtu=65520", "PID", "tap0"],
    "pasta": ["pasta", "--runas=0", "--foreground", "--quiet", "--config-net", "PID"],
}


class Peer:
    """A user and network namespace with a program that leads out of it."""

    def __init__(self, world, command):
        self.holder = subprocess.Popen(
            [*world.enter(), "unshare", "--user", "--map-root-user", "--net", "sh", "-c", "echo $$; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        pid = self.holder.stdout.readline().strip()
        self.prefix = ["nsenter", f"--target={pid}", "--user", "--net", "--preserve-credentials", "--"]
        self.way = subprocess.Popen([*world.enter(), *(pid if word == "PID" else word for word in command)],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self):
        self.way.terminate()
        self.way.wait(10)
        self.holder.stdin.close()
        self.holder.wait(10)
        self.holder.stdout.close()


class Ways:
    """How a client gets to the server: {name: the words in front of it} and what it calls the host."""

    def __init__(self, tool, cay, place, env):
        from world import WEB, World
        self.tool, self.env, self.address = str(tool), env, WEB
        self.peers, self.skipped = [], {}
        (place / "cay.conf").write_text(SETTINGS)
        self.env = {**env, "CAY_CONFIG": str(place / "cay.conf")}
        self.world = World(place)
        try:
            self.world.start(tool, "serve", WEB, PORT)
            self.prefixes = {
                "bare": [*self.world.enter(), self.tool],
                "cay": [*self.world.enter(place), cay, "run", *ALLOW, "--put", f"{tool}:client", "--", "./client"],
            }
            self.wait("bare")
            for name, command in PEERS.items():
                self.add_peer(name, command)
        except BaseException:
            self.end()
            raise

    def add_peer(self, name, command):
        try:
            peer = Peer(self.world, command)
            self.peers.append(peer)
            self.prefixes[name] = [*peer.prefix, self.tool]
            self.wait(name)
        except (OSError, RuntimeError) as error:
            self.prefixes.pop(name, None)
            self.skipped[name] = str(error)

    def wait(self, name):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                self.run(name, "connect", 1, timeout=2)
                return
            except subprocess.SubprocessError:
                time.sleep(0.1)
        raise RuntimeError(f"{name} leads nowhere")

    def run(self, name, what, n, timeout=120):
        host = NAME if name == "cay" else self.address
        done = subprocess.run([*self.prefixes[name], what, host, PORT, str(n)], env=self.env, check=True,
                              capture_output=True, text=True, timeout=timeout)
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def may_fail(self, name):
        """A peer may, and that is told."""
        try:
            yield
        except subprocess.SubprocessError as error:
            if name not in PEERS:
                raise
            self.skipped[f"{name}, at times"] = (getattr(error, "stderr", None) or str(error)).strip()

    def end(self):
        for peer in self.peers:
            peer.end()
        self.world.end()


def quartiles(values):
    values = sorted(values)
    return {"n": len(values), "p25": values[len(values) // 4], "median": statistics.median(values),
            "p75": values[len(values) * 3 // 4]}


def measure_round(ways, name, megabytes, connects):
    bytes_ = megabytes << 20
    return {"push": bytes_ / ways.run(name, "push", bytes_)["us"], "pull": bytes_ / ways.run(name, "pull", bytes_)["us"],
            "connect": ways.run(name, "connect", connects)["median"]}


def measure_ways(ways, rounds, megabytes, connects, at_once):
    """In turns, so that a busy neighbour is everybody's, and each turn is compared within itself."""
    turns = []
    for _ in range(rounds):
        turn = {}
        for name in random.sample(list(ways.prefixes), len(ways.prefixes)):
            with ways.may_fail(name):
                turn[name] = measure_round(ways, name, megabytes, connects)
        turns.append(turn)
    many = {}
    for name in list(ways.prefixes):
        with ways.may_fail(name):
            many[name] = min((ways.run(name, "many", at_once) for _ in range(3)), key=lambda m: m["us"])
    result = {}
    for name in ways.prefixes:
        pairs = [(turn[name], turn["bare"]) for turn in turns if name in turn]
        if not pairs:
            continue
        row = {what: quartiles([of[what] for of, _ in pairs]) for what in ("push", "pull", "connect")}
        for what in ("push", "pull"):
            row[what]["of_bare"] = statistics.median(of[what] / bare[what] for of, bare in pairs)
        row["connect"]["over_bare"] = statistics.median(of["connect"] - bare["connect"] for of, bare in pairs)
        result[name] = {**row, "many": {"n": at_once, **many.get(name, {})}}
    return result


def measure_starts(spawn, cay, rounds, tool, place, env, runs):
    """What a network adds to a program that does nothing, by itself and in the daemon."""
    run = [cay, "run"]
    one_shot = spawn(rounds, {"none": [*run, "--", "/bin/true"], "allowlist": [*run, *ALLOW, "--", "/bin/true"]})
    bodies = {"none": {"argv": ["/bin/true"]},
              "allowlist": {"argv": ["/bin/true"], "network": {"allow": [f"{NAME}:{PORT}"]}}}
    turns = {name: [] for name in bodies}
    daemon = serve.Daemon(cay, place, env)
    try:
        for _ in range(5):
            for name, body in bodies.items():
                out = subprocess.run([tool, "http", str(runs), "1", str(daemon.socket), json.dumps(body)], env=env,
                                     capture_output=True, text=True, check=True, timeout=600)
                turns[name].append(json.loads(out.stdout)["median_us"])
    finally:
        daemon.end()
    return {"one_shot": one_shot, "daemon": {name: quartiles(us) for name, us in turns.items()}}


def measure(bench):
    """As bench.py's other parts; what could not be measured goes to bench.skipped."""
    place = bench.scratch / "egress"
    place.mkdir()
    place.chmod(0o755)
    result = {"starts": measure_starts(bench.spawn, bench.cay.binary, bench.size("egress_starts"),
                                       str(bench.tools / "serve_bench"), place, bench.env,
                                       bench.size("egress_runs"))}
    if os.geteuid() != 0:
        bench.skipped["egress"] = "only root can make a world"
        return result
    ways = Ways(bench.tools / "egress_bench", bench.cay.binary, place, bench.env)
    try:
        result["ways"] = measure_ways(ways, bench.size("egress_rounds"), bench.size("egress_megabytes"),
                                      bench.size("egress_connects"), bench.size("egress_at_once"))
        bench.skipped.update(ways.skipped)
    finally:
        ways.end()
    return result


def print_table(result):
    if "ways" in result:
        at_once = result["ways"]["bare"]["many"]["n"]
        print(f"\n{'one connection, MB/s':<34}{'out':>9}{'of bare':>9}{'in':>9}{'of bare':>9}"
              f"{'connect':>9}{'+bare':>8} us {at_once:>6} at once, ms")
        for name, row in result["ways"].items():
            many = f"{row['many']['us'] / 1e3:18.0f}" if "us" in row["many"] else f"{'-':>18}"
            print(f"  {name:<32}{row['push']['median']:9.0f}{row['push']['of_bare']:9.2f}"
                  f"{row['pull']['median']:9.0f}{row['pull']['of_bare']:9.2f}{row['connect']['median']:9.0f}"
                  f"{row['connect']['over_bare']:+8.0f}    {many}")
    for how, rows in result["starts"].items():
        none, some = rows["none"]["median"] / 1e3, rows["allowlist"]["median"] / 1e3
        print(f"  /bin/true with a network, {how}: {some:.2f} ms, {some - none:+.2f} over none")


def targets_of(result):
    """As bench.py's; what should be at least so much is given as its inverse."""
    if "ways" not in result:
        return
    row = result["ways"]["cay"]
    for what, label in (("push", "out"), ("pull", "in")):
        inverse = 1 / row[what]["of_bare"]
        yield f"loopback to egress, bytes {label}", inverse, inverse, 1 / 0.5, "x"
    added = row["connect"]["over_bare"] / 1e3
    low = (row["connect"]["p25"] - result["ways"]["bare"]["connect"]["p25"]) / 1e3
    yield "connecting through egress, over loopback", added, low, 1.0, "ms"
