"""Attack 37, for an interpreter that waited, started, on its island: what it had its order by, and what of others there is."""

import json
import pathlib

import pytest

from attack import attack, told
from zygotes import run_waited, waiters


@pytest.fixture
def node(warm_daemon):
    """run(code, **more): the result of a run by one that had waited."""
    def run(code, **more):
        done = run_waited(warm_daemon, {"language": "javascript", "code": code, **more})
        assert done["exit_code"] == 0, done
        return done["stdout"]
    run.daemon = warm_daemon
    return run


SIGHT = """
const fs = require('fs')
const read = (path) => { try { return fs.readFileSync(path, 'utf8') } catch (e) { return e.code } }
const links = {}
for (const fd of fs.readdirSync('/proc/self/fd')) try { links[fd] = fs.readlinkSync(`/proc/self/fd/${fd}`) } catch {}
console.log(JSON.stringify({
  links, processes: fs.readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name)), unix: read('/proc/net/unix').split('\\n').slice(1),
  maps: read('/proc/self/maps'), mounts: read('/proc/self/mountinfo'), init: ['environ', 'maps', 'fd', 'mem'].map((name) => read(`/proc/1/${name}`)),
}))
"""


@attack(37)
def test_nothing_of_its_wait_is_in_sight(node):
    """Looks for the socket that its order came by, the object that took it, and those who gave it."""
    seen = json.loads(node(SIGHT))
    assert seen["processes"] == ["1", "2"] and seen["init"] == ["EACCES", "EACCES", "EACCES", "EACCES"]
    # Standard input and output are pipes; the rest is node's own, as of every node.
    assert not [link for link in seen["links"].values() if link.startswith(("socket:", "/memfd:"))], seen["links"]
    assert not [line for line in seen["unix"] if line.strip()]
    for name in "memfd:", "cay", str(node.daemon.place), str(pathlib.Path(__file__).resolve().parents[2]):
        assert name not in seen["maps"] and name not in seen["mounts"], name
    told("nothing is there")


@attack(37)
def test_what_it_is_started_with_stays(node):
    """Changes, removes and replaces the file that it and its threads start with."""
    tried = json.loads(node("""
const fs = require('fs')
const tries = {write: () => fs.writeFileSync('/sys/start.js', 'x'), append: () => fs.appendFileSync('/sys/start.js', 'x'),
  remove: () => fs.unlinkSync('/sys/start.js'), rename: () => fs.renameSync('/sys/start.js', '/sys/x'), beside: () => fs.writeFileSync('/sys/x.js', ''),
  over: () => { fs.writeFileSync('/tmp/x', ''); fs.renameSync('/tmp/x', '/sys/start.js') }, mode: () => fs.chmodSync('/sys/start.js', 0o666),
  link: () => fs.linkSync('/sys/start.js', '/tmp/y')}
const ended = {}
for (const [name, f] of Object.entries(tries)) try { f(); ended[name] = 'done' } catch (e) { ended[name] = e.code }
console.log(JSON.stringify(ended))
"""))
    assert set(tried.values()) <= {"EROFS", "EACCES", "EPERM", "EXDEV"}, tried
    told("refused")


FINDS = """
const fs = require('fs')
const pattern = 'se' + 'cret-of-the-run-before'
const memory = fs.openSync('/proc/self/mem')
let found = 0
for (const line of fs.readFileSync('/proc/self/maps', 'utf8').split('\\n')) {
  const [, start, end, mode] = /^([0-9a-f]+)-([0-9a-f]+) (....)/.exec(line) ?? []
  if (!mode?.startsWith('rw')) continue
  const size = 1 << 20, buffer = Buffer.allocUnsafeSlow(size)
  for (let at = BigInt('0x' + start); at < BigInt('0x' + end); at += BigInt(size)) {
    let n = 0
    try { n = fs.readSync(memory, buffer, 0, Math.min(size, Number(BigInt('0x' + end) - at)), at) } catch { continue }
    for (let i = -1; (i = buffer.subarray(0, n).indexOf(pattern, i + 1)) >= 0;) found++
    buffer.fill(0)
  }
}
console.log(found > 5)
"""


@attack(37)
def test_nothing_of_another_order_is_in_memory(node):
    """Code, arguments and environment of others, in its own memory."""
    secret = "se" + "cret-of-the-run-before"
    more = {"env": {"SECRET": secret * 20}, "args": [secret] * 20}
    assert node(FINDS, **more) == "true\n"  # its own is there
    for _ in range(3):
        node("0", **more)
        assert node(FINDS) == "false\n"
    told("found nothing")


MARK = "globalThis.evil = 1; Object.prototype.evil = 1; process.env.EVIL = 1; require('fs').mkdir = 0\n"
LOOK = ("console.log(JSON.stringify([typeof evil, ({}).evil, process.env.EVIL, typeof require('fs').mkdir, "
        "...['/tmp', '/dev/shm', '/workspace'].flatMap((d) => require('fs').readdirSync(d))]))\n")


@attack(37)
def test_nothing_is_left_for_the_next_order(node):
    """Changes what the next one could find, and stays behind with processes that hold on to everything."""
    leave = ("for (const d of ['/tmp', '/dev/shm', '/workspace']) require('fs').writeFileSync(d + '/evil', '')\n"
             "require('child_process').spawn('sleep', ['60'], { detached: true, stdio: 'ignore' }).unref()\n")
    clean = ["undefined", None, None, "function"]
    assert json.loads(node(LOOK)) == clean
    assert json.loads(node(MARK + leave + LOOK)) == ["number", 1, "1", "number", "evil", "evil", "evil"]
    for _ in range(3):
        assert json.loads(node(LOOK)) == clean
        assert json.loads(node("console.log(JSON.stringify(require('fs').readdirSync('/proc').filter((n) => n > 0)))")) == ["1", "2"]


ENDS = {
    "kills all": "process.kill(-1, 9)",
    "ends its threads": "process.kill(process.pid, 'SIGSTOP')",
    "crashes": "process.abort()",
    "memory": "const keep = []; for (;;) keep.push(Buffer.alloc(1 << 24, 1))",
    "closes all": "for (let fd = 0; fd < 64; fd++) try { require('fs').closeSync(fd) } catch {}",
    "processes": "const { spawn } = require('child_process'); setInterval(() => spawn('sleep', ['60']).on('error', () => {}), 0)",
}


@attack(37)
@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_strange_ends(node, code):
    """Ends in ways that nobody expects; the next has one that waits, as before."""
    run_waited(node.daemon, {"language": "javascript", "code": code,
                             "limits": {"timeout": "2s", "memory": "128m", "pids": 32, "disk": "8m"}})
    assert node("console.log(45)") == "45\n"
    assert len(waiters(node.daemon)) <= 8  # two of each kind of limits, by code and by file
