"""SIGKILL to the daemon's processes at random moments under load: nothing survives, nothing lies."""

import os
import random
import signal
import threading
import time

from support import SOAK, wait_until

ROUNDS = 300 if SOAK else 12
LOAD = 4


class Load(threading.Thread):
    """Runs, sandboxes, files and streams, one after the other, whatever comes of them."""

    def __init__(self, daemon, seed):
        super().__init__(daemon=True)
        self.target, self.random, self.over = daemon, random.Random(seed), False
        self.lies = []

    def plain(self):
        answer = self.target.post("/v1/runs", {"command": "echo $((6 * 7))"}, timeout=10)
        if answer.status == 200 and answer.json["status"] == "ok" and answer.json["stdout"] != "42\n":
            self.lies.append(answer.body)

    def sandbox(self):
        made = self.target.post("/v1/sandboxes", {"labels": {"load": "1"}}, timeout=10)
        if made.status != 201:
            return
        path = f"/v1/sandboxes/{made.json['id']}"
        self.target.post(f"{path}/runs", {"command": "(sleep 1000 &); echo x >f"}, timeout=10)
        self.target.request("PUT", f"{path}/files?path=g", body=b"z" * 100_000, timeout=10)
        self.target.delete(path, timeout=10)

    def background(self):
        self.target.post("/v1/runs", {"command": "sleep 1000", "background": True}, timeout=10)

    def run(self):
        while not self.over:
            try:
                self.random.choice((self.plain, self.plain, self.sandbox, self.background))()
            except (OSError, ValueError, EOFError, Exception) as error:  # it is killed under us
                if isinstance(error, AssertionError):
                    raise
                time.sleep(0.01)


def test_killed_at_any_moment(make_daemon):
    daemon = make_daemon()
    daemon.expect_errors = True
    loads = [Load(daemon, n) for n in range(LOAD)]
    for load in loads:
        load.start()
    chance = random.Random(os.environ.get("CAY_SEED", "1"))
    for n in range(ROUNDS):
        time.sleep(chance.uniform(0.02, 0.4))
        which = chance.choice(("api", "launcher", "serve"))
        began = len(daemon.log_file.read_bytes())
        pid = daemon.pids().get(which)
        if pid is None:
            continue  # it is being started again
        os.kill(pid, signal.SIGKILL)
        if which == "serve":
            daemon.process.wait(10)
            daemon.start()
        else:
            wait_until(lambda: daemon._serves(began) or daemon.process.poll() is not None, 20,
                       "the daemon's next start")
            if daemon.process.poll() is not None:  # crashed too often within a minute: that is told
                assert "times within a minute" in daemon.log
                daemon.start()
    for load in loads:
        load.over = True
    for load in loads:
        load.join(30)
        assert not load.lies
    runs = daemon.get("/v1/runs?limit=1000").ok()["runs"]
    assert any(run["status"] == "interrupted" for run in runs)
    # Whatever still says it runs does: it can be ended.
    for run in runs:
        if run["status"] == "running":
            daemon.delete(f"/v1/runs/{run['id']}")
    wait_until(lambda: all(run["status"] != "running" for run in daemon.get("/v1/runs?limit=1000").ok()["runs"]),
               20, "the end of what ran")
