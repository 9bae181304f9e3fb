"""One greedy key and nine modest ones, in a daemon that has room for four runs: what each run waits."""
import http.client
import json
import signal
import socket
import statistics
import subprocess
import threading
import time
from pathlib import Path

MODEST, ROOM = 9, 4
BODY = {"argv": ["/bin/sleep", "0.02"], "wait": "5m"}


class Daemon:
    def __init__(self, binary, scratch, env):
        self.dir = Path(scratch) / "fairness"
        self.dir.mkdir()
        config = self.dir / "cay.conf"
        config.write_text(f"[serve]\nmax_runs = {ROOM}\n")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.socket, self.log = self.dir / "s.sock", open(self.dir / "log", "w")
        self.process = subprocess.Popen(
            [binary, "serve", "--socket", self.socket, "--state", self.dir / "state", "--listen", f"127.0.0.1:{self.port}"],
            env={**env, "CAY_CONFIG": str(config)}, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        for _ in range(200):
            if '"serving"' in (self.dir / "log").read_text():
                return
            time.sleep(0.05)
        raise RuntimeError("the daemon did not start")

    def key(self, name):
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.socket))
        connection.request("POST", "/v1/keys", json.dumps({"name": name}))
        return json.loads(connection.getresponse().read())["key"]

    def client(self, key):
        """Posts by a connection that stays."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

        def post(path, body):
            connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {key}"})
            return connection.getresponse().read()
        return post

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.log.close()


def waits(daemon, keys, seconds):
    """In ms, of runs that each key has one after the other."""
    found, end = [], time.monotonic() + seconds

    def one(key):
        post = daemon.client(key)
        while time.monotonic() < end:
            found.append(json.loads(post("/v1/runs", BODY))["usage"]["queued_ms"])
    threads = [threading.Thread(target=one, args=(key,)) for key in keys]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return found


def flood(daemon, key, ms, stop):
    """A hundred at a time, for as long as the others go on."""
    post = daemon.client(key)
    while not stop.is_set():
        lines = post("/v1/batches", {"runs": [dict(BODY)] * 300, "parallel": 100}).splitlines()
        ms += [json.loads(line)["result"]["usage"]["queued_ms"] for line in lines]


def of(ms):
    ordered = sorted(ms)
    return {"runs": len(ms), "median_ms": statistics.median(ms), "p25_ms": ordered[len(ms) // 4],
            "p95_ms": ordered[len(ms) * 95 // 100]}


def measure(bench):
    daemon = Daemon(str(bench.cay.binary), bench.scratch, bench.env)
    try:
        seconds, keys = bench.size("fairness_seconds"), [daemon.key(f"modest{n}") for n in range(MODEST)]
        waits(daemon, keys, 0.5)
        alone, stop, greedy = waits(daemon, keys, seconds), threading.Event(), []
        one = threading.Thread(target=flood, args=(daemon, daemon.key("greedy"), greedy, stop))
        one.start()
        time.sleep(0.5)
        beside = waits(daemon, keys, seconds)
        stop.set()
        one.join()
    finally:
        daemon.end()
    return {"alone": of(alone), "beside": of(beside), "greedy": of(greedy)}


def print_table(result):
    print(f"\n{'room for ' + str(ROOM) + ' runs, ms of waiting':<34}{'runs':>8}{'median':>9}{'p95':>9}")
    for name, what in (("alone", "nine keys, one run each at a time"), ("beside", "the same beside a greedy one"),
                       ("greedy", "that one, a hundred at a time")):
        row = result[name]
        print(f"  {what:<32}{row['runs']:8}{row['median_ms']:9.1f}{row['p95_ms']:9.1f}")


def targets_of(result):
    ratio = result["beside"]["median_ms"] / max(1, result["alone"]["median_ms"])
    low = result["beside"]["p25_ms"] / max(1, result["alone"]["p25_ms"])
    yield "waiting beside a greedy key to without it", ratio, low, 2, "x"
