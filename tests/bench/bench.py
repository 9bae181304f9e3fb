#!/usr/bin/python3
"""make bench: what an island costs, side by side with the bare program and others.

Prints a table and a line for each target, and writes build/bench.json. Missed
targets are told, not failed: the machines are shared, and only figures of one
run can be compared. The processes are timed by C programs (spawn_bench,
launcher_bench), because Python's own way to start one is too coarse.
"""
import argparse
import collections
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import abuse
import containers
import contexts
import egress
import fairness
import images
import serve
import warm

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
ETC_OF_HOST = ("alternatives", "fonts", "ld.so.cache", "localtime", "os-release", "protocols",
               "services", "ssl/certs", "ssl/openssl.cnf")
# As src/image/host.c has them; what is in them costs nothing.
ETC_OF_OWN = {
    "passwd": "root:x:0:0:root:/:/usr/sbin/nologin\ncay:x:1000:1000:cay:/workspace:/bin/sh\n",
    "group": "root:x:0:\ncay:x:1000:\n",
    "hosts": "127.0.0.1 localhost cay\n",
    "hostname": "cay\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
ROOT_DIRS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
SYSTEM_FILE = "/usr/lib/os-release"

# How much is measured: full, quick.
SIZES = {
    "rounds": (400, 80),          # one-shot, /bin/true
    "python_rounds": (100, 15),
    "container_rounds": (10, 2),
    "container_commands": (40, 5),
    "launcher_rounds": (600, 120),  # a third of it for Python
    "launcher_seconds": (0.7, 0),  # for each row and number of launchers
    # Many short turns, not few long ones: a neighbour slows a CPU down for seconds.
    "tax_rounds": (50, 15),
    "tax_calls": (12_000, 8_000),
    "tax_loops": (3_000_000, 2_000_000),
    "islands": (1000, 100),
    "abuse_seconds": (3, 0.5),     # for each kind of bomb
    "serve_runs": (10000, 500),
    "serve_soak": (50000, 1000),
    "fairness_seconds": (5, 2),    # alone, and beside the greedy one
    "egress_starts": (100, 20),    # one-shot, with a network and without
    "egress_runs": (400, 40),      # in the daemon, five turns of it
    "egress_rounds": (9, 3),       # of each way out
    "egress_megabytes": (512, 128),
    "egress_connects": (200, 50),
    "egress_at_once": (1000, 1000),
    "image_megabytes": (200, 40),
    "image_rounds": (5, 2),        # of each way to pull it
    "image_starts": (400, 40),     # one-shot, of an image and of the host
    "image_turns": (9, 3),         # in the daemon
    "image_runs": (200, 40),       # in each turn
    "warm_rounds": (400, 40),
    "warm_science_rounds": (60, 5),
    "warm_runs": (5000, 500),      # with four clients, three turns of it
    "warm_language_rounds": (60, 5),
    "warm_soak": (30000, 2000),
    "warm_islands": (5000, 200),
    "context_starts": (20, 3),
    "context_cells": (400, 40),
}


def run(command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def run_json(command, **more):
    return json.loads(run(command, **more))


def why_failed(error):
    if isinstance(error, subprocess.TimeoutExpired):
        return "no answer in time"
    lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
    return lines[-1] if lines else "failed"


class Cay:
    """The built program, and what it would give a program to run with."""

    def __init__(self, binary):
        self.binary = str(binary)
        plan = run_json([self.binary, "run", "--dry-run", "--json", "-c", "print(42)"])["dry_run"]
        self.python = plan["argv"][0]
        self.version = plan["version"]
        self.env = dict(pair.split("=", 1) for pair in plan["env"])


class Bubblewrap:
    """bubblewrap, told to show what cay's host image shows.

    The files of /etc that are ours lie in one directory that is bound whole:
    one mount, where bubblewrap's own --ro-bind-data would need one for each.
    """

    def __init__(self, scratch, env):
        self.etc = scratch / "etc"
        self.etc.mkdir()
        for name, text in ETC_OF_OWN.items():
            (self.etc / name).write_text(text)
        self.command = ["bwrap", *self.view(), *self.confinement(env)]

    def view(self):
        args = ["--ro-bind", "/usr", "/usr"]
        for name in ROOT_DIRS:
            path = Path("/", name)
            if path.is_symlink():
                args += ["--symlink", os.readlink(path), f"/{name}"]
            elif path.is_dir():
                args += ["--ro-bind", f"/{name}", f"/{name}"]
        args += ["--ro-bind", str(self.etc), "/etc"]
        for name in ETC_OF_HOST:
            args += self.etc_item(name)
        return args + [
            "--dir", "/run", "--dir", "/var", "--symlink", "../tmp", "/var/tmp",
            "--symlink", "../run", "/var/run", "--proc", "/proc", "--dev", "/dev",
            "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--tmpfs", "/dev/shm",
            "--remount-ro", "/"]

    def etc_item(self, name):
        host, own = Path("/etc", name), self.etc / name
        if not host.exists():
            return []
        own.parent.mkdir(parents=True, exist_ok=True)
        if host.is_symlink():  # as cay: the link itself, and its target is in /usr
            own.symlink_to(os.readlink(host))
            return []
        own.mkdir() if host.is_dir() else own.touch()
        return ["--ro-bind", str(host), f"/etc/{name}"]

    @staticmethod
    def confinement(env):
        args = ["--unshare-user", "--unshare-all", "--uid", "1000", "--gid", "1000",
                "--hostname", "cay", "--cap-drop", "ALL", "--new-session", "--die-with-parent",
                "--chdir", "/workspace", "--clearenv"]
        for name, value in env.items():
            args += ["--setenv", name, value]
        return args

    def why_not(self):
        if not shutil.which("bwrap"):
            return "not installed"
        try:
            run([*self.command, "/bin/true"], stderr=subprocess.PIPE, timeout=10)
        except (subprocess.SubprocessError, OSError) as error:
            return why_failed(error)
        return None


def find_container(name):
    """The command that runs something in a container, or why there is none. Starts no daemon."""
    if not shutil.which(name):
        return None, "not installed"
    try:
        run([name, "info"], stderr=subprocess.PIPE, timeout=5)
        images = run([name, "image", "ls", "-q"], stderr=subprocess.PIPE, timeout=5).split()
    except (subprocess.SubprocessError, OSError) as error:
        return None, why_failed(error)
    for image in dict.fromkeys(images):
        command = [name, "run", "--rm", "--network", "none", image]
        try:
            run([*command, "/bin/true"], stderr=subprocess.PIPE, timeout=30)
            return command, None
        except (subprocess.SubprocessError, OSError):
            continue
    return None, "no local image with /bin/true"


class Bench:
    def __init__(self, args, scratch):
        self.quick = args.quick
        self.scratch = scratch
        self.cay = Cay(args.cay)
        self.tools = args.tools
        self.bubblewrap = Bubblewrap(scratch, self.cay.env)
        self.skipped = {}  # name: why
        self.result = {"quick": args.quick, "cpus": os.cpu_count(), "kernel": os.uname().release,
                       "python": self.cay.version, "load_before": os.getloadavg()[0]}
        # Where islands have a tmpfs, the bare program gets one, too.
        self.env = {**self.cay.env, "HOME": str(scratch), "TMPDIR": str(scratch)}

    def size(self, name):
        return SIZES[name][self.quick]

    def find_peers(self):
        why = self.bubblewrap.why_not()
        if why:
            self.skipped["bubblewrap"] = why
        self.containers = {}
        for name in ("podman", "docker"):
            command, why = find_container(name)
            if command:
                self.containers[name] = command
            else:
                self.skipped[name] = why

    def spawn(self, rounds, commands, env=None):
        words = []
        for name, command in commands.items():
            words += ([] if not words else ["::"]) + [name, *command]
        return run_json([str(self.tools / "spawn_bench"), str(rounds), *words],
                        env=env or self.env, cwd=self.scratch)

    def one_shot(self):
        cay, wrapped = [self.cay.binary, "run"], "bubblewrap" not in self.skipped
        python = [self.cay.python, "-c", "print(42)"]
        true = {"bare": ["/bin/true"], "cay": [*cay, "--", "/bin/true"]}
        snake = {"bare": python, "cay": [*cay, "-c", "print(42)"]}
        if wrapped:
            true["bubblewrap"] = [*self.bubblewrap.command, "/bin/true"]
            snake["bubblewrap"] = [*self.bubblewrap.command, *python]
        self.result["one_shot"] = {"true": self.spawn(self.size("rounds"), true),
                                   "python": self.spawn(self.size("python_rounds"), snake)}
        if self.containers:
            commands = {name: [*c, "/bin/true"] for name, c in self.containers.items()}
            self.result["one_shot"]["true"].update(
                self.spawn(self.size("container_rounds"), commands))

    def launcher(self):
        try:
            self.result["launcher"] = run_json(
                [str(self.tools / "launcher_bench"), str(self.size("launcher_rounds")),
                 str(self.size("launcher_seconds"))], env=self.env, stderr=subprocess.PIPE)
        except subprocess.CalledProcessError as error:  # without root there is no template
            self.skipped["launcher"] = why_failed(error)

    def tax(self):
        program = self.scratch / "tax"
        run(["gcc", "-O2", "-D_GNU_SOURCE", "-static", "-o", str(program), str(HERE / "tax.c")])
        words = [str(self.size("tax_calls")), str(self.size("tax_loops")), SYSTEM_FILE]
        wrapped = self.bubblewrap.command
        bind = ["--ro-bind", str(program), "/run/tax"]
        at = wrapped.index("--remount-ro")
        commands = {
            "bare": [str(program), *words],
            "cay": [self.cay.binary, "run", "--put", f"{program}:tax", "--", "./tax", *words],
        }
        if "bubblewrap" not in self.skipped:
            commands["bubblewrap"] = [*wrapped[:at], *bind, *wrapped[at:], "/run/tax", *words]
        for name in list(commands):
            try:
                run(commands[name], env=self.env, cwd=self.scratch, stderr=subprocess.PIPE)
            except subprocess.CalledProcessError as error:
                self.skipped[f"inside {name}"] = why_failed(error)
                del commands[name]
        times = {name: {} for name in commands}
        for _ in range(self.size("tax_rounds")):
            for name in random.sample(list(commands), len(commands)):
                for line in run(commands[name], env=self.env, cwd=self.scratch).splitlines():
                    what, ns = line.rsplit(" ", 1)
                    times[name].setdefault(what, []).append(float(ns))
        self.result["tax"] = {
            name: {what: {"n": len(ns), "min": min(ns), "median": statistics.median(ns),
                          "p25": sorted(ns)[len(ns) // 4]} for what, ns in rows.items()}
            for name, rows in times.items()}

    def density(self):
        try:
            self.result["density"] = run_json(
                [str(self.tools / "density_bench"), str(self.size("islands"))], env=self.env,
                stderr=subprocess.PIPE)
        except subprocess.CalledProcessError as error:
            self.skipped["density"] = why_failed(error)

    def abuse(self):
        self.result["abuse"] = abuse.measure(self.cay.binary, self.size("abuse_seconds"))

    def serve(self):
        try:
            self.result["serve"] = serve.measure(
                str(self.tools / "serve_bench"), self.cay.binary, self.scratch, self.env,
                self.size("serve_runs"), self.size("serve_soak"))
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            self.skipped["serve"] = str(error)

    def fairness(self):
        try:
            self.result["fairness"] = fairness.measure(self)
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            self.skipped["fairness"] = why_failed(error)

    def egress(self):
        try:
            self.result["egress"] = egress.measure(self)
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            self.skipped["egress"] = why_failed(error)

    def images(self):
        try:
            self.result["images"] = images.measure(self)
        except (subprocess.SubprocessError, OSError, RuntimeError, AssertionError) as error:
            self.skipped["images"] = why_failed(error)

    def warm(self):
        try:
            self.result["warm"] = warm.measure(self)
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            self.skipped["warm"] = why_failed(error)

    def engines(self):
        try:
            self.result["engines"] = containers.measure(self)
        except (subprocess.SubprocessError, OSError, RuntimeError, AssertionError) as error:
            self.skipped["engines"] = why_failed(error)

    def contexts(self):
        try:
            self.result["contexts"] = contexts.measure(self)
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            self.skipped["contexts"] = why_failed(error)

    def footprint(self):
        stripped = self.scratch / "stripped"
        run(["strip", "-o", str(stripped), self.cay.binary])
        dynamic = run(["readelf", "-dW", self.cay.binary])
        self.result["footprint"] = {
            "bytes": Path(self.cay.binary).stat().st_size,
            "bytes_stripped": stripped.stat().st_size,
            "shared_libraries": [line.split("[")[1].rstrip("]") for line in dynamic.splitlines()
                                 if "(NEEDED)" in line],
            "interpreter": "INTERP" in run(["readelf", "-lW", self.cay.binary]),
            **self.resident()}

    def resident(self):
        """VmHWM while the program runs and its output, a megabyte, is kept: cay's and init's.

        Not by wait4(): its maximum counts children, and the parent before exec.
        """
        code = "import sys, time; print('x' * 999_999, flush=True); time.sleep(9)"
        child = subprocess.Popen([self.cay.binary, "run", "--json", "-c", code], env=self.env,
                                 cwd=self.scratch, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.6)
            init = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
            return {"peak_rss": peak_rss(child.pid), "init_rss": peak_rss(init[0])}
        finally:
            child.terminate()
            child.wait()


def peak_rss(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def over(rows, name, quantile):
    """What name adds to bare, in microseconds."""
    return rows[name][quantile] - rows["bare"][quantile]


def one_shot_targets(shot):
    true = shot["true"]
    yield ("one-shot /bin/true, over bare", over(true, "cay", "median") / 1e3,
           over(true, "cay", "p25") / 1e3, 3.0, "ms")
    yield ("one-shot Python, over bare", over(shot["python"], "cay", "median") / 1e3,
           over(shot["python"], "cay", "p25") / 1e3, 3.0, "ms")
    if "bubblewrap" in true:
        yield ("one-shot, of what bubblewrap adds",
               over(true, "cay", "median") / over(true, "bubblewrap", "median"),
               over(true, "cay", "p25") / over(true, "bubblewrap", "p25"), 0.6, "x")


def launcher_targets(launcher):
    rows, python = launcher["true"], launcher["python"]
    yield ("launcher, fresh network, over bare", over(rows, "fresh", "median") / 1e3,
           over(rows, "fresh", "p25") / 1e3, 1.2, "ms")
    yield ("launcher, pooled network, over bare", over(rows, "pooled", "median") / 1e3,
           over(rows, "pooled", "p25") / 1e3, 0.6, "ms")
    yield ("launcher, whole island made ahead, over bare", over(rows, "ahead", "median") / 1e3,
           over(rows, "ahead", "p25") / 1e3, 0.6, "ms")
    for mode in ("fresh", "pooled", "ahead"):
        yield (f"launcher, {mode}, Python to bare",
               python[mode]["median"] / python["bare"]["median"],
               python[mode]["p25"] / python["bare"]["p25"], 1.10, "x")


def tax_targets(rows):
    # No measurable tax on computing: 3 % is what two bare runs differ by.
    for what, label, most in (("cpu", "CPU-bound loop to bare", 1.03),
                              ("own file", "open/read/close in /workspace to bare", 1.2),
                              ("system file", "open/read/close in /usr to bare", 1.2)):
        if "cay" not in rows:
            continue
        yield (label, rows["cay"][what]["median"] / rows["bare"][what]["median"],
               rows["cay"][what]["p25"] / rows["bare"][what]["p25"], most, "x")


def density_targets(density):
    gone = density["end_us"] / 1e6
    yield ("density: all islands gone", gone, gone, 2.0, "s")


def abuse_targets(rows):
    failed = sum(row["failed"] for row in rows["cay"].values())
    yield ("runs that failed beside bombs", failed, failed, 0, "")


def footprint_targets(foot):
    yield ("on disk", foot["bytes"] / 1e6, foot["bytes_stripped"] / 1e6, 1.5, "MB")
    yield ("resident, at most", foot["peak_rss"] / 1e6, foot["peak_rss"] / 1e6, 3.0, "MB")
    yield ("shared libraries", len(foot["shared_libraries"]), len(foot["shared_libraries"]), 0, "")


def targets_of(result):
    """(what, figure by median, figure by p25, the most it may be, unit)"""
    for name, part in PARTS.items():
        if result.get(name):
            yield from part.targets(result[name])


def judge(result):
    return [{"target": what, "median": median, "p25": p25, "most": most, "unit": unit,
             "met": median <= most}
            for what, median, p25, most, unit in targets_of(result)]


def print_times(title, rows):
    print(f"\n{title:<34}{'min':>9}{'p25':>9}{'median':>9}{'p75':>9}{'+bare':>9}{'x bare':>8}")
    bare = rows["bare"]["median"]
    for name, row in rows.items():
        cells = "".join(f"{row[q] / 1e3:9.2f}" for q in ("min", "p25", "median", "p75"))
        print(f"  {name:<32}{cells}{(row['median'] - bare) / 1e3:+9.2f}{row['median'] / bare:8.2f}")


def print_phases(rows):
    for mode, row in rows.items():
        if "phases" in row:
            parts = ", ".join(f"{name} {p['p25']:.0f}" for name, p in row["phases"].items())
            print(f"  {mode}: where it goes, us at p25: {parts}")


def print_one_shot(shot):
    print_times("one-shot, /bin/true, ms", shot["true"])
    print_times("one-shot, Python print(42), ms", shot["python"])
    print("  bubblewrap is told to show the same files; it sets no cgroups, seccomp, Landlock\n"
          "  or time namespace, and reads nothing back")


def print_launcher(launcher):
    print_times("resident launcher, /bin/true, ms", launcher["true"])
    print_phases(launcher["true"])
    print_times("resident launcher, Python, ms", launcher["python"])
    if "per_second" in launcher:
        print(f"\n{'islands per second, launchers:':<34}" + "".join(f"{n:>9}" for n in (1, 2, 4, 8)))
        for name, row in launcher["per_second"].items():
            print(f"  {name:<32}" + "".join(f"{v:9.0f}" for v in row.values()))


def print_density(d):
    print(f"\n{'islands alive at once':<34}{'p25':>9}{'median':>9}  ms to make the next one")
    for n, row in d["cost_at"].items():
        print(f"  {n:<32}{row['p25'] / 1e3:9.2f}{row['median'] / 1e3:9.2f}")
    print(f"  {d['kib_each']:.0f} KiB each, kernel and all; all {d['islands']} gone in "
          f"{d['end_us'] / 1e6:.2f} s")


def print_tax(tax):
    print(f"\n{'inside, ns for each':<34}{'bare':>9}" +
          "".join(f"{name:>12}{'x bare':>8}" for name in tax if name != "bare"))
    for what, bare in tax["bare"].items():
        cells = "".join(f"{row[what]['median']:12.1f}{row[what]['median'] / bare['median']:8.2f}"
                        for name, row in tax.items() if name != "bare")
        print(f"  {what:<32}{bare['median']:9.1f}{cells}")


def print_footprint(foot):
    print(f"\ncay: {foot['bytes'] / 1e3:.0f} kB on disk ({foot['bytes_stripped'] / 1e3:.0f} kB "
          f"stripped), {foot['peak_rss'] / 1e6:.2f} MB resident at most, an island's init "
          f"{foot['init_rss'] / 1e6:.2f} MB; shared libraries: "
          f"{', '.join(foot['shared_libraries']) or 'none'}")


# What is measured, in this order: by a method of Bench, whose name is the result's.
Part = collections.namedtuple("Part", "print targets")
PARTS = {
    "one_shot": Part(print_one_shot, one_shot_targets),
    "launcher": Part(print_launcher, launcher_targets),
    "tax": Part(print_tax, tax_targets),
    "footprint": Part(print_footprint, footprint_targets),
    "density": Part(print_density, density_targets),
    "abuse": Part(abuse.print_table, abuse_targets),
    "serve": Part(serve.print_table, serve.targets_of),
    "fairness": Part(fairness.print_table, fairness.targets_of),
    "egress": Part(egress.print_table, egress.targets_of),
    "images": Part(images.print_table, images.targets_of),
    "warm": Part(warm.print_table, warm.targets_of),
    "contexts": Part(contexts.print_table, contexts.targets_of),
    "engines": Part(containers.print_table, containers.targets_of),
}


def print_report(result):
    for name, part in PARTS.items():
        if result.get(name):
            part.print(result[name])
    for name, why in result["not_measured"].items():
        print(f"  {name}: not measured: {why}")
    print(f"\n{'target':<46}{'median':>9}{'p25':>9}{'at most':>9}")
    for row in result["targets"]:
        print(f"  {row['target']:<44}{row['median']:9.2f}{row['p25']:9.2f}{row['most']:9.2f} "
              f"{row['unit']:<3}{'met' if row['met'] else 'MISSED'}")
    if result["load_before"] > result["cpus"] / 4:
        print(f"\nThe machine was busy (load {result['load_before']:.1f} on {result['cpus']} CPUs): "
              "take the ratios, not the times.")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="half a minute instead of three")
    parser.add_argument("--only", action="append", choices=PARTS, help="nothing else; may be repeated")
    parser.add_argument("--cay", type=Path, default=ROOT / "build/cay")
    parser.add_argument("--tools", type=Path, default=ROOT / "build-bench/tests/bench",
                        help="where spawn_bench and launcher_bench are")
    parser.add_argument("--write-docs", action="store_true", help="writes docs/warm.md")
    parser.add_argument("--json", type=Path, default=ROOT / "build/bench.json")
    return parser.parse_args()


TOOLS = ("spawn_bench", "launcher_bench", "density_bench", "serve_bench", "egress_bench", "floor_bench", "warm_bench")


def main():
    args = parse_args()
    missing = [name for name in TOOLS if not (args.tools / name).exists()]
    if missing:
        print(f"bench.py: {args.tools} has no {', '.join(missing)}: `make bench` builds what is missing", file=sys.stderr)
        return 2
    start = time.monotonic()
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="cay-bench-", dir=place) as scratch:
        os.chmod(scratch, 0o755)
        bench = Bench(args, Path(scratch))
        bench.find_peers()
        for part in PARTS:
            if not args.only or part in args.only:
                getattr(bench, part)()
    result = bench.result
    result["not_measured"] = bench.skipped
    result["targets"] = judge(result)
    result["seconds"] = time.monotonic() - start
    args.json.write_text(json.dumps(result, indent=1) + "\n")
    print_report(result)
    if args.write_docs and "warm" in result:
        warm.write_docs(result["warm"], ROOT / "docs/warm.md",
                        f"{result['cpus']} CPUs, Linux {result['kernel']}, load {result['load_before']:.1f}.")
    print(f"\n{result['seconds']:.0f} s; all figures: {os.path.relpath(args.json)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
