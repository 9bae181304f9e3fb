"""The system call filter for arm64, which no machine of ours loads: in a simulator, for every number
that the kernel's own header has for it, against the table. (Loaded for real by `make test-arm64`.)"""

import pathlib
import re
import subprocess

import pytest

from support import ROOT, must_work

TABLE = ROOT / "src" / "engine" / "native" / "seccomp-table.h"
HEADER = pathlib.Path("/usr/include/asm-generic/unistd.h")  # arm64 has no numbers of its own
AARCH64, ARM, X86_64 = 0xC00000B7, 0x40000028, 0xC000003E
ALLOWED, REFUSED, ABSENT, KILLED = 0x7FFF0000, 0x50001, 0x50026, 0x80000000

# What is behind an #if for others, or in the header by another name than in libseccomp's.
NAMES = {"fstatat": "newfstatat", "sync_file_range2": None, "fadvise64_64": "fadvise64"}


def verdicts():
    text = re.sub(r"/\*.*?\*/", "", TABLE.read_text(), flags=re.S)
    found = {}
    for verdict, strings in re.findall(r"\{(\w+),\s*((?:\"[^\"]*\"\s*)+)\}", text):
        for name in "".join(re.findall(r'"([^"]*)"', strings)).split():
            found[name] = verdict
    return found


def numbers():
    """{number: name}, as gcc sees them for a 64-bit machine with that header."""
    done = subprocess.run(["gcc", "-E", "-dM", "-D__ARCH_WANT_RENAMEAT", "-D__ARCH_WANT_NEW_STAT", "-D__ARCH_WANT_SET_GET_RLIMIT",
                           "-D__ARCH_WANT_TIME32_SYSCALLS", "-D__ARCH_WANT_SYS_CLONE3",
                           "-D__ARCH_WANT_MEMFD_SECRET", HEADER], capture_output=True, text=True, check=True)
    defined = dict(re.findall(r"^#define (__NR(?:3264)?_\w+) (\w+)$", done.stdout, re.M))
    found = {}
    for name, value in defined.items():
        if name.startswith("__NR_"):
            while value in defined:
                value = defined[value]
            plain = name.removeprefix("__NR_")
            plain = NAMES.get(plain, plain)
            if plain and value.isdigit():
                found[int(value)] = plain
    return {n: name for n, name in found.items() if name not in ("syscalls", "arch_specific_syscall")}


@pytest.fixture(scope="module")
def instructions(tmp_path_factory):
    generator = ROOT / "build" / "src" / "seccomp-gen"
    if not generator.exists() or not HEADER.exists():
        must_work(f"needs {generator} and {HEADER}")
    out = tmp_path_factory.mktemp("filter") / "filter.h"
    subprocess.run([generator, "aarch64", out], check=True)
    rows = re.findall(r"\{(0x\w+), (\d+), (\d+), (0x\w+)\}", out.read_text())
    return [(int(code, 16), int(yes), int(no), int(k, 16)) for code, yes, no, k in rows]


def answer(instructions, number, arch=AARCH64):
    """What the filter says; None where it looks at arguments."""
    a = pc = 0
    while True:
        code, yes, no, k = instructions[pc]
        pc += 1
        if code == 0x20:
            if k >= 16:
                return None
            a = {0: number, 4: arch}[k]
        elif code == 0x06:
            return k
        else:
            holds = {0x15: a == k, 0x35: a >= k, 0x45: (a & k) != 0}[code]
            pc += yes if holds else no


def test_every_number(instructions):
    expected = {"ALLOW": ALLOWED, "DENY": REFUSED, "ABSENT": ABSENT}
    table, known = verdicts(), numbers()
    assert known[220] == "clone" and known[435] == "clone3" and known[56] == "openat" and len(known) > 280
    wrong = {}
    for number in range(600):
        name = known.get(number)
        verdict = table.get(name, "ABSENT")
        got = answer(instructions, number)
        if got != expected.get(verdict):
            wrong[number] = (name, verdict, got)
    # Numbers that are younger than the header are the table's own business.
    wrong = {n: why for n, why in wrong.items() if n <= max(known)}
    assert not wrong, wrong


def test_other_machines(instructions):
    """32-bit calls, which an arm64 kernel takes too, and those of another machine: death."""
    for arch in (ARM, X86_64):
        assert all(answer(instructions, number, arch) == KILLED for number in range(600))
