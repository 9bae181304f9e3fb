"""Attacks by way of the command line: values, names in messages, settings that others wrote."""

import ast
import os

import pytest

from attack import attack, told
from support import OURS


BAD_VALUES = [
    ("-l", "python@../../x"), ("-l", "python@3;id"), ("-l", "../python"), ("-l", "py\x1b]0;x\x07thon"),
    ("-w", "/proc/self/fd/3"), ("-w", "/proc/1/root"), ("-w", "../../etc"), ("-w", "/workspace/../proc/self"),
    ("-e", "=x"), ("-e", "A B=x"), ("-e", "A\n=x"), ("-e", "A\x1b[2J=x"),
    ("--put", "/etc/hosts:../../x"), ("--put", "/etc/hosts:/etc/x"), ("--put", "/etc/hosts:/workspace/../x"),
    ("--put", "/etc/hosts:a/./b"), ("--put", "/dev/zero:z"), ("--get", "/etc/passwd"), ("--get", "/proc/self/mem"),
    ("-v", "/tmp:/tmp/../proc"), ("-v", "/proc/self/root:/x"), ("--workspace", "/proc/self/cwd"),
]


@attack(35)
def test_bad_values(island, place):
    """Refused before anything runs, in one line without a control character."""
    for options in BAD_VALUES:
        done = island.run(*options, "-c", "print('ran')")
        assert done.rc == OURS and done.out == b"" and list(place.iterdir()) == [], options
        assert len(done.said) == 1 and not any(c < 0x20 for c in done.err.rstrip(b"\n")), done.err
        told("refused")


@attack(35)
@pytest.mark.parametrize("value", ["$(id)", "`id`", "; id", "a\nb", "--help", "-c", "%s%n", "\x1b]52;c;eA==\x07"])
def test_values_are_not_interpreted(island, value):
    """Shell characters, newlines and option-like words arrive as they were given."""
    out = island.run("-e", f"V={value}", "-c", "import os, sys; print(ascii([os.environ['V'], sys.argv[1]]))",
                     "--", value).ok().text
    assert out.strip() == ascii([value, value])


NAMES = ["$(touch x)", "`touch x`", "a; touch x", "a\nb", "-c", "--", "a b", "'", '"', "%s%n", "*", "a|b", "&", "~"]


@attack(35)
@pytest.mark.parametrize("extension, code, said", [
    (".py", "print('ran')", "ran\n"), (".sh", "echo ran", "ran\n"), (".js", "console.log('ran')", "ran\n"),
    (".c", "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 0; }", "ran\n"),
], ids=["python", "sh", "javascript", "c"])
def test_names_of_scripts(island, place, extension, code, said):
    """Scripts whose names are shell code, options or have newlines: they are run, the name is not."""
    for name in NAMES if extension == ".py" else NAMES[:5]:
        (place / f"{name}{extension}").write_text(code)
        done = island.run(f"./{name}{extension}", cwd=place)
        assert done.ok().text == said, name
        told("a name")
    assert not list(place.glob("x"))


@attack(35)
def test_names_of_files_and_programs(island, place):
    """The same as names of programs, of files put in and fetched, of directories and of arguments."""
    (place / "source").write_text("x")
    for name in NAMES:
        done = island.run("--put", f"{place}/source:{name}", "--get", f"out/*:{place}/got/", "-c",
                          "import os, shutil, sys; os.mkdir('out'); shutil.copy(sys.argv[1], 'out')\n"
                          "print(ascii(os.listdir('/workspace')))", "--", name).ok()
        assert sorted(ast.literal_eval(done.text)) == sorted([name, "out"])
        # A name with a line break is not made on the host, and cay says so.
        assert (place / "got" / "out" / name).exists() != ("\n" in name)
        done = island.run("--", f"/nowhere/{name}")
        assert done.rc == 127 and done.out == b"" and len(done.said) == 1
        told("a name")
    assert sorted(os.listdir(place)) == ["got", "source"]


@attack(34)
@pytest.mark.parametrize("name", [
    "o\x1b]52;c;ZXZpbA==\x07", "o\nx", "o\rcay: all is well", "o\x1b[8m", "o\u202etxt",
], ids=["osc", "newline", "return", "hidden", "bidi"])
def test_names_in_messages_are_harmless(cay, place, name):
    """A file name that the island chose, in a message of cay's: one line, and nothing acts."""
    (place / name).mkdir()
    done = cay.run("--get", "o*", "-c", f"open({name!r}, 'w')")
    assert len(done.errors.splitlines()) == 1
    assert not any(c < 0x20 for c in done.err.rstrip(b"\n")) and "\u202e" not in done.errors


@attack(35)
def test_settings_of_others(cay, config, root):
    """Root follows no settings that another owns or may write, no pipe, and shows none of a secret."""
    path = config("[mounts]\nwrite = /\n")
    os.chown(path, 1234, 0)
    assert "not owned by root" in cay.refused("--", "true", config=path)["message"]
    os.chown(path, 0, 0)
    path.chmod(0o666)
    assert "may write" in cay.refused("--", "true", config=path)["message"]
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in cay.refused("--", "true", config=path, timeout=5)["message"]
    path.unlink()
    secret = path.with_name("secret")
    secret.write_text("root:$6$HASH:19000::::::\n")
    secret.chmod(0o600)
    path.symlink_to(secret)
    assert "HASH" not in cay.run("--", "true", config=path).errors
