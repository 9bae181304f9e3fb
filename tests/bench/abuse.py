"""Bombs beside well-behaved runs: those must keep succeeding, and not become much slower.

Eight islands at a time do their worst, one kind after the other, under the default
limits; what is timed is `cay run -- /bin/true` beside them, and alone before and
after. On a machine with fewer CPUs than bombs a part of that is plain waiting for a
CPU: the same number of bare busy loops beside a bare /bin/true shows how much.
"""
import statistics
import subprocess
import time

AT_ONCE = 8

BOMBS = {
    "forks": ["sh", "-c", "f() { f | f & }; while :; do f 2>/dev/null; done"],
    "memory": ["python3", "-c", "b = []\nwhile True: b.append(bytearray(1 << 22))"],
    "disk": ["sh", "-c", "while :; do dd if=/dev/zero of=/tmp/x bs=1M 2>/dev/null; done"],
    "files": ["python3", "-c", "import os\nn = 0\nwhile True:\n try: open(f'/tmp/{n}', 'w')\n"
              " except OSError: os.system('rm -rf /tmp/*')\n n += 1"],
    "output": ["yes"],
    "cpu": ["sh", "-c", "while :; do :; done"],
}


class Crowd:
    """As many processes as asked for, each started again when it ends."""

    def __init__(self, command):
        self.command = command
        self.running = [self.start() for _ in range(AT_ONCE)]

    def start(self):
        return subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def refill(self):
        self.running = [p if p.poll() is None else self.start() for p in self.running]

    def __enter__(self):
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        for p in self.running:
            p.terminate()
        for p in self.running:
            p.wait()


def time_runs(command, seconds, crowd=None):
    """Median milliseconds, how many, how many failed."""
    times, failed, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end or len(times) < 3:
        if crowd:
            crowd.refill()
        began = time.perf_counter()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        times.append((time.perf_counter() - began) * 1e3)
        failed += done.returncode != 0
    return {"median": statistics.median(times), "n": len(times), "failed": failed}


def measure(cay, seconds):
    well = [cay, "run", "--", "/bin/true"]
    rows = {"alone": time_runs(well, seconds)}
    for name, bomb in BOMBS.items():
        with Crowd([cay, "run", "--timeout", "20", "--", *bomb]) as crowd:
            rows[name] = time_runs(well, seconds, crowd)
    rows["alone, after"] = time_runs(well, seconds)
    bare = {"alone": time_runs(["/bin/true"], seconds)}
    with Crowd(BOMBS["cpu"]) as crowd:
        bare["cpu, bare"] = time_runs(["/bin/true"], seconds, crowd)
    return {"cay": rows, "bare": bare}


def print_table(result):
    print(f"\n{f'{AT_ONCE} bombs beside it, /bin/true, ms':<34}{'median':>9}{'x alone':>9}"
          f"{'runs':>7}{'failed':>8}")
    for rows in (result["cay"], result["bare"]):
        alone = rows["alone"]["median"]
        for name, row in rows.items():
            label = f"bare: {name}" if rows is result["bare"] else name
            print(f"  {label:<32}{row['median']:9.2f}{row['median'] / alone:9.2f}{row['n']:7}"
                  f"{row['failed']:8}")
