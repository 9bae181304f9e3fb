"""Where --get writes to and --put reads from, when the island can write there itself.

The caller names a path below a writable workspace; the program turns a part of it into a symlink
while it runs. cay then follows it on the host, with the caller's rights.
"""

import os

import pytest

from attack import attack


@pytest.fixture
def victim(scratch):
    path = scratch / "victim"
    path.mkdir(exist_ok=True)
    path.chmod(0o700)
    yield path
    for name in os.listdir(path):
        (path / name).unlink()


@attack(4)
@pytest.mark.parametrize("destination, prepare", [
    ("results/", "ln -s $0 results"),
    ("results/", "mkdir results; mv results old; ln -s $0 results"),
    ("results/out.png", "ln -s $0 results"),
    ("a/results/", "mkdir a; ln -s $0 a/results"),
], ids=["directory", "exchanged", "file", "deeper"])
def test_destination_in_a_writable_workspace(cay, shared, victim, destination, prepare):
    """A symlink made during the run must not lead --get out of the workspace: no file, anywhere."""
    path, config = shared
    cay.run("--workspace", f"{path}:rw", "--get", f"/tmp/x.png:{path}/{destination}", "--", "sh", "-c",
            f"{prepare}; echo evil > /tmp/x.png", str(victim), config=config)
    assert os.listdir(victim) == []


def test_control_destination_outside_of_the_workspace(cay, shared, place):
    """The control: a destination that the island can't reach is written to."""
    path, config = shared
    cay.run("--workspace", f"{path}:rw", "--get", f"/tmp/x.png:{place}/results/", "--", "sh", "-c",
            "echo fine > /tmp/x.png", config=config).ok()
    assert (place / "results" / "x.png").read_text() == "fine\n"


@attack(4)
def test_default_destination_in_a_writable_workspace(cay, shared, victim):
    """Into the current directory, which is the workspace: links in the way are not followed."""
    path, config = shared
    cay.run("--workspace", ".:rw", "--get", "/tmp/d/x", "--get", "d/*", "--", "sh", "-c",
            "mkdir /tmp/d e; echo evil > /tmp/d/x; echo evil > e/y; ln -s $0 d; ln -s $0/z x", str(victim),
            config=config, cwd=path)
    assert os.listdir(victim) == []


@attack(4)
@pytest.mark.parametrize("options, program", [
    (["--put", "{}/result:x"], ["cat", "x"]),
    (["--stdin", "{}/result"], ["cat"]),
], ids=["put", "stdin"])
def test_source_that_an_island_left(cay, shared, victim, options, program):
    """A former run left a symlink in the workspace: the next must not be given what it points to."""
    path, config = shared
    (victim / "key").write_text("HOSTSECRET")
    cay.run("--workspace", f"{path}:rw", "--", "ln", "-s", victim / "key", "result", config=config).ok()
    done = cay.run(*[o.format(path) for o in options], "--", *program, config=config)
    assert b"HOSTSECRET" not in done.out
