"""Interpreters that remember, as a user types to them: cay exec --context, cay shell --python, cay context."""

import base64
import json
import os
import re
import subprocess
import time

import pytest

from support import OURS, TIMEOUT, wait_until
from typed import Terminal, box, cli  # noqa: F401: fixtures

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
PICTURE = f"""
import base64
class Picture:
    def __repr__(self): return 'a picture'
    def _repr_png_(self): return base64.b64decode('{base64.b64encode(PNG).decode()}')
"""


@pytest.fixture
def cell(cli, box):
    """cay exec with a context: cell("x + 1")."""
    def run(code, *options, **more):
        return cli("exec", box, "--context", "main", *options, "-c", code, **more)
    return run


@pytest.fixture(autouse=True)
def no_picture_stays(daemon):
    yield
    saved(daemon)


def saved(daemon):
    """The pictures in the current directory of cay; they are gone afterwards."""
    found = {p.name: p.read_bytes() for p in daemon.place.glob("cay-*.*")}
    for name in found:
        (daemon.place / name).unlink()
    return found


# cay exec

def test_values_and_output(cell):
    assert cell("x = 41").ok().text == ""
    done = cell("import sys; print('out'); print('err', file=sys.stderr); x + 1").ok()
    assert done.text == "out\n42\n" and done.errors.startswith("err\n")
    assert cell("'a\\nb'").ok().text == "'a\\nb'\n"


def test_exceptions(cell):
    done = cell("def f():\n    return 1 / 0\nf()")
    assert done.rc == 1 and done.text == ""
    assert "line 2, in f" in done.errors and "\nZeroDivisionError: division by zero\n" in done.errors
    assert cell("import sys; sys.exit(7)").rc == 7
    assert cell("'still there'").ok().text == "'still there'\n"


def test_as_json(cell):
    result = json.loads(cell("print('out'); 6 * 7", "--json").ok().text)
    assert (result["stdout"], result["results"], result["context"]) == ("out\n", [{"text/plain": "42"}], "main")
    done = cell("1 / 0", "--json")
    assert done.rc == 1 and json.loads(done.text)["exception"]["name"] == "ZeroDivisionError"


def test_limits_of_a_cell(cell):
    cell("x = 1").ok()
    done = cell("while True: pass", "--timeout", "0.5")
    assert done.rc == TIMEOUT and "time limit" in done.errors
    assert cell("x").ok().text == "1\n"


def test_what_is_no_cell(cli, box):
    for args, words in ((("--context", "main", "--", "ls"), "--context goes with --code"),
                        (("--context", "main", "-c", "1", "more"), "without arguments"),
                        (("--context", "no/name", "-c", "1"), "name"),
                        (("--pictures", ".", "-c", "1"), "--pictures goes with --context"),
                        (("--pictures", ".", "--context", "main", "--json", "-c", "1"), "without --json"),
                        (("--pictures", "nowhere", "--context", "main", "-c", "1"), "--pictures nowhere")):
        done = cli("exec", box, *args)
        assert done.rc == OURS and words in done.errors
    cli("exec", box, "--context", "other", "-c", "1").ok()
    done = cli("exec", box, "--context", "other", "-l", "ruby", "-c", "1")
    assert done.rc == OURS and "python" in done.errors


def test_input(cell, daemon, box):
    assert cell("[input(), input('more ')]", input=b"a\nb\n").ok().text.endswith("['a', 'b']\n")
    done = cell("input()", input=b"")
    assert done.rc == 1 and "EOFError" in done.errors
    t = Terminal(daemon, "exec", box, "--context", "main", "-c", "name = input('who? ')\nprint('hello', name)")
    t.until(b"who? ")
    t.type("Zoë\n".encode())
    t.until("hello Zoë".encode())
    assert t.end() == 0


def test_a_password_is_not_shown(daemon, box):
    t = Terminal(daemon, "exec", box, "--context", "main", "-c", "import getpass; print(len(getpass.getpass()))")
    t.until(b"Password: ")
    time.sleep(0.2)  # the terminal is told then
    t.type(b"secret\n")
    assert b"secret" not in t.until(b"6")
    assert t.end() == 0


def test_ctrl_c_keeps_the_state(cell, cli, box, daemon):
    cell("x = 5").ok()
    t = Terminal(daemon, "exec", box, "--context", "main", "-c", "import time; print('be' + 'gun'); time.sleep(60)")
    t.until(b"begun")
    t.type(b"\x03")
    assert t.end() == 128 + 2
    wait_until(lambda: "idle" in cli("context", "list", box).ok().text, 10, "the interrupt")
    assert cell("x").ok().text == "5\n"


# Pictures

def test_pictures_are_saved_and_named(cell, daemon):
    (daemon.place / "cay-1.png").write_bytes(b"mine")
    (daemon.place / "cay-2.png").symlink_to("/nowhere")
    try:
        done = cell(PICTURE + "display(Picture())\nPicture()", "--pictures", ".").ok()
        assert done.text == "a picture\na picture\n"
        assert re.findall(r"^cay: image/png: (.*)$", done.errors, re.M) == ["./cay-3.png", "./cay-4.png"]
    finally:
        (daemon.place / "cay-2.png").unlink()
        found = saved(daemon)
    assert found == {"cay-1.png": b"mine", "cay-3.png": PNG, "cay-4.png": PNG}


DRAWING = "class Drawing:\n    def _repr_svg_(self): return text\n"


@pytest.mark.parametrize("text", ["<svg>ö</svg>", "\n <?xml version='1.0'?>\n<svg/>", "<!-- by hand --><svg/>"])
def test_drawings_are_saved(cell, daemon, text):
    done = cell(f"text = {text!r}\n{DRAWING}Drawing()", "--pictures", ".").ok()
    assert "image/svg+xml: ./cay-1.svg" in done.errors and saved(daemon) == {"cay-1.svg": text.encode()}


def test_without_a_terminal_nothing_is_saved(cell, cli, box, daemon):
    """Of a script, or cron: a cell must not fill the directory where that happens to be."""
    done = cell(PICTURE + DRAWING + "text = '<svg/>'\ndisplay(Picture(), Drawing())\nPicture()").ok()
    assert [line for line in done.errors.splitlines() if "degraded" not in line] == [
        "cay: pictures not saved: 2 image/png, 1 image/svg+xml; --pictures DIR saves them, cay exec --json has them"]
    assert saved(daemon) == {}
    assert done.text.count("a picture\n") == 2
    assert len(json.loads(cell("display(Picture())", "--json").ok().text)["results"]) == 1
    done = cli("shell", "--python", box, input=b"display(Picture())\n").ok()
    assert "1 image/png" in done.errors and saved(daemon) == {}
    cli("shell", "--python", box, "--pictures", ".", input=b"display(Picture())\n").ok()
    assert saved(daemon) == {"cay-1.png": PNG}


def test_a_cell_shows_a_few_pictures(cell, box, daemon):
    many = PICTURE + "for _ in range(20): display(Picture())"
    done = cell(many, "--pictures", ".").ok()
    assert len(saved(daemon)) == 8 and done.text == "a picture\n" * 20
    assert "cay: pictures left out: 12, beyond the first 8 of a cell\n" in done.errors
    seen = shown(daemon, box, many, {})
    assert len(saved(daemon)) == 8 and b"pictures left out: 12" in seen
    seen = shown(daemon, box, many, {"KITTY_WINDOW_ID": "1"})
    assert seen.count(b"a=T") == 8 and b"pictures left out: 12" in seen and saved(daemon) == {}


KITTY = [{"KITTY_WINDOW_ID": "1"}, {"TERM": "xterm-kitty"}, {"TERM": "xterm-ghostty"}, {"TERM_PROGRAM": "ghostty"}]
ITERM = [{"TERM_PROGRAM": "iTerm.app"}, {"TERM_PROGRAM": "WezTerm"}]


def shown(daemon, box, code, variables):
    """What a terminal of that kind has seen of a cell."""
    t = Terminal(daemon, "exec", box, "--context", "main", "-c", code, **variables)
    assert t.end() == 0
    return t.seen


@pytest.mark.parametrize("variables", KITTY, ids=str)
def test_pictures_in_kitty(daemon, box, variables):
    seen = shown(daemon, box, PICTURE + "display(Picture())", variables)
    chunks = re.findall(rb"\x1b_G([^;]*);([A-Za-z0-9+/=]*)\x1b\\", seen)
    assert chunks[0][0] == b"a=T,f=100,q=2,m=1" and chunks[-1][0] == b"q=2,m=0"
    assert base64.b64decode(b"".join(data for _, data in chunks)) == PNG
    assert all(len(data) <= 4096 for _, data in chunks) and b"a picture" not in seen
    assert saved(daemon) == {}


@pytest.mark.parametrize("variables", ITERM, ids=str)
def test_pictures_in_iterm(daemon, box, variables):
    seen = shown(daemon, box, PICTURE + "display(Picture())", variables)
    size, data = re.search(rb"\x1b\]1337;File=inline=1;size=(\d+):([A-Za-z0-9+/=]*)\x07", seen).groups()
    assert base64.b64decode(data) == PNG and int(size) == len(PNG) and saved(daemon) == {}


@pytest.mark.parametrize("variables", [{}, {"KITTY_WINDOW_ID": "1", "TMUX": "/tmp/x,1,1"},
                                       {"TERM": "screen", "TERM_PROGRAM": "iTerm.app"}], ids=str)
def test_other_terminals_get_a_file(daemon, box, variables):
    seen = shown(daemon, box, PICTURE + "display(Picture())", variables)
    assert b"cay-1.png" in seen and b"\x1b_G" not in seen and b"1337" not in seen
    assert saved(daemon) == {"cay-1.png": PNG}


GIF, JPEG = b"GIF89a" + bytes(20), b"\xff\xd8\xff\xe0" + bytes(20)


def bundle(mime, data):
    """A cell that says of some bytes that they are such a picture."""
    value = data.decode() if mime == "image/svg+xml" else base64.b64encode(data).decode()
    return f"display({{{mime!r}: {value!r}, 'text/plain': 'in words'}}, raw=True)"


@pytest.mark.parametrize("mime, data", [
    ("image/png", b"%PDF-1.4 " + bytes(20)), ("image/png", JPEG), ("image/png", PNG[1:]), ("image/png", PNG[:7]),
    ("image/jpeg", PNG), ("image/gif", b"GIF88a" + bytes(20)), ("image/gif", b""),
    ("image/svg+xml", b"<html><svg/></html>"), ("image/svg+xml", b"<?xml version='1.0'?><html/>")],
    ids=lambda value: str(value[:12]))
def test_bytes_that_are_no_such_picture(daemon, box, cell, mime, data):
    """The terminal's decoders, and whatever opens a file, go by the bytes, and not by what a program calls them."""
    for variables in (KITTY[0], ITERM[0], {}):
        seen = shown(daemon, box, bundle(mime, data), variables)
        assert b"\x1b_G" not in seen and b"1337" not in seen and b"in words" in seen
        assert b"pictures left out: 1, not of the type that they claim" in seen and saved(daemon) == {}
    assert "not of the type" in cell(bundle(mime, data), "--pictures", ".").ok().errors and saved(daemon) == {}


@pytest.mark.parametrize("mime, name, data", [("image/gif", "cay-1.gif", GIF), ("image/jpeg", "cay-1.jpg", JPEG)],
                         ids=["gif", "jpeg"])
def test_other_types(daemon, box, cell, mime, name, data):
    assert b"1337;File=inline=1" in shown(daemon, box, bundle(mime, data), ITERM[0]) and saved(daemon) == {}
    cell(bundle(mime, data), "--pictures", ".").ok()
    assert saved(daemon) == {name: data}


def test_drawings_are_never_on_the_screen(daemon, box):
    for variables in (KITTY[0], ITERM[0]):
        seen = shown(daemon, box, bundle("image/svg+xml", b"<svg/>"), variables)
        assert b"\x1b_G" not in seen and b"1337" not in seen and saved(daemon) == {"cay-1.svg": b"<svg/>"}


def test_what_is_shown_does_nothing_to_the_terminal(daemon, box):
    """A bundle is a program's: neither its text, nor what it says is a picture, has a say."""
    code = ("class Bad:\n    def _repr_mimebundle_(self, **_): return {'image/png': '\\x1b]0;owned\\x07', "
            "'text/plain': 'x\\x1b]0;owned\\x07y\\x1b_Ga=T;AAAA\\x1b' + chr(92)}\ndisplay(Bad())")
    seen = shown(daemon, box, code, {"KITTY_WINDOW_ID": "1"})
    assert b"\x1b]" not in seen and b"\x1b_" not in seen and b"owned" in seen
    saved(daemon)
    t = Terminal(daemon, "exec", box, "--context", "main", "-c", "raise ValueError('\\x1b]0;owned\\x07')")
    seen = t.until(b"ValueError") + t.until(b"owned")
    assert b"\x1b]" not in seen and t.end() == 1


# cay shell

def test_talk(daemon, box, cell):
    t = Terminal(daemon, "shell", box, "--python")
    t.until(b">>> ")
    t.type(b"x = 6 * 7\n")
    t.until(b">>> ")
    t.type(b"x\n")
    t.until(b"\r\n42\r\n>>> ")
    t.type(b"for i in range(2):\n")
    t.until(b"... ")
    t.type(b"    print('row', i)\n")
    t.until(b"... ")
    t.type(b"\n")
    t.until(b"row 0\r\nrow 1\r\n>>> ")
    t.type(b"1 / 0\n")
    assert b"cay:" not in t.until(b"ZeroDivisionError: division by zero\r\n>>> ")
    t.type(b"\nn = input('how many? ')\n")
    t.until(b"how many? ")
    t.type(b"3\n")
    t.until(b">>> ")
    t.type(b"\x04")
    assert t.end() == 0
    assert cell("x, n").ok().text == "(42, '3')\n"


def test_ctrl_c(daemon, box):
    t = Terminal(daemon, "shell", box, "--python", "--context", "mine")
    t.until(b">>> ")
    t.type(b"x = 1\n")
    t.until(b">>> ")
    for code in (b"while True: pass\n\n", b"import time; time.sleep(60)\n", b"input('well? ')\n"):
        t.type(b"print('be' + 'gun'); " + code if b"while" not in code else b"print('be' + 'gun')\n" + code)
        t.until(b"begun")
        time.sleep(0.3)
        t.type(b"\x03")
        t.until(b"KeyboardInterrupt")
        t.until(b">>> ")
    t.type(b"def half(\n")
    t.until(b"... ")
    t.type(b"\x03")
    t.until(b">>> ")
    t.type(b"x + 1\n")
    t.until(b"\r\n2\r\n>>> ")
    t.type(b"\x04")
    assert t.end() == 0


def test_talk_of_a_file(cli, box):
    done = cli("shell", "--python", box, input=b"x = 1\nif x:\n    print('yes')\n\nx + 1\nprint('last')").ok()
    assert (done.text, done.errors) == ("yes\n2\nlast\n", "")


@pytest.mark.parametrize("language, typed, seen", [
    ("--node", b"const a = 1\nconst a = 2\na\n[1].map((x) => {\n  return x + a\n})\n", "2\n[ 3 ]\n"),
    ("--bash", b"cd /tmp\nfor i in 1 2; do\necho $i\ndone\nif\n\necho $PWD \\\n  end\nexit 3\necho more\n",
     "1\n2\n/tmp end\nmore\n")])
def test_other_languages(cli, box, language, typed, seen):
    done = cli("shell", language, box, input=typed).ok()
    assert done.text == seen


def test_an_interpreter_that_goes_away(daemon, box):
    t = Terminal(daemon, "shell", box, "--python", NO_COLOR="1")
    t.until(b">>> ")
    t.type(b"x = 1\nimport os; os._exit(3)\n")
    t.until(b"cay: the interpreter is gone, with all that it knew\r\n>>> ")
    t.type(b"x\n")
    t.until(b"NameError")
    t.type(b"\x04")
    assert t.end() == 0


def test_what_is_no_talk(cli, box):
    for args, words in ((("--python", "--node", box), "one language"), (("--context", "x", box), "--context goes with"),
                        (("--pictures", ".", box), "--pictures goes with"),
                        (("--python", box, "--", "ls"), "neither a terminal nor a command"),
                        (("--python", "nobox"), "nobox"), (("--python",), "which sandbox")):
        done = cli("shell", *args, input=b"")
        assert done.rc == OURS and words in done.errors and done.text == ""


# cay context

def test_contexts(cli, box, cell):
    assert cli("context", "list", box).ok().text.split() == ["NAME", "LANGUAGE", "VERSION", "STATE", "CELLS", "QUEUED", "USED"]
    cell("x = 1").ok()
    cell("2").ok()
    row = cli("context", "list", box).ok().text.splitlines()[1].split()
    assert row[:2] == ["main", "python"] and row[3:6] == ["idle", "2", "0"]
    listed = json.loads(cli("context", "list", "--json", box).ok().text)["contexts"]
    assert [c["name"] for c in listed] == ["main"]
    cli("context", "restart", box, "main").ok()
    assert "NameError" in cell("x").errors
    assert cli("context", "rm", box, "main").ok().text == ""
    assert len(cli("context", "list", box).ok().text.splitlines()) == 1


def test_interrupt_of_a_context(cli, box, cell):
    cell("x = 1").ok()
    p = cli.start("exec", box, "--context", "main", "-c", "print('begun', flush=True); import time; time.sleep(60)",
                  stdin=subprocess.DEVNULL)
    assert os.read(p.stdout.fileno(), 6) == b"begun\n"
    cli("context", "interrupt", box, "main").ok()
    assert p.wait(10) == 1 and b"KeyboardInterrupt" in p.stderr.read()
    assert cell("x").ok().text == "1\n"


@pytest.mark.parametrize("args, words", [((), "what about them"), (("list",), "which sandbox"), (("rm", "box"), "which context"),
                                         (("list", "box", "x"), "a sandbox alone"), (("rm", "box", ".."), "can't be called"),
                                         (("restart", "box", "nowhere"), "nowhere"), (("list", "nobox"), "nobox")])
def test_what_is_not_about_contexts(cli, box, args, words):
    done = cli("context", *args)
    assert done.rc == OURS and words in done.errors
