"""Attacks on what an interpreter that stays has from outside: the socket that it is spoken to by."""

import json
import pathlib

import pytest

from attack import attack, told

NAME = "squatted-by-an-island"

# Every socket that is there, the channel among them: which interfaces it sees, and where a name goes that it takes.
PROBE = f"""
import array, fcntl, json, os, socket, stat, struct
def interfaces(fd):
    room = array.array("B", bytes(4096))
    asked = struct.pack("iL", len(room), room.buffer_info()[0])
    length = struct.unpack("iL", fcntl.ioctl(fd, 0x8912, asked))[0]
    return [bytes(room[at:at + 16]).split(b"\\0")[0].decode() for at in range(0, length, 40)]
def is_socket(fd):
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
found = [fd for fd in map(int, os.listdir("/proc/self/fd")) if is_socket(fd)]
seen = {{fd: interfaces(fd) for fd in found}}
for fd in found:
    try:
        socket.socket(fileno=os.dup(fd)).bind("\\0{NAME}")
    except OSError:
        pass
own = socket.socket()
print(json.dumps([list(seen.values()), interfaces(own.fileno())]), flush=True)
"""


def hosts_names():
    return [line.split()[-1] for line in pathlib.Path("/proc/net/unix").read_text().splitlines()]


@pytest.mark.parametrize("made", ["context", "cold context", "rich"])
@attack(27)
def test_the_channel_is_of_the_islands_own_network(warm_daemon, made):
    """A socket sees the network that its maker was in: by the one that brings cells, the host's interfaces and names."""
    if made == "rich":
        done = warm_daemon.run(PROBE, rich=True)
        names = hosts_names()
    else:
        with warm_daemon.sandbox(cold=made.startswith("cold")) as sandbox:
            done = sandbox.python(PROBE, context="main")
            names = hosts_names()  # while it has the name
    seen, own = json.loads(done["stdout"])
    assert own == ["lo"] and seen and all(names_of_one == own for names_of_one in seen), (seen, own)
    assert not [name for name in names if NAME in name]
    told("the island's own")
