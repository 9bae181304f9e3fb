"""The bash driver, bare: what a cell leaves, what ends it, and what it can't do to the driver."""

import os
import time

import pytest
from driver import ROOT, Driver, Ended

TEXT = (ROOT / "src/context/bash.sh").read_text()


def bash(**kwargs):
    # The launcher makes each command a session; bash has no word for it.
    return Driver(["setsid", "bash", "-c", TEXT], plain=True, **kwargs)


@pytest.fixture
def shell(tmp_path):
    with bash(cwd=tmp_path) as d:
        yield d


def said(d, code):
    cell = d.run(code)
    assert cell.exit_code == 0, cell
    return cell.stdout


def test_ready_names_the_process(shell):
    assert said(shell, "echo $$") == f"{shell.ready['pid']}\n"
    assert os.getpgid(shell.ready["pid"]) == shell.ready["pid"]


def test_the_text_is_short_enough_for_an_argument():
    assert len(TEXT) < 100_000


STATE = r"""
cd /usr; x='a  b'; declare -a list=(1 "two 2"); declare -A map=([k v]=w); declare -i n=5; export E=out
f() { local y=1; echo "f $x $1"; }
alias hi='echo aliased'; shopt -s nullglob; set -o pipefail; umask 027; trap 'echo usr' USR1; set -- p 'q r'
"""
LOOK = r"""
echo "$PWD|$x|${list[1]}|${map[k v]}|$n"; n+=1; echo $n; bash -c 'echo $E'; f arg
hi
shopt -q nullglob && echo nullglob; umask; kill -USR1 $$; echo "$# $2"; false | true || echo pipefail
"""
SEEN = "/usr|a  b|two 2|w|5\n6\nout\nf a  b arg\naliased\nnullglob\n0027\nusr\n2 q r\npipefail\n"


def test_state_is_kept(shell):
    assert shell.run(STATE).exit_code == 0
    assert said(shell, LOOK) == SEEN


# What would end a script, and the code that is told of it.
ENDS = {"exit": ("exit 3; echo no", 3), "exit in a function": ("g() { eval 'exit 4'; echo no; }; g; echo no", 4),
        "exit in a file": ("source <(echo exit 5); echo no", 5), "exit as it was": ("(exit 6); exit", 6),
        "errexit": ("set -e; false; echo no", 1), "errexit in a function": ("set -e; g() { (exit 7); }; g; echo no", 7),
        "errexit, pipe": ("set -e; false | true; true | false; echo no", 1),
        "syntax": ("echo )", 2), "syntax under errexit": ("set -e\ntrue\nif then", 2),
        "nounset": ("set -u; echo $nothing; echo no", 1), "parameter": (": ${nothing:?}; echo no", 1),
        "division": ("echo $((1 / 0)); echo no", 1), "readonly": ("readonly r=1; r=2; echo no", 1),
        "exec": ("exec /nowhere/x; exit 10", 10),
        "the builtin": ("builtin exit 8", 8), "posix": ("set -o posix; exit 9", 9)}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_a_script_ends_the_cell_alone(shell, name):
    code, status = ENDS[name]
    shell.run(STATE)
    for _ in range(3):
        cell = shell.run(code)
        assert (cell.exit_code, cell.stdout, cell.exception) == (status, "", None)
        assert os.getpgid(shell.ready["pid"]) == shell.process.pid
    shell.run("set +eu +o posix")
    assert said(shell, LOOK) == SEEN


@pytest.mark.parametrize("code, status", [("true", 0), ("(exit 42)", 42), ("f() { return 3; }; f", 3), ("nowhere_x", 127),
                                          ("bash -c 'kill -9 $$'", 137), ("break", 0), ("continue", 0), ("", 0)])
def test_exit_code(shell, code, status):
    for _ in range(2):
        assert shell.run(code).exit_code == status
    assert said(shell, "echo $?") == f"{status}\n"


def test_errors_are_said_with_their_lines(shell):
    cell = shell.run("echo a\necho b\nif then")
    assert cell.stdout == "a\nb\n" and "eval: line 3: syntax error" in cell.stderr
    assert said(shell, "\n\necho $LINENO") == "3\n"
    shell.run("exit 1")
    assert said(shell, "echo $LINENO") == "1\n"
    assert "line 2" in shell.run("set -e\necho )").stderr


def test_subshells_exit_as_ever(shell):
    assert said(shell, "x=$(echo in; exit 3; echo no); echo $x $?; (exit 4); echo $?; true | exit 5; echo $?") \
        == "in 3\n4\n5\n"


def test_nothing_of_the_driver_is_inherited(shell):
    look = "ls -l /proc/self/fd | sed 's/.* \\([0-9]*\\) ->.*/\\1/' | grep -x '[0-9]*' | sort -n | tr '\\n' ' '"
    for breaks in (":", "exit 1", "set -e; false"):
        shell.run(breaks)
        # The fourth is the directory that ls reads.
        assert said(shell, f"set +e; {look}") == "0 1 2 3 "
        assert "cay" not in said(shell, "env") and "PROMPT" not in said(shell, "env")


def test_redirections_end_with_the_cell(shell, tmp_path):
    cell = shell.run("exec >file 2>&1 </dev/zero; echo hidden")
    assert (cell.stdout, cell.exit_code) == ("", 0)
    cell = shell.run("cat; echo seen; echo too >&2")
    assert (cell.stdout, cell.stderr) == ("seen\n", "too\n")
    shell.run("exec >&- 2>&- <&-")
    assert said(shell, "cat; echo again") == "again\n"
    assert (tmp_path / "file").read_text() == "hidden\n"
    # One that the cell has opened is its own, and stays.
    shell.run("exec 5<file {fd}<file; set -e; false")
    assert said(shell, "set +e; cat <&5; cat <&$fd") == "hidden\nhidden\n"


def test_stdin_is_empty(shell):
    assert said(shell, 'read line; echo "$? <$line>"; cat; python3 -c "print(len(input.__name__))"') == "1 <>\n5\n"


def test_here_documents(shell):
    assert said(shell, "x=1; cat <<A; cat <<'B'\n$x\nA\n$x \"\nB\n") == "1\n$x \"\n"


def test_jobs(shell):
    said(shell, "sleep 100 & ls / >/dev/null; true | true")
    assert said(shell, "jobs") == "[1]+  Running                 sleep 100 &\n"
    assert said(shell, "kill %1; wait $!; echo $?; jobs").startswith("143\n")
    # Those that are done have been told of, and are forgotten.
    assert said(shell, "jobs; sleep 0.01 & wait $!; echo $?") == "0\n"
    assert said(shell, "jobs") == ""


def test_output_between_cells_is_the_next_ones(shell):
    shell.run("(sleep 0.2; echo late) &")
    assert said(shell, "wait; echo now") == "late\nnow\n"


def test_much_and_binary_output(shell):
    cell = shell.run("head -c 3000000 /dev/zero | tr '\\0' x; printf '\\377\\0\\001'")
    assert cell.exit_code == 0 and shell.raw["stdout"] == b"x" * 3000000 + b"\xff\0\x01"


def test_a_long_cell(shell):
    assert said(shell, "x='" + "ä" * 100_000 + "'; echo ${#x}") == "100000\n"


def test_without_path_and_with_what_confuses(shell):
    for code in ("unset PATH", "IFS=0123456789", "TMOUT=1", "set -f -x -v", "trap 'echo debug' DEBUG",
                 "alias read=false printf=false", "read() { :; }; printf() { :; }; trap() { :; }; kill() { :; }; eval() { :; }",
                 "PROMPT_COMMAND=false; exit 1", "unset PROMPT_COMMAND", "set -- -n"):
        shell.run(code)
        time.sleep(0.05)
    shell.run("builtin trap - DEBUG; set +fxv; unset -f printf")
    time.sleep(1.2)
    cell = shell.run("echo ok")
    assert (cell.stdout, cell.stderr, cell.exit_code) == ("ok\n", "", 0)


def test_traces_are_the_cells_alone(shell):
    shell.run("set -x")
    cell = shell.run("echo a")
    assert [line.lstrip("+") for line in cell.stderr.splitlines()] == [" echo a"]


INTERRUPTED = ["echo on; sleep 100; echo no", "echo on; while :; do :; done", "echo on; for i in 1 2 3; do sleep 100; done",
               "f() { echo on; sleep 100 | cat; }; f; echo no", "echo on; y=$(sleep 100); echo no",
               "set -e; echo on; sleep 100", "(echo on; sleep 100)"]


@pytest.mark.parametrize("code", INTERRUPTED)
def test_interrupt(shell, code):
    shell.run("x=kept; sleep 300 &")
    for _ in range(2):
        shell.begin(code)
        shell.output("stdout", "on\n")
        time.sleep(0.05)
        shell.interrupt()
        cell = shell.end(5)
        assert (cell.stdout.strip(), cell.exit_code) == ("on", 130)
        # Making $? not 0 would end the shell where -e is on.
        assert said(shell, "echo $x $?") == ("kept 0\n" if "set -e" in code else "kept 130\n")
    if "set -e" not in code:
        assert "Running" in said(shell, "jobs")


def test_interrupt_of_a_shell_that_was_replaced(shell):
    shell.run("set -e; false")
    shell.begin("echo on; sleep 100")
    shell.output("stdout", "on\n")
    shell.interrupt()
    assert shell.end(5).exit_code == 130


def test_a_trap_of_int_is_for_its_cell_alone(shell):
    shell.begin("trap 'echo mine' INT; echo on; sleep 100; echo after")
    shell.output("stdout", "on\n")
    shell.interrupt()
    assert shell.end(5).stdout == "on\nmine\nafter\n"
    shell.begin("echo on; sleep 100")
    shell.output("stdout", "on\n")
    shell.interrupt()
    assert shell.end(5).exit_code == 130


def test_an_interrupt_between_cells_is_nothing(shell):
    for _ in range(5):
        time.sleep(0.05)
        shell.interrupt()
        time.sleep(0.05)
        assert said(shell, "echo on") == "on\n"


def test_many_interrupts_at_any_moment(shell):
    """Whenever it comes: the cell ends as it would or by it, and the next one runs."""
    for n in range(60):
        shell.begin("x=1; for ((i = 0; i < 3000; i++)); do :; done; true")
        time.sleep(n / 5000)
        shell.interrupt()
        assert shell.end(5).exit_code in (0, 130)
    assert said(shell, "echo $x") == "1\n"


def test_the_end(tmp_path):
    d = bash(cwd=tmp_path)
    d.run("trap 'echo bye >end' EXIT")
    d.control.close()
    assert d.process.wait(5) == 0 and (tmp_path / "end").read_text() == "bye\n"


def test_a_shell_that_is_killed_is_gone(shell):
    with pytest.raises(Ended, match="-9"):
        shell.run("kill -9 $$")
