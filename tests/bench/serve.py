"""The daemon under load, side by side with its launcher's process alone."""

import json
import os
import selectors
import signal
import socket
import statistics
import subprocess
import time
from pathlib import Path

# name: (what the launcher runs, the body of POST /v1/runs)
PROGRAMS = {
    "sh true": (["/bin/sh", "-c", "true"], {"argv": ["/bin/sh", "-c", "true"]}),
    "python print(42)": (["/usr/bin/python3", "-c", "print(42)"],
                         {"argv": ["/usr/bin/python3", "-c", "print(42)"]}),
}
STREAMS = (1, 16)


class Daemon:
    def __init__(self, binary, scratch, env):
        self.dir = Path(scratch) / "serve"
        self.dir.mkdir()
        self.socket = self.dir / "cay.sock"
        self.log = open(self.dir / "log", "w+")
        self.process = subprocess.Popen(
            [binary, "serve", "--socket", str(self.socket), "--state", str(self.dir / "state")],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env)
        for _ in range(200):
            if '"serving"' in (self.dir / "log").read_text():
                return
            time.sleep(0.05)
        raise RuntimeError("the daemon did not start: " + (self.dir / "log").read_text())

    def children(self):
        pid = self.process.pid
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def use(self):
        """Memory and fds of its processes, cgroups of its launcher's."""
        pids = [self.process.pid, *self.children()]
        rss = sum(int(line.split()[1]) for pid in pids
                  for line in Path(f"/proc/{pid}/status").read_text().splitlines()
                  if line.startswith("VmRSS:"))
        fds = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
        cgroups = sum(1 for top in Path("/sys/fs/cgroup").iterdir() if top.is_dir()
                      for d in top.glob("cay-*") if int(d.name.split("-")[1]) in pids)
        return {"rss_kib": rss, "fds": fds, "cgroups": cgroups}

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30)
        s.connect(str(self.socket))
        return s

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.log.close()


def ask(sock, body, more=""):
    text = json.dumps(body).encode()
    sock.sendall((f"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\n{more}"
                  f"Content-Length: {len(text)}\r\n\r\n").encode() + text)


def crowd(daemon, idle, streams):
    """Many idle connections and event streams at once, and a run beside them."""
    waiting = [daemon.connect() for _ in range(idle)]
    following = [daemon.connect() for _ in range(streams)]
    for sock in following:
        ask(sock, {"argv": ["/bin/sh", "-c", "echo up; sleep 5"]}, "Accept: text/event-stream\r\n")
    heard, chosen = set(), selectors.DefaultSelector()
    for sock in following:
        chosen.register(sock, selectors.EVENT_READ)
    texts = {sock: b"" for sock in following}
    until = time.monotonic() + 30
    while len(heard) < streams and time.monotonic() < until:
        for key, _ in chosen.select(1):
            texts[key.fileobj] += key.fileobj.recv(65536)
            if b"event: stdout" in texts[key.fileobj]:
                heard.add(key.fileobj)
    beside, sock = [], daemon.connect()
    for _ in range(20):
        start = time.perf_counter()
        ask(sock, {"argv": ["/bin/true"]})
        sock.recv(65536)
        beside.append((time.perf_counter() - start) * 1e6)
    use = daemon.use()
    for s in [*waiting, *following, sock]:
        s.close()
    return {"idle": idle, "streams": len(heard), "median_us_beside": statistics.median(beside), **use}


def measure(tool, binary, scratch, env, runs, soak):
    daemon = Daemon(binary, scratch, env)
    result = {"load": {}}
    try:
        for name, (argv, body) in PROGRAMS.items():
            for parallel in STREAMS:
                n = str(runs if name == "sh true" else max(100, runs // 5))
                rows = {"launcher": [], "http": []}
                for _ in range(1 if runs >= 10000 else 3):
                    for how, words in (("launcher", argv),
                                       ("http", [str(daemon.socket), json.dumps(body)])):
                        out = subprocess.run([tool, how, n, str(parallel), *words], env=env,
                                             capture_output=True, text=True, check=True, timeout=600)
                        rows[how].append(json.loads(out.stdout))
                best = {how: max(r, key=lambda row: row["per_second"]) for how, r in rows.items()}
                result["load"][f"{name}, {parallel} at a time"] = best
        result["crowd"] = crowd(daemon, 1000, 100)
        time.sleep(2)  # those hundred islands end
        before = daemon.use()
        words = ["http", str(soak), "4", str(daemon.socket), json.dumps({"argv": ["/bin/true"]})]
        subprocess.run([tool, *words], env=env, check=True, capture_output=True, timeout=3600)
        result["soak"] = {"runs": soak, "before": before, "after": daemon.use()}
    finally:
        daemon.end()
    return result


def print_table(result):
    print(f"\n{'the daemon':<34}{'launcher':>11}{'HTTP':>9}{'of it':>8}{'+median':>10}  runs a second, ms")
    for name, row in result["load"].items():
        a, b = row["launcher"], row["http"]
        print(f"  {name:<32}{a['per_second']:11.0f}{b['per_second']:9.0f}"
              f"{b['per_second'] / a['per_second']:8.2f}"
              f"{(b['median_us'] - a['median_us']) / 1e3:+10.2f}")
    c, s = result["crowd"], result["soak"]
    print(f"  {c['idle']} idle connections and {c['streams']} event streams at once: a run beside them "
          f"{c['median_us_beside'] / 1e3:.1f} ms")
    print(f"  {s['runs']} runs: {s['before']['rss_kib']} -> {s['after']['rss_kib']} KiB, "
          f"{s['before']['fds']} -> {s['after']['fds']} fds, "
          f"{s['before']['cgroups']} -> {s['after']['cgroups']} cgroups")


def targets_of(result):
    """As bench.py's; what should be at least so much is given as its inverse."""
    for name, row in result["load"].items():
        inverse = row["launcher"]["per_second"] / row["http"]["per_second"]
        yield f"launcher to HTTP, {name}", inverse, inverse, 1 / 0.8, "x"
    one = result["load"]["sh true, 1 at a time"]
    added = (one["http"]["median_us"] - one["launcher"]["median_us"]) / 1e3
    low = (one["http"]["p25_us"] - one["launcher"]["p25_us"]) / 1e3
    yield "API over the launcher", added, low, 0.3, "ms"
    missing = 100 - result["crowd"]["streams"]
    yield "event streams missing of 100", missing, missing, 0, ""
    grown = result["soak"]["after"]["rss_kib"] / max(1, result["soak"]["before"]["rss_kib"])
    yield "memory after the soak to before", grown, grown, 1.10, "x"
    fds = result["soak"]["after"]["fds"] - result["soak"]["before"]["fds"]
    # The launcher's pool of cgroups, eight fds each, grows to its size and no further.
    yield "fds more after the soak", fds, fds, 512, ""
