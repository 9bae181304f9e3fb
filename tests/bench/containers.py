"""Containers: what a run in one costs by cay, and by the engine's own client; the same of a command in a live one.

Each engine is one of the bench's own, with Debian's root as the image. Whole processes are timed, in turns, so
that a busy neighbour is everybody's.
"""

import contextlib
import subprocess
import sys
from pathlib import Path

import serve

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("containers", "places", "images", "integration")]

IMAGE = "localhost/cay-bench:1"
PROGRAM = ["/bin/true"]
# As cay's are: nothing but a network of its own costs either anything.
OWN = ["--rm", "--network", "none"]
LIMITS = ["--ulimit", "nofile=1024", "--ulimit", "nproc=1024"]  # Podman's own are more than some roots may give


def of_runs(bench, engine, env):
    return bench.spawn(bench.size("container_rounds"), {
        "cay": [bench.cay.binary, "run", "--engine", engine.name, "--image", IMAGE, "--", *PROGRAM],
        engine.name: [*engine.client, "run", *OWN, *LIMITS, IMAGE, *PROGRAM]}, env)


def of_commands(bench, engine, place, env):
    """In a sandbox, and in a container, that stand already."""
    daemon = serve.Daemon(bench.cay.binary, place, env)
    theirs = engine.call("run", "-d", *OWN, *LIMITS, IMAGE, "sleep", "3600", text=True).strip()
    try:
        env = {**env, "CAY_HOST": f"unix:{daemon.socket}"}
        ours = subprocess.run([bench.cay.binary, "create", "--engine", engine.name, "--image", IMAGE], env=env,
                              capture_output=True, text=True, check=True).stdout.strip()
        return bench.spawn(bench.size("container_commands"), {
            "cay": [bench.cay.binary, "exec", ours, "--", *PROGRAM],
            engine.name: [*engine.client, "exec", theirs, *PROGRAM]}, env)
    finally:
        engine.call("rm", "-f", theirs)
        engine.settle()
        daemon.end()


def measure(bench):
    """As bench.py's other parts; what could not be measured goes to bench.skipped."""
    import pytest
    from debian import python_root
    from engines import docker_engine, podman_engine
    result = {}
    for name, start in (("docker", docker_engine), ("podman", podman_engine)):
        try:
            with start() as engine, contextlib.ExitStack() as stack:
                engine.bring(IMAGE, python_root().read_bytes())
                place = bench.scratch / f"engine-{name}"
                place.mkdir()
                env = {**bench.env, **engine.environment}
                stack.callback(engine.settle)
                result[name] = {"run": of_runs(bench, engine, env)}
                result[name]["command"] = of_commands(bench, engine, place, env)
        except pytest.skip.Exception as why:
            bench.skipped[f"containers of {name}"] = str(why)
        except subprocess.CalledProcessError as error:
            said = error.stderr if isinstance(error.stderr, str) else (error.stderr or b"").decode(errors="replace")
            bench.skipped[f"containers of {name}"] = said.strip()[-300:] or str(error)
    return result


def print_table(result):
    print(f"\n{'containers, /bin/true':<34}{'cay':>9}{'client':>9}{'ratio':>9}  ms")
    for name, row in result.items():
        for what, times in row.items():
            mine, theirs = times["cay"]["median"] / 1e3, times[name]["median"] / 1e3
            print(f"  {name + ' ' + what:<32}{mine:9.1f}{theirs:9.1f}{mine / theirs:9.2f}")


def targets_of(result):
    """As bench.py's: no slower than the engine's own client."""
    for name, row in result.items():
        for what, times in row.items():
            yield (f"{name} {what} to its own client", times["cay"]["median"] / times[name]["median"],
                   times["cay"]["p25"] / times[name]["p25"], 1.0, "x")
