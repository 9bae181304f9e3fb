"""Manners on a terminal: colours only there, and only where they are wanted."""

import pytest

from support import on_terminal

COLOURS = {"TERM": "xterm"}
FAILING = ("run", "-c", "raise SystemExit(3)")


def test_prefix_has_a_style_on_a_terminal(cay):
    rc, seen = on_terminal(cay, *FAILING, env=COLOURS)
    assert rc == 3 and seen.startswith(b"\x1b[1mcay:\x1b[0m") and seen.endswith(b"exited with code 3\x1b[0m\n")


@pytest.mark.parametrize("args", [("doctor",), ("runtimes",)])
def test_tables_have_styles_on_a_terminal(cay, args):
    rc, seen = on_terminal(cay, *args, env=COLOURS)
    assert rc == 0 and b"\x1b[" in seen
    _, plain = on_terminal(cay, *args, env=dict(COLOURS, NO_COLOR="1"))
    assert b"\x1b" not in plain and len(plain.splitlines()) == len(seen.splitlines())


@pytest.mark.parametrize("env", [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}, {}],
                         ids=["NO_COLOR", "dumb", "no TERM"])
def test_no_colours_where_they_are_not_wanted(cay, env):
    for args in (FAILING, ("doctor",), ("runtimes",), ("nonsense",)):
        assert b"\x1b" not in on_terminal(cay, *args, env=env)[1], args
    assert on_terminal(cay, *FAILING, env=env) == (3, b"cay: exited with code 3\n")


def test_an_empty_no_color_says_nothing(cay):
    assert b"\x1b[" in on_terminal(cay, *FAILING, env=dict(COLOURS, NO_COLOR=""))[1]


def test_no_colours_into_a_pipe(cay):
    for args in (FAILING, ("doctor",), ("runtimes",)):
        done = cay(*args, env=COLOURS)
        assert b"\x1b" not in done.out + done.err, args


def test_messages_go_to_stderr_alone(cay):
    done = cay(*FAILING)
    assert done.out == b"" and done.err == b"cay: exited with code 3\n"


def test_names_in_messages_do_not_act(cay):
    _, seen = on_terminal(cay, "run", "\x1b]0;title\x07.py", env=COLOURS)
    assert b"\x1b]" not in seen and b"\x07" not in seen
