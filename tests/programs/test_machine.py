"""The island as a machine of its own size: processors, memory, name, user, time."""

import json
import os
import pathlib
import time

import pytest

from program import PYTHON, need, put, python, run, shell
from support import must_work

MIB = 1 << 20


def per_cpus(cay, *command, options=()):
    """What a command prints on islands with one CPU and with two."""
    if len(os.sched_getaffinity(0)) < 2:
        must_work("this machine has one CPU")
    return [run(cay, *command, options=[*options, "--cpus", n]) for n in ("0.5", "1", "1.5", "2")]


COUNTERS = {
    "nproc": ["nproc"],
    "getconf": ["getconf", "_NPROCESSORS_ONLN"],
    "python": [PYTHON, "-c", "import os; print(os.cpu_count())"],
    "python affinity": [PYTHON, "-c", "import os; print(len(os.sched_getaffinity(0)))"],
    "python pool": [PYTHON, "-c", "import multiprocessing as m; print(len(m.Pool()._pool))"],
    "joblib": [PYTHON, "-c", "import joblib; print(joblib.cpu_count())"],
    "node": ["node", "-p", "os.availableParallelism()"],
    "ruby": ["ruby", "-retc", "-e", "p Etc.nprocessors"],
    "perl": ["perl", "-e", "use POSIX; print POSIX::sysconf(84), chr 10"],
    "php": ["php", "-r", "echo trim(shell_exec('nproc')), PHP_EOL;"],
}


@pytest.mark.parametrize("counter", COUNTERS)
def test_processors_in_sight_are_those_that_may_be_used(cay, counter):
    command = COUNTERS[counter]
    need(command[0])
    assert per_cpus(cay, *command) == ["1\n", "1\n", "2\n", "2\n"]


def test_more_cpus_than_the_machine_has(cay):
    have = len(os.sched_getaffinity(0))
    assert run(cay, "nproc", options=["--cpus", str(have + 1)]) == f"{have}\n"
    assert python(cay, "import os; print(os.cpu_count())", "--cpus", str(have + 1)) == f"{have}\n"


def test_numbers_that_are_the_hosts(cay):
    """The kernel has no view of an island for these: documented, and node and R read them."""
    have = os.cpu_count()
    assert run(cay, "grep", "-c", "^processor", "/proc/cpuinfo") == f"{have}\n"
    need("node")
    assert run(cay, "node", "-p", "os.cpus().length") == f"{have}\n"


def test_threads_fit_the_process_limit(cay):
    """What runtimes start by themselves, on one CPU: far below the 50 there are."""
    need("node", "java", "go")
    count = "ls /proc/$!/task | wc -l; kill $!"
    node = shell(cay, f"node -e 'setInterval(() => 0, 1000); fs.stat(\".\", () => 0)' & sleep 1; {count}")
    java = shell(cay, """
        echo 'class M { public static void main(String[] a) { \
            System.out.println(new java.io.File("/proc/self/task").list().length); } }' > M.java
        java M.java""")
    assert 1 < int(node) < 16 and 1 < int(java) < 30


# Live data of 120 MB, and much beside it that lives a while: by the host's memory, a runtime sees
# no reason to collect it before the island's is gone.
NODE_GARBAGE = """
const live = [];
for (let i = 0; i < 120; i++) live.push(new Array(131072).fill(i));
const ring = [];
for (let i = 0; i < 1500; i++) ring[i % 64] = new Array(32768).fill(i + 0.5).map(x => x);
console.log(live.length, process.constrainedMemory(), require('v8').getHeapStatistics().heap_size_limit <= 300 * 2 ** 20);
"""

# It begins to collect when the heap has grown by 70 % of what lived on, and ends at 100 %: past the limit.
GO_GARBAGE = """
package main

import ("fmt"; "runtime")

func main() {
    live := [][]byte{}
    for i := 0; i < 340; i++ { live = append(live, make([]byte, 1<<20)); live[i][i] = 1; touch(live[i]) }
    for i := 0; i < 3000; i++ { touch(make([]byte, 1<<20)) }
    fmt.Println(len(live))
    runtime.KeepAlive(live)  // the length alone would let the rest be collected
}

func touch(b []byte) { for i := 0; i < len(b); i += 4096 { b[i] = 1 } }
"""


def test_node_collects_before_the_limit(cay, place):
    need("node")
    if int(run(cay, "node", "-p", "process.versions.node").split(".")[0]) < 20:
        must_work("node before 20 knows no cgroup v2")
    options = put(place, main_js=NODE_GARBAGE)
    assert run(cay, "node", "main.js", options=options) == f"120 {512 * MIB} true\n"
    assert cay.run(*options, "-e", "NODE_OPTIONS=--max-old-space-size=4096", "--", "node", "main.js").rc == 137


def test_go_collects_before_the_limit(cay, place):
    need("go")
    # What the compiler leaves in /tmp is memory, too, of which its garbage collector knows nothing.
    cay.run(*put(place, main_go=GO_GARBAGE), "--get", "main", "--", "go", "build", "-o", "main", "main.go").ok()
    (place / "main").chmod(0o755)
    main = ["--put", "main", "--", "./main"]
    assert cay.run(*main).ok().text == "340\n"
    assert cay.run("-e", "GOMEMLIMIT=off", *main).rc == 137


def test_name_user_and_places(cay):
    out = shell(cay, """
        uname -n; hostname; id -un; id -gn; echo ~ $HOME $PWD $TMPDIR $USER $LOGNAME $SHELL $LANG
        getent passwd cay; locale charmap; mktemp -u | cut -d/ -f2; env | grep -c TERM || getent hosts cay
        """)
    assert out.splitlines() == [
        "cay", "cay", "cay", "cay", "/workspace /workspace /workspace /tmp cay cay /bin/sh C.UTF-8",
        "cay:x:1000:1000:cay:/workspace:/bin/sh", "UTF-8", "tmp", "0", "127.0.0.1       localhost cay"]


@pytest.mark.parametrize("access", ["ro", "rw"])
def test_home_is_no_host_directory(cay, place, config, root, access):
    work = place / "work"
    work.mkdir()
    settings = config(f"[mounts]\nwrite = {work}\n")
    out = shell(cay, "echo $HOME $PWD; touch ~/x", "--workspace", f"{work}:{access}", config=settings)
    assert out == "/tmp /workspace\n" and not list(work.iterdir())


def test_time_zone_of_the_host(cay):
    zone = os.path.realpath("/etc/localtime").removeprefix("/usr/share/zoneinfo/")
    assert run(cay, "date", "+%Z %z") == time.strftime("%Z %z\n")
    assert python(cay, "import os; print(os.path.realpath('/etc/localtime'))") == f"/usr/share/zoneinfo/{zone}\n"
    assert python(cay, "import datetime, zoneinfo; t = datetime.datetime(2024, 7, 1, "
                  "tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')); print(t.utcoffset())") == "2:00:00\n"
    assert run(cay, "date", "+%H", "-d", "@0", options=["-e", "TZ=Asia/Tokyo"]) == "09\n"


def test_terminals_of_its_own(cay):
    out = python(cay, """
        import os, pty, tty
        print([os.isatty(fd) for fd in (0, 1, 2)])
        master, slave = pty.openpty()
        os.set_blocking(master, True)
        tty.setraw(slave)
        os.write(master, b'typed'); print(os.read(slave, 9), os.ttyname(slave), os.get_terminal_size(slave).columns)
        """)
    assert out == "[False, False, False]\nb'typed' /dev/pts/0 0\n"


def test_mounts_are_told_where_programs_ask(cay):
    assert run(cay, "readlink", "/etc/mtab") == "../proc/self/mounts\n"
    used = json.loads(python(cay, """
        import json, shutil
        print(json.dumps([shutil.disk_usage(p).total for p in ("/tmp", "/workspace", "/dev/shm")]))
        """))
    assert used == [100 * MIB] * 3


# What of the host's /etc is not for islands, though programs on the list have it beside what is.
@pytest.mark.parametrize("path", ["/etc/R/Renviron.site", "/etc/R/Rprofile.site", "/etc/php/8.2/mods-available",
                                  "/etc/npmrc", "/etc/pip.conf", "/etc/gitconfig", "/etc/environment",
                                  "/etc/machine-id", "/etc/maven", "/etc/ssl/private", "/etc/chromium"])
def test_settings_that_may_hold_secrets_stay_outside(cay, path):
    assert python(cay, f"import os; print(os.path.lexists({path!r}))") == "False\n"


def test_etc_is_not_writable(cay):
    listed = json.loads(python(cay, """
        import json, os
        print(json.dumps([p for d, _, names in os.walk("/etc") for p in [d, *(f"{d}/{n}" for n in names)]
                          if os.access(p, os.W_OK)]))
        """))
    assert listed == []


def test_a_program_that_is_not_there_is_said_so(cay):
    """The loud skip of these tests must not hide an island that hides programs."""
    missing = [name for name in ("bash", "perl", "python3", "tar") if not pathlib.Path("/usr/bin", name).exists()]
    assert not missing
    assert cay.run("--", "no-such-program").rc == 127
