"""Cells of a context through the daemon's HTTP, side by side with a Jupyter kernel (Debian's python3-ipykernel)."""

import contextlib
import http.client
import json
import os
import statistics
import time

import serve

CELL = "1+1"


class Context:
    """One sandbox, and new contexts in it."""

    def __init__(self, daemon):
        self.connection = http.client.HTTPConnection("localhost")
        self.connection.sock = daemon.connect()
        self.sandbox = self.ask("POST", "/v1/sandboxes", {"language": "python"})["id"]
        self.count = 0

    def ask(self, method, path, body=None):
        self.connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        return json.load(self.connection.getresponse())

    def run(self, code, name="main"):
        return self.ask("POST", f"/v1/sandboxes/{self.sandbox}/runs", {"context": name, "code": code})

    def start(self):
        """A new one, until its first cell has ended; how it was started."""
        self.count += 1
        name = f"new{self.count}"
        start = self.run(CELL, name)["start"]
        self.ask("DELETE", f"/v1/sandboxes/{self.sandbox}/contexts/{name}")
        return start

    def end(self):
        self.ask("DELETE", f"/v1/sandboxes/{self.sandbox}")
        self.connection.close()


class Kernel:
    def __init__(self, place, env):
        from jupyter_client.manager import start_new_kernel
        os.environ["JUPYTER_RUNTIME_DIR"] = str(place)
        self.manager, self.client = start_new_kernel(kernel_name="python3", env={**env, "HOME": str(place)},
                                                     cwd=str(place), startup_timeout=60)
        self.run(CELL)

    def run(self, code):
        ident = self.client.execute(code, allow_stdin=False)
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if (message["parent_header"].get("msg_id") == ident and message["msg_type"] == "status" and
                    message["content"]["execution_state"] == "idle"):
                return

    def end(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def timed(function, *args):
    start = time.perf_counter()
    value = function(*args)
    return (time.perf_counter() - start) * 1e3, value


def summary(times):
    quarters = statistics.quantiles(times, n=4)
    return {"n": len(times), "min": min(times), "p25": quarters[0], "median": statistics.median(times)}


def await_borne(daemon):
    """A sandbox made since the zygote of the science set waits."""
    for _ in range(100):
        context = Context(daemon)
        if context.start().startswith("warm:"):
            return context
        context.end()
        time.sleep(0.2)
    raise RuntimeError("no context becomes warm")


def measure(bench):
    """As bench.py's other parts; times in ms."""
    place = bench.scratch / "contexts"
    place.mkdir()
    place.chmod(0o755)
    try:
        import ipykernel  # noqa: F401
        import jupyter_client  # noqa: F401
    except ImportError as error:
        bench.skipped["contexts"] = f"{error}: tools/setup bench installs it"
        return None
    daemon = serve.Daemon(bench.cay.binary, place, bench.env)
    times = {("new", who): [] for who in ("context", "Jupyter")} | {("cell", who): [] for who in ("context", "Jupyter")}
    with contextlib.ExitStack() as stack:
        stack.callback(daemon.end)
        context = await_borne(daemon)
        stack.callback(context.end)
        cold = 0
        for _ in range(bench.size("context_starts")):
            ms, start = timed(context.start)
            cold += not start.startswith("warm:")
            times["new", "context"].append(ms)
            ms, kernel = timed(Kernel, place, bench.env)
            kernel.end()
            times["new", "Jupyter"].append(ms)
        kernel = Kernel(place, bench.env)
        stack.callback(kernel.end)
        context.run(CELL)
        for _ in range(bench.size("context_cells")):
            times["cell", "context"].append(timed(context.run, CELL)[0])
            times["cell", "Jupyter"].append(timed(kernel.run, CELL)[0])
    return {"cold": cold, **{what: {who: summary(times[what, who]) for who in ("context", "Jupyter")} for what in ("new", "cell")}}


def print_table(result):
    print(f"\n{'contexts beside Jupyter, ms':<34}{'min':>9}{'p25':>9}{'median':>9}{'of Jupyter':>14}")
    for what, title in (("cell", "a cell, 1+1"), ("new", "a new one, and its first cell")):
        for who, row in result[what].items():
            cells = "".join(f"{row[q]:9.2f}" for q in ("min", "p25", "median"))
            print(f"  {title + ', ' + who:<32}{cells}{row['median'] / result[what]['Jupyter']['median']:14.3f}")


def targets_of(result):
    for what, title, most in (("cell", "a cell's round trip to Jupyter's", 0.5), ("new", "a new context to a new Jupyter kernel", 0.05)):
        own, other = result[what]["context"], result[what]["Jupyter"]
        yield title, own["median"] / other["median"], own["p25"] / other["p25"], most, "x"
    yield "of new contexts, cold all the same", result["cold"], result["cold"], 0, ""
