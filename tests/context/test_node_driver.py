"""The node driver, bare: values, declarations, imports, errors, interrupts and bounds."""

import base64
import time

import pytest
from driver import ROOT, Driver, Ended

TEXT = (ROOT / "src/context/node.js").read_text()
# As the daemon starts it: node has no dup(), so a shell puts the control channel at fd 3.
ARGV = ["setsid", "sh", "-c", 'exec 3<&0 </dev/null; exec "$0" --no-force-async-hooks-checks -e "$1"', "node", TEXT]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Driver(ARGV, cwd=tmp_path_factory.mktemp("node")) as d:
        yield d


@pytest.fixture
def node(tmp_path):
    with Driver(ARGV, cwd=tmp_path) as d:
        yield d


def value(d, code):
    """text/plain of what the code is worth; None where it is worth nothing."""
    cell = d.run(code)
    assert cell.exception is None and cell.exit_code == 0, cell
    assert len(cell.results) <= 1
    return cell.results[0]["text/plain"] if cell.results else None


def test_the_text_is_short_enough_for_an_argument():
    assert len(TEXT.encode()) < 100_000


def test_ready_names_the_process(shared):
    assert value(shared, "process.pid") == str(shared.ready["pid"])


VALUES = {"1 + 1": "2", "'a\\nb'": "'a\\nb'", "null": "null", "undefined": None, "const c1 = 5": None, "NaN": "NaN",
          "-0": "-0", "10n": "10n", "Symbol('s')": "Symbol(s)", "[1, , 3]": "[ 1, <1 empty item>, 3 ]",
          "({a: 1, b: [2]})": "{ a: 1, b: [ 2 ] }", "{ a: 1 }": "{ a: 1 }", "{ a: 1 };": "1", "{}": "{}",
          "{ let q = 4; q }": "4", "x => x": "[Function (anonymous)]", "function f1() {}": None, "class K1 {}": None,
          "if (1) 5": "5", "for (let i = 0; i < 3; i++) i * 2": "4", "Buffer.from('ab')": "<Buffer 61 62>",
          "new Uint8Array([1, 2])": "Uint8Array(2) [ 1, 2 ]", "new Map([[1, 2]])": "Map(1) { 1 => 2 }",
          "await 5": "5", "await new Promise((r) => setTimeout(r, 20, 'late'))": "'late'",
          "const w1 = await 7; w1 * 2": "14", "let [p1, {q1}] = await [1, {q1: 2}]; p1 + q1": "3",
          "for await (const x of [1, 2]) x": "2", "`a${await 1}b`": "'a1b'", "1 // a comment": "1", "": None,
          "// nothing": None, "#!/usr/bin/env node\n3": "3", "'use strict'; this === globalThis": "true",
          "Promise.resolve(3)": "Promise { 3 }", "(() => { return 8 })()": "8", "/[/]import(1)/.source": "'[/]import(1)'",
          "new Proxy({}, {})": "{}"}


@pytest.mark.parametrize("code", VALUES)
def test_values(shared, code):
    # Twice: whatever is declared may be declared again.
    assert value(shared, code) == value(shared, code) == VALUES[code]


def test_a_value_that_can_not_be_shown(shared):
    cell = shared.run("({[util.inspect.custom]() { throw new Error('no') }, a: 1})")
    assert "a: 1" in cell.text and cell.exception is None


def test_declarations_are_kept_and_replaced(node):
    value(node, "const a = 1; let b = 2; var c = 3; class D { x() { return a } }; function e() { return a + b }")
    assert value(node, "[a, b, c, new D().x(), e()]") == "[ 1, 2, 3, 1, 3 ]"
    value(node, "const a = 10; let b = 20; class D { x() { return 'new' } }")
    assert value(node, "[a, b, new D().x(), e()]") == "[ 10, 20, 'new', 30 ]"
    # A declaration that failed doesn't stand in the way of the next.
    assert node.run("const z = nothing()").exception["name"] == "ReferenceError"
    assert value(node, "const z = 1; z") == "1"
    assert node.run("a = 5").exception["name"] == "TypeError"


def test_output(node):
    cell = node.run("console.log('out', {a: 1}); console.error('err'); process.stdout.write('raw'); 1")
    assert (cell.stdout, cell.stderr, cell.text) == ("out { a: 1 }\nraw", "err\n", "1")
    cell = node.run("console.log('x'.repeat(3_000_000)); await 1; process.stdout.write(Buffer.from([255, 0]))")
    assert node.raw["stdout"] == b"x" * 3_000_000 + b"\n\xff\0"


def test_stdin_is_empty(node):
    assert value(node, "fs.readFileSync(0, 'utf8')") == "''"
    assert value(node, "let s = 'e'; for await (const c of process.stdin) s += c; s") == "'e'"
    cell = node.run("child_process.execSync('cat; echo done', {stdio: 'inherit'}); 0")
    assert cell.stdout == "done\n"


def test_programs_do_not_inherit_the_channel(node):
    cell = node.run("child_process.spawnSync('ls', ['-l', '/proc/self/fd'], {stdio: 'inherit'}); 0")
    assert "pipe" in cell.stdout and "socket" not in cell.stdout


def test_where_the_channel_stays_at_0(tmp_path):
    with Driver(["setsid", "node", "-e", TEXT], cwd=tmp_path) as d:
        assert value(d, "1 + 1") == "2"


@pytest.fixture
def modules(tmp_path):
    (tmp_path / "m.mjs").write_text("export default 1; export const two = 2; export const n = import.meta.url.length;\n")
    (tmp_path / "c.cjs").write_text("exports.three = 3; exports.dir = __dirname;\n")
    (tmp_path / "d.json").write_text('{"four": 4}\n')
    package = tmp_path / "sub/node_modules/pack"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "pack", "main": "main.js"}')
    (package / "main.js").write_text("exports.five = 5;\n")
    return tmp_path


IMPORTS = {"import fs from 'fs'; typeof fs.readFileSync": "'function'",
           "import { join as j, sep } from 'node:path'\n[j('a', 'b'), sep]": "[ 'a/b', '/' ]",
           "import * as ns from './m.mjs'; ns.two": "2",
           "import one, { two } from './m.mjs'; one + two": "3",
           "import one2, * as all from \"./m.mjs\"; one2 + all.two": "3",
           "import{two as z}from'./m.mjs';z": "2",
           "import {\n  two, // a comment\n  default as d,\n} from './m.mjs'\n(two)\n;[d]": "[ 1 ]",
           "import './m.mjs'": None, "import './m.mjs'; 7": "7",
           "import { three } from './c.cjs'; three": "3", "import c from './c.cjs'; c.three": "3",
           "/* import x from 'y' */ import { two } from './m.mjs'; two": "2",
           "'import x from \"y\"'": "'import x from \"y\"'",
           "await import('./m.mjs').then((m) => m.two)": "2", "(await import ('./m.mjs')).default": "1",
           "const o = { import(x) { return x } }; o.import(6)": "6", "`import('x') ${(await import('./m.mjs')).two}`": "\"import('x') 2\"",
           "async function late() { return (await import('./m.mjs')).two }; await late()": "2",
           "require('./c.cjs').three": "3", "require('./d.json').four": "4", "require.resolve('fs')": "'fs'"}


@pytest.mark.parametrize("code", IMPORTS)
def test_imports(modules, code):
    with Driver(ARGV, cwd=modules) as d:
        assert value(d, code) == value(d, code) == IMPORTS[code]


def test_modules_are_found_from_where_we_are(modules):
    with Driver(ARGV, cwd=modules) as d:
        assert d.run("await import('pack')").exception["name"] == "Error"
        assert d.run("require('pack')").exception["value"].startswith("Cannot find module 'pack'")
        value(d, "process.chdir('sub'); 0")
        assert value(d, "require('pack').five + (await import('pack')).five") == "10"
        assert value(d, "import { two } from '../m.mjs'; two + require('../c.cjs').three") == "5"


def test_imports_that_fail(modules):
    with Driver(ARGV, cwd=modules) as d:
        missing = d.run("import { nine } from './m.mjs'").exception
        assert (missing["name"], missing["value"]) == (
            "SyntaxError", "The requested module './m.mjs' does not provide an export named 'nine'")
        assert "Cannot find" in d.run("import x from './nowhere.mjs'").exception["value"]
        lines = d.run("import {\n two\n} from './m.mjs'\nthrow new Error('x')").exception["traceback"]
        assert "cell 3:4:7" in lines


def test_errors(node):
    cell = node.run("function f(x) {\n  return x.y\n}\nf(null)")
    assert cell.exit_code == 1 and cell.stderr == "" and cell.results == []
    assert cell.exception == {
        "name": "TypeError", "value": "Cannot read properties of null (reading 'y')",
        "traceback": "TypeError: Cannot read properties of null (reading 'y')\n    at f (cell 1:2:12)\n    at cell 1:4:1"}
    # What an earlier cell has defined is told by its name.
    assert node.run("f()").exception["traceback"].splitlines()[1:] == ["    at f (cell 1:2:12)", "    at cell 2:1:1"]
    later = node.run("async function g() { await 1; f() }\nawait g()").exception["traceback"]
    assert later.splitlines()[1:] == ["    at f (cell 1:2:12)", "    at g (cell 3:1:31)", "    at async cell 3:2:1"]
    cause = node.run("try { f() } catch (e) { throw new RangeError('outer', {cause: e}) }").exception
    assert cause["name"] == "RangeError" and "[cause]: TypeError: Cannot read" in cause["traceback"]
    assert node.run("[1].map(() => { throw new Error('in map') })").exception["traceback"].splitlines()[1:] == [
        "    at cell 5:1:23", "    at Array.map (<anonymous>)", "    at cell 5:1:5"]
    assert value(node, "new Error('z').stack") == "'Error: z\\n    at cell 6:1:1'"


def test_errors_of_any_kind(shared):
    name = shared.run("let x =\n  @ 1").exception
    assert (name["name"], name["value"]) == ("SyntaxError", "Invalid or unexpected token")
    assert name["traceback"].split("\n", 1)[1] == "  @ 1\n  ^\n\nSyntaxError: Invalid or unexpected token"
    assert shared.run("throw 'text'").exception == {"name": "String", "value": "'text'", "traceback": "Uncaught 'text'"}
    assert shared.run("throw {a: 1}").exception["value"] == "{ a: 1 }"
    assert shared.run("throw undefined").exception["name"] == "undefined"
    assert shared.run("throw null").exception["value"] == "null"
    assert shared.run("JSON.parse('{')").exception["name"] == "SyntaxError"
    assert shared.run("class Own extends Error { name = 'Own' }; throw new Own('mine')").exception["name"] == "Own"
    assert "ENOENT" in shared.run("fs.readFileSync('/nowhere')").exception["value"]
    assert "[ERR_INVALID_ARG_TYPE]" in shared.run("Buffer.from(1)").exception["traceback"]
    deep = shared.run("(function r() { r() })()").exception
    assert (deep["name"], deep["value"]) == ("RangeError", "Maximum call stack size exceeded")
    assert shared.run("await Promise.reject(new TypeError('rejected'))").exception["value"] == "rejected"
    assert "cay" not in str([shared.run("null.x").exception, shared.run("eval('null.x')").exception])


def test_what_nobody_catches_ends_nothing(node):
    cell = node.run("setTimeout(() => { throw new Error('timer') }, 20); Promise.reject(new Error('nobody')); 1")
    assert cell.text == "1" and "Uncaught (in promise) Error: nobody\n    at cell 1:1:" in cell.stderr
    cell = node.run("await new Promise((r) => setTimeout(r, 60)); 2")
    assert cell.text == "2" and "Uncaught Error: timer\n    at Timeout._onTimeout (cell 1:" in cell.stderr
    assert value(node, "3") == "3"


def test_exit(node):
    for code, status in (("process.exit(3); console.log('no')", 3), ("process.exit()", 0), ("process.exitCode = 4; 1", 4),
                         ("await 1; process.exit(5)", 5), ("setTimeout(() => process.exit(6), 5); await new Promise(() => {})", 6),
                         ("try { process.exit(7) } catch {}; 1", 7), ("1", 0)):
        cell = node.run("var kept = 1; " + code)
        assert (cell.exit_code, cell.exception, cell.stdout) == (status, None, "")
    assert value(node, "kept") == "1"
    with pytest.raises(Ended, match="status 9"):
        node.run("process.reallyExit(9)")


LOOPS = ["while (true) {}", "await new Promise(() => {})", "await 1; while (true) {}",
         "await new Promise((r) => setTimeout(r, 10)); for (;;);", "async function m() { await 1; for (;;) await null }; await m()",
         "setTimeout(() => { for (;;); }, 10); await new Promise(() => {})",
         "child_process.execSync('sleep 100')", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
         "/(x+x+)+y/.test('x'.repeat(40))", "({[util.inspect.custom]() { for (;;); }})",
         "try { for (;;); } catch { console.log('caught') } finally { }"]


@pytest.mark.parametrize("code", LOOPS)
def test_interrupt(node, code):
    value(node, "var kept = [1]; let also = 2")
    for _ in range(2):
        node.begin(f"console.log('on');\n{code}")
        node.output("stdout", "on\n")
        time.sleep(0.3)
        node.interrupt()
        cell = node.end(5)
        assert (cell.exception["name"], cell.exit_code, cell.stdout) == ("Interrupted", 130, "on\n")
        assert value(node, "kept.push(await 1); also") == "2"


@pytest.mark.parametrize("code", ["for (;;) console.log('xyz')", "for (;;) display(1)", "for (;;) setImmediate(() => {})",
                                  "for (let i = 0; ; i++) setTimeout(() => {}, 1e6 + i % 100)",
                                  "display(1); await new Promise(() => {})"])
def test_interrupts_at_any_moment(node, code):
    """Wherever in node's own code that is: the cell ends, and what it used works on."""
    for n in range(20):
        node.begin(f"display(0); {code}")
        node.wait("result", 10)
        time.sleep(n / 4000)
        node.interrupt()
        assert node.end(5).exit_code == 130
        cell = node.run(f"console.log('out {n}'); console.error('err'); await new Promise((r) => setTimeout(r, 1)); {n}", 10)
        assert (cell.stdout.endswith(f"out {n}\n"), cell.stderr, cell.text) == (True, "err\n", str(n))


def test_an_interrupt_between_cells_is_nothing(node):
    for code in ("1", "await 1", "2"):
        time.sleep(0.05)
        node.interrupt()
        time.sleep(0.05)
        assert value(node, code)


def test_display(node):
    cell = node.run("display({'text/html': '<b>x</b>', 'text/plain': 'x'}); display(Buffer.from('png'), 'image/png');"
                    "display([1, 2]); display('<i>', 'text/html'); display({a: [1]}, 'application/json'); display({a: 1}); 9")
    assert cell.results == [{"text/html": "<b>x</b>", "text/plain": "x"}, {"image/png": base64.b64encode(b"png").decode()},
                            {"text/plain": "[ 1, 2 ]"}, {"text/html": "<i>"}, {"application/json": {"a": [1]}},
                            {"text/plain": "{ a: 1 }"}, {"text/plain": "9"}]
    # Between cells nobody waits for results.
    node.run("setTimeout(() => display('late'), 10); 0")
    time.sleep(0.1)
    cell = node.run("1")
    assert cell.stdout == "'late'\n" and len(cell.results) == 1


def test_results_come_as_they_are_shown(node):
    node.begin("display(1); await new Promise(() => {})")
    assert node.wait("result", 5)["data"] == {"text/plain": "1"}
    node.interrupt()
    assert node.end(5).exit_code == 130


def test_bounds(node):
    cell = node.run("display('x'.repeat(5 << 20), 'text/html'); display('ä'.repeat(3 << 20), 'text/plain'); 1")
    assert "a result of 5.0 MiB of text/html was left out: the limit is 4.0 MiB" in cell.notes
    assert "a result of 6.0 MiB of text/plain was cut: the limit is 4.0 MiB" in cell.notes
    assert cell.results == [{"text/plain": "ä" * (2 << 20)}, {"text/plain": "1"}]
    cell = node.run("for (let i = 0; i < 100; i++) display(i)")
    assert len(cell.results) == 64 and cell.notes == ["36 more results were left out: a cell has at most 64, of 16.0 MiB"]
    cell = node.run("for (let i = 0; i < 6; i++) display('x'.repeat(4 << 20), 'text/html')")
    assert len(cell.results) == 3 and len(cell.notes) == 1
    assert value(node, "1") == "1"


def test_what_a_cell_breaks_of_node(node):
    for code in ("process.stdout.write = () => {}", "console.log = null", "JSON.stringify = () => 'x'", "process.stdout.end()",
                 "globalThis.display = 1; globalThis.require = null", "Error.prepareStackTrace = () => 'mine'; null.x",
                 "Error.stackTraceLimit = 0; null.x", "process.removeAllListeners('SIGINT')", "setImmediate = null"):
        node.run(code, 10)
    assert node.run("null.x", 10).exception["name"] == "TypeError"


def test_a_long_cell(node):
    assert value(node, f"'{'ä' * 1_000_000}'.length") == "1000000"


def test_the_end(node):
    node.control.close()
    assert node.process.wait(5) == 0


def test_crashes(node):
    with pytest.raises(Ended):
        node.run("process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})")
