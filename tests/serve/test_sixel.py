"""Pictures in a terminal that shows sixels, and says so when it is asked."""

import base64
import re
import shutil
import struct
import time
import zlib

import pytest

import typed
from typed import Terminal, box, cli  # noqa: F401: fixtures

WHAT = b"\x1b[c"
DETAILS = b"\x1b[?1;1;0S\x1b[?2;1;0S" + WHAT
SIXEL = b"\x1b[?62;4;22c"
PLAIN = b"\x1b[?62;22c"
WHITE, BLUE, ORANGE = (255, 255, 255), (31, 119, 180), (255, 127, 14)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, pixel=None, rows=None):
    """A PNG whose pixel at x, y is pixel(x, y); rows: what stands for them instead."""
    if rows is None:
        rows = b"".join(b"\0" + bytes(v for x in range(width) for v in pixel(x, y)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def plot(x, y):
    """A line on white."""
    return BLUE if abs(x - y) < 3 else ORANGE if y > 50 else WHITE


def decode(text):
    """Width, height, and the colour of each pixel as percent."""
    width, height, rest = re.match(r'"1;1;(\d+);(\d+)(.*)$', text, re.S).groups()
    colours, pixels, x, y, colour = {}, {}, 0, 0, None
    for number, define, run, c in re.findall(r"#(\d+)((?:;\d+)*)|(?:!(\d+))?([?-~$-])", rest):
        if number:
            colour = int(number)
            if define:
                kind, *values = map(int, define[1:].split(";"))
                assert kind == 2
                colours[colour] = tuple(values)
        elif c == "$":
            x = 0
        elif c == "-":
            x, y = 0, y + 6
        else:
            for _ in range(int(run or 1)):
                for bit in range(6):
                    if (ord(c) - 63) >> bit & 1:
                        pixels[x, y + bit] = colours[colour]
                x += 1
    return int(width), int(height), pixels


def percent(rgb):
    return tuple((v * 100 + 127) // 255 for v in rgb)


def shown(data, before="", after=""):
    code = f"import base64\ndisplay({{'image/png': {base64.b64encode(data).decode()!r}, 'text/plain': 'in words'}}, raw=True)"
    return f"{before}\n{code}\n{after}"


def terminal(daemon, box, code, **more):
    return Terminal(daemon, "exec", box, "--context", "main", "-c", code, **more)


def answer(t, what=SIXEL, details=SIXEL):
    t.until(WHAT)
    t.type(what)
    if b";4" in what:
        t.until(DETAILS)
        t.type(details)


def drawn(t):
    """The sixels that it got, and nothing else of it."""
    assert t.end() == 0
    found = re.findall(rb"\x1bPq([^\x1b]*)\x1b\\", t.seen)
    assert len(re.findall(rb"\x1bP", t.seen)) == len(found)
    return [decode(text.decode("ascii")) for text in found]


def saved(daemon):
    names = sorted(p.name for p in daemon.place.glob("cay-*.*"))
    for name in names:
        (daemon.place / name).unlink()
    return names


@pytest.fixture(autouse=True)
def no_picture_stays(daemon):
    yield
    saved(daemon)


def test_a_picture_appears(daemon, box):
    t = terminal(daemon, box, shown(png(80, 60, plot)))
    answer(t, details=b"\x1b[?1;0;256S\x1b[?2;0;1000;600S" + SIXEL)
    (width, height, pixels), = drawn(t)
    assert (width, height) == (80, 60) and len(pixels) == 80 * 60
    assert all(pixels[x, y] == percent(plot(x, y)) for x in range(80) for y in range(60))
    assert b"in words" not in t.seen and saved(daemon) == []


@pytest.mark.parametrize("details, pixels, size", [
    (b"", (0, 0), (800, 400)),  # by the characters
    (b"", (500, 300), (500, 250)),
    (b"\x1b[?2;0;1000;200S", (500, 300), (400, 200)),
    (b"\x1b[?2;0;300;900S", (500, 300), (300, 150)),
    (b"\x1b[?1;3;0S\x1b[?2;1;0S", (2000, 3000), (1200, 600))], ids=str)
def test_as_wide_as_the_terminal(daemon, box, details, pixels, size):
    t = terminal(daemon, box, shown(png(1200, 600, rows=(b"\0" + bytes(BLUE) * 1200) * 600)), pixels=pixels)
    answer(t, details=details + SIXEL)
    (width, height, seen), = drawn(t)
    assert (width, height) == size and set(seen.values()) == {percent(BLUE)} and len(seen) == width * height


def test_few_colours(daemon, box):
    t = terminal(daemon, box, shown(png(64, 64, lambda x, y: (4 * x, 4 * y, 128))))
    answer(t, details=b"\x1b[?1;0;16S" + SIXEL)
    (_, _, seen), = drawn(t)
    assert len(set(seen.values())) == 16
    assert all(abs(a - b) < 30 for (x, y), got in seen.items() for a, b in zip(percent((4 * x, 4 * y, 128)), got))


@pytest.mark.parametrize("what", [PLAIN, b"\x1b[?4c", b"\x1b[?6c", b"\x1b[?1;2c"], ids=str)
def test_terminals_without(daemon, box, what):
    t = terminal(daemon, box, shown(png(8, 8, plot)))
    answer(t, what)
    assert t.end() == 0 and b"\x1bP" not in t.seen and b"cay-1.png" in t.seen and b"in words" in t.seen
    assert saved(daemon) == ["cay-1.png"]


def test_it_is_asked_once_and_only_of_pictures(daemon, box):
    t = terminal(daemon, box, "print('no picture')")
    assert t.end() == 0 and WHAT not in t.seen
    t = terminal(daemon, box, shown(png(8, 8, plot), after="display({'image/png': ''}, raw=True)\n") + shown(png(9, 9, plot)))
    answer(t)
    assert [(w, h) for w, h, _ in drawn(t)] == [(8, 8), (9, 9)] and WHAT not in t.seen


def test_a_terminal_that_says_nothing_has_a_second(daemon, box):
    t = terminal(daemon, box, shown(png(8, 8, plot)) + shown(png(8, 8, plot)))
    t.until(WHAT)
    began = time.monotonic()
    t.until(b"cay-2.png")
    assert time.monotonic() - began < 5 and t.end() == 0 and WHAT not in t.seen
    assert saved(daemon) == ["cay-1.png", "cay-2.png"]


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"TERM": ""}], ids=str)
def test_terminals_that_are_not_asked(daemon, box, variables):
    t = terminal(daemon, box, shown(png(8, 8, plot)), **variables)
    assert t.end() == 0 and WHAT not in t.seen and saved(daemon) == ["cay-1.png"]


def test_a_multiplexer_answers_for_itself(daemon, box):
    t = terminal(daemon, box, shown(png(8, 8, plot)), TMUX="/tmp/x,1,1", KITTY_WINDOW_ID="1")
    answer(t)
    assert len(drawn(t)) == 1 and b"\x1b_G" not in t.seen


def test_what_is_typed_meanwhile_is_kept(daemon, box):
    t = Terminal(daemon, "shell", box, "--python")
    t.until(b">>> ")
    t.type((shown(png(8, 8, plot)).strip().replace("\n", "; ") + "\n").encode())
    t.until(WHAT)
    t.type(b"6 *" + SIXEL)
    t.until(DETAILS)
    t.type(b" 7" + SIXEL + b"\n")
    t.until(b"\x1b\\")
    t.until(b">>> 42\r\n>>> ")
    t.type(b"\x04")
    assert t.end() == 0


BOMB = png(20000, 20000, rows=bytes(1 << 20))
HUGE = png(2**31 - 1, 2**31 - 1, rows=b"")
WHOLE = png(80, 60, plot)
HOSTILE = {
    "bomb": BOMB, "huge": HUGE, "no rows": png(80, 60, rows=b""), "too many rows": None,
    "cut": WHOLE[:len(WHOLE) - 40], "signature": WHOLE[:8], "head": WHOLE[:33], "wrong": WHOLE.replace(b"IHDR", b"IHDX"),
    "no size": png(0, 0, rows=b""), "text bomb": WHOLE[:33] + b"".join(
        chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(7 << 20))) for _ in range(10)) + WHOLE[33:],
}
HOSTILE["too many rows"] = png(2000, 2000, rows=bytes(24 << 20))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pictures(daemon, box, name):
    """It is shown, or saved: the terminal gets whole sixels or none, and cay goes on."""
    data = HOSTILE[name]
    assert len(data) < 90000  # an argument's size
    t = terminal(daemon, box, shown(data))
    answer(t)
    seen = drawn(t)
    assert saved(daemon) == ([] if seen else ["cay-1.png"])
    if name not in ("too many rows", "text bomb"):
        assert seen == []


def test_without_its_helper_pictures_are_files(daemon, box, monkeypatch):
    """A copy of cay alone has nobody to ask."""
    alone = daemon.place / "alone"
    shutil.copy(typed.CAY, alone)
    monkeypatch.setattr(typed, "CAY", str(alone))
    t = terminal(daemon, box, shown(png(8, 8, plot)))
    answer(t)
    assert drawn(t) == [] and saved(daemon) == ["cay-1.png"]
