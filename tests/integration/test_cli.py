"""The command line itself: what is not there yet, what is mistyped, help, dry runs, the direct engine."""

import json
import os
import re
import time

import pytest

from support import NOT_FOUND, OURS, TIMEOUT

UNSUPPORTED = [("--engine", "docker", "--network", "full"), ("--engine", "podman", "--image", "host")]


@pytest.mark.parametrize("words", UNSUPPORTED, ids=" ".join)
def test_unsupported_is_not_ignored(cay, words):
    error = cay.refused(*words, "--", "true")
    assert error["code"] == "unsupported"
    assert "container" in error["message"]
    assert error["hint"]
    done = cay.run(*words, "--", "echo", "ran")
    assert done.rc == OURS and done.out == b"" and error["hint"] in done.errors


@pytest.mark.parametrize("words", [("--network", "none"), ("--image", "host"), ("--user", "cay"),
                                   ("--engine", "auto"), ("--engine", "native")], ids=" ".join)
def test_what_is_the_default_may_be_said(cay, words):
    cay.run(*words, "--", "true").ok()


@pytest.mark.parametrize("words", [("--network", "x"), ("--engine", "x"), ("--user", "web"), ("--image", ""),
                                   ("--image", "../x")], ids=" ".join)
def test_nonsense_is_invalid_not_unsupported(cay, words):
    assert cay.refused(*words, "--", "true")["code"] == "invalid_request"


@pytest.mark.parametrize("typed, meant", [("--timout", "--timeout"), ("--memmory", "--memory"),
                                          ("--jsno", "--json"), ("--pid-limit", "--pids-limit"),
                                          ("--workspce=x", "--workspace")])
def test_did_you_mean(cay, typed, meant):
    done = cay.run(typed, "5", "-c", "1")
    assert done.rc == OURS and len(done.said) == 1
    assert typed.split("=")[0] in done.errors and f"did you mean {meant}?" in done.errors


def test_unknown_option_without_a_likely_one(cay):
    done = cay.run("--xyzzyplugh", "-c", "1")
    assert done.rc == OURS and "--xyzzyplugh" in done.errors and "--help" in done.errors
    assert cay.run("-Z", "-c", "1").rc == OURS


@pytest.mark.parametrize("typed, meant", [("rum", "run"), ("docter", "doctor"), ("versoin", "version")])
def test_unknown_verb(cay, typed, meant):
    done = cay(typed, "-c", "1")
    assert done.rc == OURS and len(done.said) == 1
    assert typed in done.errors and meant in done.errors


def test_json_is_honoured_wherever_it_stands(cay):
    for words in (("--json", "--nonsense"), ("--nonsense", "--json"), ("-m", "x", "--json", "-c", "1")):
        done = cay.run(*words)
        assert done.rc == OURS and done.error["code"] == "invalid_request", words


def test_options_may_follow_the_code_but_not_its_arguments(cay):
    assert cay.run("-c", "print(1)", "--json").ok().json["stdout"] == "1\n"
    code = "import sys; print(sys.argv[1:])"
    assert cay.run("-c", code, "x", "--json", "--nonsense").ok().text == "['x', '--json', '--nonsense']\n"
    assert cay.run("-c", code, "--", "--json").ok().text == "['--json']\n"


def test_error_object(cay):
    done = cay.run("--json", "--timeout", "never", "-c", "1")
    assert done.rc == OURS
    assert set(done.error) == {"code", "message", "hint", "details", "request_id"}
    assert done.error["code"] == "invalid_request" and done.error["details"] == {}
    assert done.out.count(b"\n") == 1 and done.out.endswith(b"}\n")
    assert done.said == [f"cay: {done.error['message']}"]


def test_error_without_json_leaves_stdout_empty(cay):
    done = cay.run("--timeout", "never", "-c", "1")
    assert done.rc == OURS and done.out == b"" and done.errors.count("\n") == 1


def test_odd_bytes_in_an_error_are_valid_json(cay):
    done = cay.run("--json", b"\xff\xfe\n.py".decode(errors="surrogateescape"))
    assert done.rc == OURS and done.error["code"] == "not_found"


# Help

def verbs(cay):
    return re.findall(r"^  (\w+) {2,}", cay("help").ok().text, re.M)


def test_without_arguments(cay):
    done = cay()
    assert "usage: cay" in done.text + done.errors and "run" in done.text + done.errors


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help(cay, word):
    done = cay(word).ok()
    assert done.text.startswith("usage: cay") and done.err == b""


def test_help_lists_the_verbs(cay):
    assert {"run", "doctor", "runtimes", "config", "version", "help"} <= set(verbs(cay))


def test_help_of_every_verb(cay):
    for verb in verbs(cay):
        for args in ((verb, "--help"), ("help", verb)):
            done = cay(*args).ok()
            lines = done.text.splitlines()
            assert done.err == b"" and "cay" in lines[0], args
            assert len(lines) <= 48, args
            assert max(map(len, lines)) <= 80, args
            assert re.search(rf"^examples:\n(  .*\n)*  .*cay {verb}\b", done.text, re.M), args


def test_help_of_an_unknown_verb(cay):
    assert cay("help", "nonsense").rc == OURS


def test_help_of_run_has_every_option_of_the_interface(cay):
    text = cay.run("--help").ok().text
    for option in ("language", "code", "env", "env-file", "stdin", "memory", "cpus", "pids-limit", "disk",
                   "timeout", "cpu-time", "output-limit", "network", "allow-domain", "block-domain",
                   "volume", "workspace", "workdir", "put", "get", "image", "engine", "writable", "user",
                   "sandbox", "json", "allow-degraded", "cold", "dry-run"):
        assert f"--{option}" in text


@pytest.mark.parametrize("word", ["version", "--version", "-V"])
def test_version(cay, word):
    assert re.fullmatch(r"cay \d+\.\d+\.\d+\n", cay(word).ok().text)


def test_help_to_a_full_disk(cay):
    assert cay.shell('"$CAY" run --help > /dev/full').rc != 0


# Dry run

def test_dry_run_runs_nothing(cay, place):
    (place / "x.py").write_text("print('ran'); open('/workspace/ran', 'w')")
    done = cay.run("--dry-run", "--workspace", ".", "x.py", "arg").ok()
    assert "ran" not in done.text.split() and list(place.iterdir()) == [place / "x.py"]


def test_dry_run_for_people(cay, place):
    text = cay.run("--dry-run", "-m", "64m", "-e", "A=1", "--workspace", ".", "-c", "print(1)").ok().text
    rows = [line.split(None, 1) for line in text.splitlines()]
    assert ["engine", "native"] in rows
    assert ["env", "A=1"] in rows and ["workdir", "/workspace"] in rows
    assert any(k == "limit" and v.split() == ["memory", "64", "MiB"] for k, v in rows)
    assert any(k == "mount" and str(place) in v and v.startswith("ro") for k, v in rows)
    assert any(k == "enforce" and v == "seccomp" for k, v in rows)
    assert any(k == "denied" and "network" in v for k, v in rows)


def test_dry_run_as_json(cay, place):
    plan = cay.run("--dry-run", "--json", "--workspace", ".", "-c", "print(1)", "x").ok().json["dry_run"]
    assert plan["engine"] == "native" and plan["language"] == "python" and plan["network"] == "none"
    assert plan["argv"][1:] == ["-c", "print(1)", "x"]
    assert plan["limits"]["memory"] == 512 << 20 and plan["limits"]["cpu_time"] is None
    assert plan["mounts"] == [{"source": str(place), "target": "/workspace", "access": "ro",
                               "reason": "asked for and allowed"}]
    assert "seccomp" in plan["enforced"] and plan["denied"]


def test_dry_run_refuses_what_a_run_would(cay):
    assert cay.refused("--dry-run", "--workspace", "/etc", "--", "true")["code"] == "policy_denied"
    assert cay.run("--dry-run", "--workspace", "/etc", "--", "true").rc == OURS
    assert cay.refused("--dry-run", "-l", "python@3.3", "-c", "1")["code"] == "runtime_not_found"


# The direct engine: no sandbox, and it says so

def test_direct(cay):
    done = cay.run("--engine", "direct", "--json", "-c", "import os; print(os.getuid(), os.getcwd())").ok()
    assert done.err == b""
    result = done.json
    assert result["sandboxed"] is False and result["engine"] == "direct" and result["status"] == "ok"
    assert result["engine_reason"] and result["isolation"]["seccomp"] == "none"
    assert result["network"] == "host"
    assert result["stdout"].split()[0] == str(os.geteuid())


def test_direct_workspace_is_a_directory_of_its_own(cay, place):
    out = cay.run("--engine", "direct", "-c",
                  "import os; open('x', 'w'); print(os.getcwd() == os.environ['HOME'], os.listdir('.'))").ok()
    assert out.text == "True ['x']\n" and list(place.iterdir()) == []


def test_direct_leaves_nothing_even_if_the_program_tries(cay):
    cay.run("--engine", "direct", "-c",
            "import os; os.makedirs('a/b/c'); open('a/b/f', 'w'); os.chmod('a/b', 0); os.symlink('/etc', 'l')").ok()
    assert os.path.exists("/etc/passwd")


def test_direct_in_a_named_workspace(cay, place):
    (place / "f").touch()
    assert cay.run("--engine", "direct", "--workspace", ".", "--", "ls").ok().text == "f\n"


def test_direct_script_and_files(cay, place):
    (place / "x.py").write_text("import sys; print(sys.argv[1:], open('in').read()); open('out', 'w').write('O')")
    (place / "in").write_text("I")
    done = cay.run("--engine", "direct", "--put", "in", "--get", "out", "x.py", "a").ok()
    assert done.text == "['a'] I\n" and (place / "out").read_text() == "O"


def test_direct_timeout(cay):
    done = cay.run("--engine", "direct", "--json", "--timeout", "0.9", "--", "sh", "-c", "echo up; sleep 60")
    assert done.rc == TIMEOUT and done.json["status"] == "timeout" and done.json["stdout"] == "up\n"
    assert done.seconds < 3


def test_direct_timeout_takes_children_along(cay):
    cay.run("--engine", "direct", "--timeout", "0.3", "--", "sh", "-c", "sleep 61 & sleep 62")
    time.sleep(0.1)
    running = [open(f"/proc/{p}/cmdline", "rb").read() for p in os.listdir("/proc")
               if p.isdigit() and os.path.exists(f"/proc/{p}/cmdline")]
    assert b"sleep\x0061\0" not in running and b"sleep\x0062\0" not in running


def test_direct_cpu_time(cay):
    done = cay.run("--engine", "direct", "--json", "--cpu-time", "1", "--timeout", "20", "-c", "while True: pass")
    assert done.rc == TIMEOUT and done.json["message"] == "CPU time limit of 1 s reached"


def test_direct_exit_codes(cay):
    assert cay.run("--engine", "direct", "-c", "raise SystemExit(3)").rc == 3
    assert cay.run("--engine", "direct", "--", "no-such-command").rc == NOT_FOUND
    assert cay.run("--engine", "direct", "--", "sh", "-c", "kill -9 $$").rc == 137


def test_direct_volumes_are_refused(cay, place, config):
    conf = config(f"[mounts]\nread = {place}\n")
    error = cay.refused("--engine", "direct", "-v", f"{place}:/data", "--", "true", config=conf)
    assert error["code"] == "unsupported"


def test_direct_can_be_switched_off(cay, config):
    conf = config("[engine]\ndirect = no\n")
    error = cay.refused("--engine", "direct", "--", "true", config=conf)
    assert error["code"] == "policy_denied" and "direct" in error["hint"]
    cay.run("--", "true", config=conf).ok()


def test_direct_dry_run_says_that_nothing_is_denied(cay):
    assert "denied   nothing" in cay.run("--engine", "direct", "--dry-run", "--", "true").ok().text
    plan = cay.run("--engine", "direct", "--dry-run", "--json", "--", "true").json["dry_run"]
    assert plan["enforced"] == [] and plan["denied"] == []


# Doctor

def test_doctor(cay):
    done = cay("doctor")
    assert done.rc == 0, done.errors + done.text
    assert "seccomp" in done.text


def test_doctor_as_json(cay):
    json.loads(cay("doctor", "--json").ok().out)
