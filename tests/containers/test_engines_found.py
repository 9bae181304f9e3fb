"""What doctor says of engines: found as their own programs find them, asked, and what is wrong where one is not usable."""

import json
import socket

import pytest

from support import STRANGER


def told(cay, name, **how):
    done = cay("doctor", "--json", timeout=60, **how)
    return {row["engine"]: row for row in json.loads(done.out)["engines"]}[name]


def test_what_a_real_one_is(cay, engine):
    row = told(cay, engine.name, env=engine.environment)
    said = json.loads(engine.call("version", "--format", "{{json .Server}}"))
    assert row["usable"] and not row["reason"] and not row["rootless"]
    assert row["version"] == said["Version"] and row["api"] == "1.41"
    assert (row["cgroup_driver"], row["runtime"], row["lacks"]) == ("cgroupfs", "runc", "")
    assert row["socket"] == engine.socket and row["found_by"] in ("DOCKER_HOST", "CONTAINER_HOST")
    text = cay("doctor", env=engine.environment).text
    assert any(line.split()[:2] == ["ok", engine.name] and said["Version"] in line for line in text.splitlines())


def test_the_settings_say_where(cay, config, engine):
    conf = config(f"[{engine.name}]\nsocket = {engine.socket}\nruntime = runc\n")
    row = told(cay, engine.name, config=conf)
    assert row["usable"] and row["found_by"] == f"socket in [{engine.name}] of the settings"


def test_a_runtime_that_is_not_there(cay, config, engine):
    conf = config(f"[{engine.name}]\nsocket = {engine.socket}\nruntime = runsc\n")
    row = told(cay, engine.name, config=conf)
    assert not row["usable"] and "no runtime runsc" in row["reason"] and row["todo"]


def test_switched_off(cay, config, engine):
    row = told(cay, engine.name, env=engine.environment, config=config(f"[{engine.name}]\nenabled = no\n"))
    assert not row["usable"] and "switch" in row["reason"] and "enabled = yes" in row["todo"]


def test_the_current_context(cay, docker, place):
    meta = place / "contexts" / "meta" / "0123"
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps(
        {"Name": "mine", "Metadata": {}, "Endpoints": {"docker": {"Host": f"unix://{docker.socket}"}}}))
    (place / "config.json").write_text('{"currentContext": "mine"}')
    row = told(cay, "docker", env={"DOCKER_CONFIG": str(place)})
    assert row["usable"] and row["found_by"] == "the docker context 'mine'"
    (place / "config.json").write_text('{"currentContext": "other"}')
    row = told(cay, "docker", env={"DOCKER_CONFIG": str(place)})
    assert not row["usable"] and "'other'" in row["reason"]


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_no_socket(cay, name, place):
    row = told(cay, name, env={"DOCKER_HOST": f"unix://{place}/none", "CONTAINER_HOST": f"unix://{place}/none"})
    assert not row["usable"] and "No such file" in row["reason"] and "start" in row["todo"]


@pytest.mark.parametrize("host", ["tcp://127.0.0.1:2375", "ssh://example.org"])
def test_on_another_machine(cay, host):
    row = told(cay, "docker", env={"DOCKER_HOST": host})
    assert not row["usable"] and host in row["reason"] and row["socket"] == ""


def test_no_permission(stranger, docker):
    row = told(stranger, "docker", env=docker.environment)
    assert not row["usable"] and "no permission" in row["reason"] and "group docker" in row["todo"], (row, STRANGER)


def test_somebody_else_listens(cay, place):
    """A socket whose owner closes what comes."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        listener.listen(5)
        asking = cay.start("doctor", "--json", env={"DOCKER_HOST": f"unix://{place}/socket"})
        there, _ = listener.accept()
        there.recv(4096)
        there.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        there.close()
        out, _ = asking.communicate(timeout=60)
    row = {row["engine"]: row for row in json.loads(out)["engines"]}["docker"]
    assert not row["usable"] and "does not answer as Docker would" in row["reason"]
