"""Warm starts: a fresh island with a started interpreter, side by side with the bare one, cold ones and Docker.

All that is compared is run by one program (warm_bench), in turns. Bare is the interpreter itself, with the same
arguments and environment as on the island.
"""

import contextlib
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import serve

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("places", "integration")]

PRINT = "print(42)"
SCIENCE = "import pandas; print(pandas.Series([1,2]).sum())"
CLIENTS = 4
# An interpreter's memory with the default set, and how much of it a program of one line writes to.
FLOOR_MIB, FLOOR_PAGES = 8, 270

# name: (what -l calls it, a program that prints)
LANGUAGES = {
    "Python": ("python", PRINT), "Node": ("javascript", "console.log(42)"), "Ruby": ("ruby", "puts 42"),
    "PHP": ("php", "echo 42;"), "Perl": ("perl", "print 42"), "Bash": ("bash", "echo 42"), "Lua": ("lua", "print(42)"),
}
BOOT_S = 0.5  # more than enough for any of them to start
# What it is to have waited, for those that do not: reads its program from standard input.
COULD_WAIT = {"ruby": ("-e", "eval($stdin.read)"), "php": ("-r", "eval(stream_get_contents(STDIN));"),
              "perl": ("-e", "local $/; eval <STDIN>"), "bash": ("-c", "read -r -d '' code; eval \"$code\"")}
KERNEL = ("SUnreclaim:", "KernelStack:", "PageTables:", "Percpu:")


def body(code, language="python", **more):
    return json.dumps({"language": language, "code": code, **more})


class Warm:
    """A daemon, and how it is measured."""

    def __init__(self, bench, place):
        self.bench = bench
        self.env = bench.env
        self.daemon = serve.Daemon(bench.cay.binary, place, bench.env)
        self.place = place

    def tool(self, name, *words, env=None):
        done = subprocess.run([str(self.bench.tools / name), *map(str, words)], env=env or self.env, cwd=self.place,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True, timeout=3600)
        return json.loads(done.stdout)

    def turns(self, rounds, rows, env=None):
        """rows: {name: (way, word...)}, as warm_bench has them."""
        words = []
        for name, row in rows.items():
            words += ([] if not words else ["::"]) + [name, *row]
        return self.tool("warm_bench", rounds, self.daemon.socket, *words, env=env)

    def await_warm(self, code, tries=300):
        """Until the daemon has a zygote for this one, which may have to be started."""
        start = None
        connection = http.client.HTTPConnection("localhost")
        connection.sock = self.daemon.connect()
        with contextlib.closing(connection):
            for _ in range(tries):
                connection.request("POST", "/v1/runs", body(code), {"Content-Type": "application/json"})
                start = json.load(connection.getresponse()).get("start", "")
                if start.startswith("warm:"):
                    return start
                time.sleep(0.1)
        raise RuntimeError(f"no run becomes warm: start is {start!r}")

    def plan(self, language, code):
        """How the program starts on an island; what it would read there is put beside us."""
        out = subprocess.run([self.bench.cay.binary, "run", "--dry-run", "--json", "-l", language, "-c", code],
                             env=self.env, check=True, stdout=subprocess.PIPE, text=True).stdout
        plan = json.loads(out)["dry_run"]
        argv = []
        for word in plan["argv"]:
            if word.startswith("/workspace/"):
                (self.place / Path(word).name).write_text(code)
                word = str(self.place / Path(word).name)
            argv.append(word)
        env = dict(pair.split("=", 1) for pair in plan["env"])
        return argv, {**env, "HOME": str(self.place), "TMPDIR": str(self.place)}, plan["version"]

    def beside_bare(self, code, rounds, cold=False):
        argv, env, _ = self.plan("python", code)
        start = self.await_warm(code)
        rows = {"bare": ("bare", *argv), "launcher": ("launcher", code), "HTTP": ("http", body(code))}
        if cold:
            rows["HTTP, cold"] = ("http", body(code, cold=True))
        return {"start": start, "rows": self.turns(rounds, rows, env)}

    def languages(self, rounds):
        result = {}
        for title, (language, code) in LANGUAGES.items():
            try:
                argv, env, version = self.plan(language, code)
            except subprocess.CalledProcessError:
                self.bench.skipped[f"{title}, cold and warm"] = "not installed"
                continue
            rows = {"bare": ("bare", *argv), "cold": ("http", body(code, language, cold=True))}
            if language == "python":
                self.await_warm(code)
                rows["warm"] = ("http", body(code, language))
            result[title] = {"version": version, **self.turns(rounds, rows, env)}
            if language == "javascript":
                result[title]["warm"] = self.with_pauses(rounds, code, language)
            elif language in COULD_WAIT:
                result[title]["waited"] = median_row(
                    [waited([argv[0], *COULD_WAIT[language]], code, env) for _ in range(rounds)])
        return result

    def with_pauses(self, rounds, code, language):
        """Those of which few wait, and which boot in between."""
        times = []
        connection = http.client.HTTPConnection("localhost")
        connection.sock = self.daemon.connect()
        with contextlib.closing(connection):
            for _ in range(10 * rounds):
                time.sleep(BOOT_S)
                began = time.monotonic_ns()
                connection.request("POST", "/v1/runs", body(code, language), {"Content-Type": "application/json"})
                done = json.load(connection.getresponse())
                if done["start"].startswith("warm:"):
                    times.append((time.monotonic_ns() - began) / 1e3)
                if len(times) == rounds:
                    return median_row(times)
        raise RuntimeError(f"{len(times)} runs of {language} became warm")

    def load(self, runs):
        """The best of three, in turns: what others do on the machine only ever costs."""
        rows = {"floor": [], "launcher": [], "HTTP": []}
        self.await_warm(PRINT)
        for _ in range(3):
            rows["floor"].append(self.tool("floor_bench", runs, CLIENTS, FLOOR_MIB, FLOOR_PAGES))
            rows["launcher"].append(self.tool("serve_bench", "python", runs, CLIENTS, PRINT))
            rows["HTTP"].append(self.tool("serve_bench", "http", runs, CLIENTS, self.daemon.socket, body(PRINT)))
        return {name: max(turns, key=lambda row: row["per_second"]) for name, turns in rows.items()}

    def soak(self, runs):
        """Counted from when a tenth of it is done, as pools have grown by then; in thirds."""
        cold, used = [], []
        for part in (runs // 10, *(runs * 3 // 10,) * 3):
            row = self.tool("serve_bench", "http", part, CLIENTS, self.daemon.socket, body(PRINT))
            cold.append(part - row["warm"])
            self.await_warm(PRINT)  # a zygote is replaced after so many
            time.sleep(12)  # what was made ahead for so many clients goes
            used.append(self.use())
        return {"runs": runs, "cold": cold, "used": used}

    def use(self):
        """What serve.Daemon counts, each process for itself, the zygote that serves, and the kernel's own."""
        processes = {process_name(pid): pid for pid in self.daemon.children()}
        rss = {name: rss_kib(pid) for name, pid in processes.items()}
        # Not by shares: those of a zygote are the less, the more islands wait.
        rss["zygote"] = max(map(rss_kib, self.zygotes(processes.values())), default=0)
        with open("/proc/meminfo", encoding="ascii") as f:
            kernel = sum(int(line.split()[1]) for line in f if line.startswith(KERNEL))
        return {**self.daemon.use(), "each_kib": rss, "kernel_kib": kernel}

    @staticmethod
    def zygotes(tops):
        """Launcher, PID 1 of an island, interpreter; its own children are islands that wait. Not those with pandas."""
        found = []
        for top in tops:
            for init in children(top):
                found += [pid for pid in children(init) if "python" in process_name(pid) and b"pandas" not in command_line(pid)]
        return found


def median_row(times_us):
    return {"median": statistics.median(times_us), "n": len(times_us)}


def waited(argv, code, env):
    """From when it is told its program to its end, in us."""
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        time.sleep(BOOT_S)
        began = time.monotonic_ns()
        process.communicate(code.encode())
    return (time.monotonic_ns() - began) / 1e3


def children(pid):
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def command_line(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def process_name(pid):
    return command_line(pid).split(b"\0")[0].decode() or str(pid)


def rss_kib(pid):
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def measure_docker(warm, rounds):
    """`docker run` of the same program, of this machine's own /usr as islands are; a daemon of our own."""
    if os.geteuid() != 0 or not shutil.which("dockerd") or not shutil.which("docker"):
        warm.bench.skipped["docker, warm"] = "needs root and dockerd (tools/setup docker)"
        return None
    from dockerd import dockerd, image
    argv, env, _ = warm.plan("python", PRINT)
    try:
        with dockerd() as call:
            subprocess.run([*call, "import", "-", "bench:1"], input=image(), capture_output=True, check=True)
            run = [shutil.which("docker"), *call[1:], "run", "--rm", "--network", "none", "-v", "/usr:/usr:ro",
                   "bench:1", *argv]
            warm.await_warm(PRINT)
            return warm.turns(rounds, {"docker run": ("bare", *run), "launcher": ("launcher", PRINT),
                                       "HTTP": ("http", body(PRINT))}, env)
    except (AssertionError, subprocess.SubprocessError) as error:
        warm.bench.skipped["docker, warm"] = (getattr(error, "stderr", None) or str(error))[-200:]
        return None


def has_pandas(python):
    return subprocess.run([python, "-c", "import pandas"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def measure(bench):
    """As bench.py's other parts; what could not be measured goes to bench.skipped."""
    place = bench.scratch / "warm"
    place.mkdir()
    place.chmod(0o755)
    warm = Warm(bench, place)
    try:
        result = {"print": warm.beside_bare(PRINT, bench.size("warm_rounds"), cold=True)}
        if has_pandas(bench.cay.python):
            result["science"] = warm.beside_bare(SCIENCE, bench.size("warm_science_rounds"))
        else:
            bench.skipped["warm pandas"] = "not installed (python3-pandas)"
        result["load"] = warm.load(bench.size("warm_runs"))
        result["languages"] = warm.languages(bench.size("warm_language_rounds"))
        docker = measure_docker(warm, bench.size("container_rounds"))
        if docker:
            result["docker"] = docker
        result["soak"] = warm.soak(bench.size("warm_soak"))
        result["live"] = warm.tool("density_bench", bench.size("warm_islands"), "live")
    finally:
        warm.daemon.end()
    return result


def print_rows(title, rows, base):
    print(f"\n{title:<34}{'min':>9}{'p25':>9}{'median':>9}{'p75':>9}{'of ' + base:>14}")
    for name, row in rows.items():
        cells = "".join(f"{row[q] / 1e3:9.2f}" for q in ("min", "p25", "median", "p75"))
        started = f"  {row['warm']} of {row['n']} warm" if row["warm"] else ""
        print(f"  {name:<32}{cells}{row['median'] / rows[base]['median']:14.3f}{started}")


def print_soak(soak):
    first, *_, last = soak["used"]
    print(f"  {soak['runs']} runs in a row, {sum(soak['cold'])} of them cold; from a tenth of it to the end:")
    for what, unit in (("rss_kib", "KiB resident"), ("fds", "fds"), ("cgroups", "cgroups"), ("kernel_kib", "KiB of the kernel's")):
        print(f"    {' -> '.join(str(use[what]) for use in soak['used'])} {unit}")
    each = ", ".join(f"{name} {first['each_kib'].get(name, 0)} -> {kib}" for name, kib in last["each_kib"].items())
    print(f"    KiB of each: {each}")


def print_table(result):
    print_rows("warm Python print(42), ms", result["print"]["rows"], "bare")
    if "science" in result:
        print_rows("warm Python, pandas, ms", result["science"]["rows"], "bare")
    if "docker" in result:
        print_rows("warm Python beside Docker, ms", result["docker"], "docker run")
        factor = {name: result["docker"]["docker run"]["median"] / result["docker"][name]["median"] for name in ("launcher", "HTTP")}
        print(f"  docker run takes {factor['launcher']:.0f} times as long as the launcher, {factor['HTTP']:.0f} times as HTTP")
    print(f"\n{'by language, ms at the median':<34}{'bare':>9}{'cold':>9}{'warm':>9}")
    for title, row in result["languages"].items():
        cells = "".join(f"{row[name]['median'] / 1e3:9.2f}" if name in row else f"{'-':>9}" for name in ("bare", "cold", "warm"))
        print(f"  {title + ' ' + row['version']:<32}{cells}")
    floor = result["load"]["floor"]["per_second"]
    print(f"  {CLIENTS} at once, clones of {FLOOR_MIB} MiB into fresh namespaces with {FLOOR_PAGES} pages written, and nothing "
          f"else: {floor:.0f} a second")
    for name in ("launcher", "HTTP"):
        row = result["load"][name]
        print(f"  {CLIENTS} clients, {name}: {row['per_second']:.0f} runs a second ({row['per_second'] / floor:.2f} of that), "
              f"{row['median_us'] / 1e3:.2f} ms at the median, {row['warm']} of {row['runs']} warm")
    print_soak(result["soak"])
    live = result["live"]
    costs = ", ".join(f"{row['median'] / 1e3:.2f} at {n}" for n, row in live["cost_at"].items())
    print(f"  {live['islands']} live islands of {live['launchers']} launchers: {live['kib_each'] * 1024 / 1e6:.2f} MB each, kernel "
          f"and all; ms to make the next one: {costs}; all gone in {live['end_us'] / 1e6:.2f} s")


def targets_of(result):
    """As bench.py's; what should be at least so much is given as its inverse."""
    rows = result["print"]["rows"]
    for name, most in (("launcher", 0.2), ("HTTP", 0.25)):
        yield (f"warm Python by {name}, to bare", rows[name]["median"] / rows["bare"]["median"],
               rows[name]["p25"] / rows["bare"]["p25"], most, "x")
    yield "warm Python by launcher", rows["launcher"]["median"] / 1e3, rows["launcher"]["p25"] / 1e3, 2.5, "ms"
    if "science" in result:
        rows = result["science"]["rows"]
        for name in ("launcher", "HTTP"):
            yield (f"warm pandas by {name}, to bare", rows[name]["median"] / rows["bare"]["median"],
                   rows[name]["p25"] / rows["bare"]["p25"], 0.05, "x")
    asked = [row for key in ("print", "science") if key in result for name, row in result[key]["rows"].items()
             if name in ("launcher", "HTTP")]
    cold = sum(row["n"] - row["warm"] for row in asked)
    yield "of those, cold all the same", cold, cold, 0, ""
    for name in ("launcher", "HTTP"):
        row = result["load"][name]
        yield f"900 a second to warm runs by {name}", 900 / row["per_second"], 900 / row["per_second"], 1.0, "x"
    live = result["live"]["kib_each"] * 1024 / 1e6
    yield "a live sandbox", live, live, 1.2, "MB"
    first, *_, last = result["soak"]["used"]
    for name in last["each_kib"]:
        grown = last["each_kib"][name] / max(1, first["each_kib"].get(name, 0))
        yield f"after the warm soak to before, {name}", grown, grown, 1.10, "x"
    share = sum(result["soak"]["cold"]) / result["soak"]["runs"]
    yield "of the warm soak, cold all the same", share, share, 0.01, "x"
    for what in ("fds", "cgroups"):
        more = last[what] - first[what]
        yield f"{what} more after the warm soak", more, more, 32, ""


HEAD = """# Warm starts

Made by `tests/bench/bench.py --write-docs`, which `make bench` builds what is needed for.

The daemon has interpreters started and loaded, and clones one into a fresh island for each run: see ARCHITECTURE.md. The result's `start` says whether that was so (`warm:default`, `warm:science`) or not (`cold`), and `"cold": true` asks for it not to be.

Python has it. Node can't be cloned once its threads run: instead one is started on an island of its own and waits there for its program, which is `warm:node`. Two wait for code and two for files, for each kind of limits that was asked for twice within a minute, and go when nobody asks for a minute. Each has 5 MiB of its own, beside 45 of its file's that all share, and counts as 12 of `[warm] memory`. Two in a row are fast; who asks again before the next has booted waits for the rest of that, or starts cold. What a program can see of it is in ARCHITECTURE.md.

Ruby and PHP start cold. Both could wait in the same way: the last column has what would be left of a run, by itself and without an island. For Ruby it would be worth it (ARCHITECTURE.md says how); PHP wins half of what node does. Where bare starts take a few milliseconds, as of Perl and bash, there is nothing to win.

"""


def write_docs(result, path, about):
    lines = [HEAD.rstrip(), "", "| Language | Bare, ms | Cold, ms | Warm, ms | Bare, had it waited, ms |", "|---|---|---|---|---|"]
    for title, row in result["languages"].items():
        cells = (f"{row[name]['median'] / 1e3:.1f}" if name in row else "" for name in ("bare", "cold", "warm", "waited"))
        lines.append(f"| {title} {row['version']} | {' | '.join(cells)} |")
    n = min(row["bare"]["n"] for row in result["languages"].values())
    lines += ["", f"Medians of {n} runs of a program that prints a number, in turns: the interpreter by itself; through the "
              f"daemon's HTTP, by an island made for it; and by a zygote's, or by one that had waited, half a second apart. {about}"]
    path.write_text("\n".join(lines) + "\n")
