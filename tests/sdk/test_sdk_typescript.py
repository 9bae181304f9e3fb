"""The TypeScript SDK: built of its lock file once, and its own tests by Nodes of three majors, against a daemon."""

import json
import os
import re
import shutil
import subprocess

import pytest

import fields
from nodes import node
from snippets import snippets
from support import CAY, ROOT, must_work

SDK = ROOT / "sdk" / "typescript"


def run(words, cwd, environ=None, timeout=300):
    done = subprocess.run([*map(str, words)], cwd=cwd, env={**os.environ, **(environ or {})}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A copy of it, built and packed as docs/typescript.md says."""
    if not shutil.which("npm"):
        must_work("no npm")
    (code, _), = snippets("typescript.md", "sh")
    source = tmp_path_factory.mktemp("ts")
    place = source / "sdk" / "typescript"
    shutil.copytree(SDK, place, ignore=shutil.ignore_patterns("node_modules", "dist", "bin"))
    run(["bash", "-euo", "pipefail", "-c", code], source, {"CAY_SOURCE": str(source), "CAY_BINARY": CAY})
    return place


@pytest.mark.parametrize("major", ["18", "22", "installed"])
def test_its_tests(major, built, daemon):
    program = shutil.which("node") if major == "installed" else node(major)[1] / "bin" / "node"
    key, _ = daemon.key(f"node-{major}")
    environ = {"CAY_HOST": f"unix:{daemon.socket}", "CAY_TCP": f"http://127.0.0.1:{daemon.port}", "CAY_KEY": key,
               "CAY_BIN": CAY, "CAY_CONFIG": "", "NODE_OPTIONS": ""}
    said = run([program, "--test", "test/sdk.test.mjs"], built, environ)
    assert re.search(r"(?m)^(#|ℹ) fail 0$", said) and not re.search(r"(?m)^(#|ℹ) pass 0$", said), said[-3000:]


def test_one_install_is_all(built, tmp_path):
    """Installed without a network: library, types and the program."""
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
    run(["npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund",
         built / "cay-sandbox-0.1.0.tgz"], tmp_path)
    (tmp_path / "use.mjs").write_text("import { Client } from 'cay-sandbox';\n"
                                      "console.log(`${await new Client({ local: true }).run('print(6 * 7)')}`);\n")
    environ = {"CAY_HOST": "", "PATH": "/usr/bin:/bin"}
    assert run([shutil.which("node"), "use.mjs"], tmp_path, environ) == "42\n"
    cay = tmp_path / "node_modules" / ".bin" / "cay"
    assert run([shutil.which("node"), cay, "run", "--cold", "-c", "print(1)"], tmp_path, environ) == "1\n"
    assert (tmp_path / "node_modules" / "cay-sandbox" / "dist" / "index.d.ts").exists()


SNIPPETS = snippets("typescript.md", "js") + snippets("../sdk/typescript/README.md", "js")


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippet(snippet, built, here):
    (built / "snippet.mjs").write_text(snippet[0])
    said = run(["node", "snippet.mjs"], built)
    assert said and (not snippet[1] or said == snippet[1])


def test_example(built, here):
    assert run(["node", "examples/tool-loop.mjs"], built) == "It is 42.\n"


def test_options_and_results_are_those_of_the_api():
    def snake(name):
        return re.sub(r"[A-Z]", lambda m: f"_{m[0].lower()}", name)
    options = (SDK / "src" / "options.ts").read_text().split("export type Request")[0]
    names = set(map(snake, re.findall(r"^  (\w+)\?: ", options, re.M)))
    calls = {"signal", "check", "raise_errors", "idempotency_key", "extra", "allow", "block"}
    assert len(names) > 40 and not names - fields.of_requests() - calls
    results = (SDK / "src" / "result.ts").read_text().split("export class SandboxResult {")[1].split("constructor")[0]
    names = set(map(snake, re.findall(r"^  readonly (\w+): ", results, re.M)))
    assert len(names) > 25 and not names - fields.of("Result") - {"error", "raw"}


def test_the_lock_file_names_no_host():
    lock = (SDK / "package-lock.json").read_text()
    assert "resolved" not in lock and "://" not in lock and json.loads(lock)["version"] == "0.1.0"


def test_the_version_is_the_programs():
    version = subprocess.run([CAY, "version"], capture_output=True, text=True).stdout.split()[1]
    assert json.loads((SDK / "package.json").read_text())["version"] == version
    assert f'version = "{version}"' in (SDK / "src" / "index.ts").read_text()
