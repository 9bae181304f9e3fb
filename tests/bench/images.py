"""Images: a pull against what others need for it, and islands of an image against those of the host's files.

The registry is Debian's docker-registry on loopback, and the image is made of this machine's own /usr, in
layers that skopeo compressed. Each pull begins with nothing, ends with a root that can be used, and is on
the disk, not in memory: that is where stores are. In turns, so that a busy neighbour is everybody's.
"""

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

import serve

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("images", "integration")]

LAYERS = 4
SOURCES = ("/usr/lib", "/usr/share", "/usr/bin")
PROGRAM = ["/bin/busybox", "true"]  # the same file on both kinds of islands


def layers_of_host(megabytes):
    """So much of what is in /usr, as tars."""
    from makers import Tree
    each, tree, size, made = (megabytes << 20) // LAYERS, Tree(), 0, []
    for top in SOURCES:
        for directory, names, files in os.walk(top):
            names.sort()
            for name in sorted(files):
                path = os.path.join(directory, name)
                stat = os.lstat(path)
                if os.path.islink(path):
                    tree.symlink(path[1:], os.readlink(path))
                elif os.path.isfile(path) and stat.st_size < each // 4:
                    tree.program(path[1:], path, stat.st_mode & 0o777)
                    size += stat.st_size
                if size >= each:
                    made.append(tree.data)
                    tree, size = Tree(), 0
                if len(made) == LAYERS:
                    return made
    raise RuntimeError(f"there are no {megabytes} MB in {', '.join(SOURCES)}")


class Pulls:
    """How an image gets from a registry to a root: {name: function of an empty directory and a reference}."""

    def __init__(self, binary, env):
        self.binary, self.env = binary, env
        self.ways = {"cay": self.cay, "skopeo and umoci": self.skopeo, "podman": self.podman}

    def call(self, *argv, **more):
        env = {**self.env, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **more}
        subprocess.run([str(word) for word in argv], check=True, capture_output=True, text=True, timeout=300, env=env)

    def cay(self, place, reference):
        self.call(self.binary, "image", "pull", reference, CAY_CONFIG=store_at(place))

    def skopeo(self, place, reference):
        self.call("skopeo", "--insecure-policy", "copy", "--quiet", "--src-tls-verify=false", f"docker://{reference}",
                  f"oci:{place}/layout:it")
        self.call("umoci", "unpack", "--image", f"{place}/layout:it", place / "bundle")

    def podman(self, place, reference):
        from podman import podman
        with tempfile.TemporaryDirectory(prefix="podman-", dir="/tmp") as short:
            self.call(*podman(place / "root", short, "overlay"), "pull", "--quiet", "--tls-verify=false", reference)

    def measure(self, top, reference, rounds, skipped):
        """Seconds of each way in each round."""
        turns = []
        for _ in range(rounds):
            turn = {}
            for name in random.sample(list(self.ways), len(self.ways)):
                place = Path(tempfile.mkdtemp(prefix="pull-", dir=top))
                try:
                    start = time.perf_counter()
                    self.ways[name](place, reference)
                    turn[name] = time.perf_counter() - start
                except (subprocess.SubprocessError, OSError) as error:
                    if name == "cay":
                        raise
                    skipped[name] = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
                    del self.ways[name]
                finally:
                    shutil.rmtree(place)
                os.sync()  # what one leaves to be written is not the next one's to wait for
            turns.append(turn)
        return {name: [turn[name] for turn in turns] for name in self.ways if all(name in turn for turn in turns)}


def store_at(place):
    config = place / "cay.conf"
    config.write_text(f"[images]\nstore = {place}/store\n")
    return str(config)


def measure_pulls(bench, top, reference):
    pulls = Pulls(bench.cay.binary, bench.env)
    rows = pulls.measure(top, reference, bench.size("image_rounds"), bench.skipped)
    return {name: {"seconds": values, "median": statistics.median(values),
                   "of_cay": statistics.median(value / mine for value, mine in zip(values, rows["cay"]))}
            for name, values in rows.items()}


def measure_islands(bench, top, reference):
    """/bin/busybox true, of the host and of the image."""
    place = top / "islands"
    place.mkdir()
    env = {**bench.env, "CAY_CONFIG": store_at(place)}
    run = [bench.cay.binary, "run"]
    subprocess.run([bench.cay.binary, "image", "pull", reference], env=env, check=True, capture_output=True, text=True)
    one_shot = bench.spawn(bench.size("image_starts"), {
        "host": [*run, "--", *PROGRAM], "image": [*run, "--image", reference, "--", *PROGRAM]}, env)
    bodies = {"host": {"argv": PROGRAM}, "image": {"argv": PROGRAM, "image": reference}}
    turns = {name: [] for name in bodies}
    daemon = serve.Daemon(bench.cay.binary, place, env)
    try:
        for _ in range(bench.size("image_turns")):
            for name in random.sample(list(bodies), len(bodies)):
                out = subprocess.run([str(bench.tools / "serve_bench"), "http", str(bench.size("image_runs")), "1",
                                      str(daemon.socket), json.dumps(bodies[name])],
                                     env=env, capture_output=True, text=True, check=True, timeout=600)
                turns[name].append(json.loads(out.stdout)["median_us"])
    finally:
        daemon.end()
    over = [image - host for image, host in zip(turns["image"], turns["host"])]
    return {"one_shot": one_shot, "daemon": {name: {"median": statistics.median(us), "p25": sorted(us)[len(us) // 4]}
                                             for name, us in turns.items()},
            "daemon_over": {"median": statistics.median(over), "p25": sorted(over)[len(over) // 4]}}


def measure(bench):
    """As bench.py's other parts; what could not be measured goes to bench.skipped."""
    from makers import Image, busybox
    from registry import Registry
    megabytes = bench.size("image_megabytes")
    with tempfile.TemporaryDirectory(prefix="bench-images-", dir=ROOT / "build") as name:
        top = Path(name)
        top.chmod(0o755)
        registry = Registry(top / "registry")
        try:
            reference = registry.push("bench:1", Image(busybox(), *layers_of_host(megabytes), compress=False))
            result = {"megabytes": megabytes, "pulls": measure_pulls(bench, top, reference)}
            result["islands"] = measure_islands(bench, top, reference)
        finally:
            registry.stop()
    return result


def print_table(result):
    print(f"\n{'pull and unpack, ' + str(result['megabytes']) + ' MB':<34}{'median':>9}{'to cay':>9}  s")
    for name, row in result["pulls"].items():
        print(f"  {name:<32}{row['median']:9.2f}{row['of_cay']:9.2f}")
    for how in ("one_shot", "daemon"):
        host, image = (result["islands"][how][name]["median"] / 1e3 for name in ("host", "image"))
        print(f"  an island of the image, {how}: {image:.2f} ms, {image - host:+.2f} over the host's")


def targets_of(result):
    """As bench.py's."""
    for name, row in result["pulls"].items():
        if name != "cay":
            yield f"pull and unpack, to {name}", 1 / row["of_cay"], 1 / row["of_cay"], 1.0, "x"
    shot, over = result["islands"]["one_shot"], result["islands"]["daemon_over"]
    yield ("island of an image over the host's, one-shot", (shot["image"]["median"] - shot["host"]["median"]) / 1e3,
           (shot["image"]["p25"] - shot["host"]["p25"]) / 1e3, 0.3, "ms")
    yield "island of an image over the host's, daemon", over["median"] / 1e3, over["p25"] / 1e3, 0.3, "ms"
