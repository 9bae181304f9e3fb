"""Small programs that must do the same in a cloned interpreter as in a fresh one, and how that is compared.

programs/THEME.txt holds many programs:

    === NAME
    # args: a "b c"             behind the file's name, or the code's
    # stdin: text\\n             escapes as in a string
    # env: NAME=VALUE           once for each
    # run: code                 python3 -c; "both": once so, and once as a file
    # argv: {dir}/other.py x    all that follows the interpreter's name, when it isn't main.py
    # cwd: sub                  a directory below the program's
    # needs: 3.12               or "<3.12", or a module; all of them
    print("main.py, or what -c is given")
    --- other.py                a further file; a/b.py makes directories, x.zip/b.py packs b.py into x.zip
    print(1)
    --- link.py -> other.py
    --- raw.py escaped          with escapes as in a bytes literal

A *way* is a function (python, program) -> (stdout, stderr, status), status as subprocess has it; see cold().
"""

import concurrent.futures
import dataclasses
import functools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT_S = 60  # far more than any needs: a program that hangs is a difference, not a wait for ever
MAIN = "main.py"

# What can't be the same by nature: the reason, and what of stdout and stderr is compared none the less.
UNEQUAL = {
    **dict.fromkeys(["gc_freeze", "gc_freeze-c"], (
        "what was there before the clone is frozen, lest a collection copy its pages", lambda out, err: (b"", err))),
    **dict.fromkeys(["subinterpreter", "subinterpreter_313"], (
        "a sub-interpreter's sys.argv comes from the zygote's own start",
        lambda out, err: (re.sub(rb"\[[^]]*\]", b"[]", out), err))),
    "recursion_limit_too_low": (
        "how many exit functions fail goes by those that a site of the machine's own has registered",
        lambda out, err: (out, err.partition(b"Exception ignored in atexit")[0])),
}

# On islands, besides.
UNEQUAL_ON_ISLANDS = {
    **dict.fromkeys(["nice", "nice-c"], (
        "which of the CPUs it may use is another for each island",
        lambda out, err: (re.sub(rb"\{\d+\}", b"{}", out), err))),
    "del_order_of_modules": (
        "what a collection finds goes by how many objects were made before it, which is what the start made",
        lambda out, err: (sorted(out.splitlines()), err)),
}

# With numpy, pandas and matplotlib loaded, besides.
UNEQUAL_WITH_SCIENCE = {"contextvars", "contextvars-c"}  # pandas has asked for a decimal context

# Of two cold starts they differ, too.
ADDRESS = re.compile(rb"\b0x[0-9a-f]{9,16}\b")


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    theme: str
    arguments: tuple  # behind the interpreter's name, with {dir} where the program's directory is
    files: tuple  # of (path, bytes), or of (path, str): a symbolic link
    stdin: bytes = b""
    env: tuple = ()
    cwd: str = "."
    needs: tuple = ()

    def argv(self, directory):
        return [a.replace("{dir}", str(directory)) for a in self.arguments]

    def environment(self, directory):
        """All of it: nothing of the caller's, for what is compared must not depend on who calls."""
        given = dict(e.split("=", 1) for e in self.env)
        return {"PATH": "/usr/bin:/bin", "HOME": str(directory), "LANG": "C.UTF-8", **given}


def unescaped(text):
    return text.encode("ascii").decode("unicode_escape").encode("latin-1")


def split(text, mark):
    """(heading, body) for each part that begins with a line "MARK heading"; the first has no heading."""
    parts = re.split(rf"^{re.escape(mark)} (.*)\n", text, flags=re.M)
    return [("", parts[0]), *zip(parts[1::2], parts[2::2])]


def file_of(heading, body):
    path, _, kind = heading.partition(" ")
    if kind.startswith("-> "):
        return path, kind[3:]
    return path, unescaped(body.rstrip("\n")) if kind == "escaped" else body.encode()


def parsed(theme, name, text):
    """The programs of one section: one, or two where it is run both as a file and as code."""
    options, (_, code), *others = {}, *split(text, "---")
    while found := re.match(r"# (args|stdin|env|run|argv|cwd|needs): (.*)\n", code):
        options.setdefault(found[1], []).append(found[2])
        code = code[found.end():]
    files = tuple(file_of(*other) for other in others)
    rest = {"theme": theme, "stdin": unescaped("".join(options.get("stdin", []))),
            "env": tuple(options.get("env", [])), "cwd": options.get("cwd", ["."])[0],
            "needs": tuple(" ".join(options.get("needs", [])).split())}
    args = tuple(shlex.split("".join(options.get("args", []))))
    run = options.get("run", ["file"])[0]
    if "argv" in options:
        yield Program(name, arguments=tuple(shlex.split(options["argv"][0])),
                      files=((MAIN, code.encode()), *files), **rest)
        return
    if run in ("file", "both"):
        yield Program(name, arguments=("{dir}/" + MAIN, *args), files=((MAIN, code.encode()), *files), **rest)
    if run in ("code", "both"):
        yield Program(name + "-c" * (run == "both"), arguments=("-c", code, *args), files=files, **rest)


@functools.cache
def programs():
    found = []
    for path in sorted((HERE / "programs").glob("*.txt")):
        for name, text in split(path.read_text(), "===")[1:]:
            found += parsed(path.stem, name, text)
    return tuple(found)


@functools.cache
def facts(python):
    """The version, and those modules of all that programs need that are there."""
    wanted = sorted({n for p in programs() for n in p.needs if n[0].isalpha()})
    code = ("import importlib.util, json, sys; print(json.dumps([sys.version_info[:2], "
            "[m for m in sys.argv[1:] if importlib.util.find_spec(m)]]))")
    version, modules = json.loads(subprocess.run([python, "-c", code, *wanted], capture_output=True, check=True).stdout)
    return tuple(version), set(modules)


def runs_on(python, program):
    version, modules = facts(python)

    def met(need):
        if need[0].isalpha():
            return need in modules
        number = tuple(map(int, need.lstrip("<").split(".")))
        return version < number if need[0] == "<" else version >= number
    return all(map(met, program.needs))


def lay_out(program, directory):
    """The program's files, and nothing that an earlier run left there."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for path, content in program.files:
        archive, _, member = path.partition(".zip/")
        target = directory / (archive + ".zip" if member else path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            target.symlink_to(content)
        elif member:
            with zipfile.ZipFile(target, "a") as packed:
                packed.writestr(zipfile.ZipInfo(member), content)
        else:
            target.write_bytes(content)


def plain_way(scratch, run):
    """A way without an island, of run(argv, env, cwd, stdin). All of one scratch give programs the same paths."""
    def way(python, program):
        directory = scratch / program.name
        lay_out(program, directory)
        return run([python, *program.argv(directory)], program.environment(directory),
                   str(directory / program.cwd), program.stdin)
    return way


def start(argv, env, cwd, stdin):
    done = subprocess.run(argv, env=env, cwd=cwd, input=stdin, capture_output=True, timeout=TIMEOUT_S)
    return done.stdout, done.stderr, done.returncode


def cold(scratch):
    return plain_way(scratch, start)


def difference(python, program, one, other, unequal):
    """None, or both ways' results in words."""
    _, compared = unequal.get(program.name, (None, lambda out, err: (out, err)))

    def result(way):
        out, err, status = way(python, program)
        return *compared(ADDRESS.sub(b"ADDRESS", out), ADDRESS.sub(b"ADDRESS", err)), status
    (out, err, status), (out2, err2, status2) = result(one), result(other)
    if (out, err, status) == (out2, err2, status2):
        return None
    told = [f"{label}:\n  {a!r}\n  {b!r}" for label, a, b in
            (("stdout", out, out2), ("stderr", err, err2), ("status", status, status2)) if a != b]
    return f"{program.theme}/{program.name}: " + "\n".join(told)


def differences(python, chosen, pairs, unequal=UNEQUAL):
    """Of all programs; by as many workers as there are pairs of ways, for a zygote may serve one at a time."""
    def share(n):
        one, other = pairs[n]
        return [difference(python, p, one, other, unequal) for p in chosen[n::len(pairs)]]
    with concurrent.futures.ThreadPoolExecutor(len(pairs)) as pool:
        return [d for found in pool.map(share, range(len(pairs))) for d in found if d]
