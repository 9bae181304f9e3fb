"""The Python SDK: what it asks a daemon for, and what becomes of the answers."""

import importlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

import pytest

import cay
import fields
from cay import _options, _place
from support import CAY, ROOT, wait_until


@pytest.fixture(scope="module")
def sandbox(daemon):
    with cay.Sandbox.create(client=cay.Client(f"unix:{daemon.socket}")) as made:
        yield made


# Runs


def test_a_result_is_read_as_what_was_printed(here):
    result = cay.run("print(6 * 7)")
    assert (str(result), result.stdout, result.success, result.exit_code) == ("42", "42\n", True, 0)
    assert result and result.status == "ok" and result.sandboxed and not result.timed_out
    assert result.usage["wall_ms"] > 0 and result.id.startswith("run_")


def test_what_a_program_did_is_a_result_and_with_check_an_exception(here):
    result = cay.run("import sys; print('out'); sys.exit('no such luck')")
    assert (result.success, result.status, result.exit_code) == (False, "failed", 1)
    assert str(result) == "out\nno such luck\n[exited with code 1]"
    with pytest.raises(cay.SandboxError, match="no such luck") as caught:
        cay.run("import sys; sys.exit('no such luck')", check=True)
    assert caught.value.result.exit_code == 1 and caught.value.code == "failed"


def test_time_and_memory_are_exceptions_of_their_own_with_check(here):
    result = cay.run("while True: pass", timeout=0.3)
    assert result.timed_out and result.status == "timeout" and result.exit_code is None
    with pytest.raises(TimeoutError) as caught:
        result.check()
    assert isinstance(caught.value, cay.SandboxTimeoutError)
    with pytest.raises(cay.SandboxResourceError):
        cay.run("x = bytearray(200 << 20)", memory="64m", check=True, cold=True)


def test_everything_that_goes_in_and_comes_out(here):
    pathlib.Path("tool.sh").write_text("#!/bin/sh\necho from a tool\n")
    os.chmod("tool.sh", 0o755)
    result = cay.run(
        "import os, subprocess, sys\n"
        "print(sys.argv[1:], sys.stdin.read(), os.environ['NAME'], open('a/b.txt').read())\n"
        "print(subprocess.run(['./tool'], capture_output=True, text=True).stdout)\n"
        "open('out.bin', 'wb').write(open('c.bin', 'rb').read() * 2)",
        args=["one", "two"], stdin=b"typed", env={"NAME": "value"}, get="out.bin",
        files={"a/b.txt": "text", "c.bin": b"\xff\x00", "tool": pathlib.Path("tool.sh")},
        memory="128m", cpus=1, pids=20, disk="20m", timeout="20s", output="64k", labels={"for": "tests"})
    assert result.stdout == "['one', 'two'] typed value text\nfrom a tool\n\n", str(result)
    assert [(f.path, f.data, f.size) for f in result.files] == [("out.bin", b"\xff\x00\xff\x00", 4)]


def test_bytes_that_are_no_text(here):
    result = cay.run(command="printf '\\377a'")
    assert (result.stdout, result.stdout_bytes, result.stderr_bytes) == ("\ufffda", b"\xffa", b"")


def test_commands_words_and_languages(here):
    assert cay.run(command="echo $((6 * 7))").stdout == "42\n"
    assert cay.run(argv=["echo", "a  b"]).stdout == "a  b\n"
    assert cay.run("console.log(6 * 7)", language="node").stdout == "42\n"


def test_fields_that_this_version_does_not_know_are_the_daemons_to_judge(here):
    with pytest.raises(cay.SandboxError) as caught:
        cay.run("1", no_such_field=1)
    assert caught.value.code == "invalid_request" and "no_such_field" in str(caught.value)
    assert cay.run("print(1)", extra={"cold": True}).start == "cold"
    assert cay.run("print(1)", limits={"timeout": 9}, extra={"labels": {"a": "b"}}).success


def test_the_family_of_exceptions(here):
    with pytest.raises(cay.SandboxPolicyError) as caught:
        cay.run("1", mounts=["/etc:/data"])
    assert caught.value.code == "policy_denied" and caught.value.status == 403 and caught.value.hint
    with pytest.raises(KeyError) as caught:
        cay.Sandbox.connect("nobody")
    assert isinstance(caught.value, cay.SandboxNotFoundError) and not str(caught.value).startswith("'")
    with pytest.raises(cay.SandboxNotFoundError):
        cay.run("1", language="klingon")
    for kind in (cay.SandboxTimeoutError, cay.SandboxResourceError, cay.SandboxPolicyError, cay.SandboxNotFoundError):
        assert issubclass(kind, cay.SandboxError)
    for odd in ("", ".", ".."):
        with pytest.raises(cay.SandboxError):
            cay.Sandbox.connect(odd)


def test_an_unsuccessful_result_instead_of_an_exception(here, monkeypatch):
    result = cay.run("1", language="klingon", raise_errors=False)
    assert not result and result.status == "error" and "klingon" in str(result)
    assert isinstance(result.error, cay.SandboxNotFoundError)
    monkeypatch.setenv("CAY_HOST", f"unix:{here.place}/nobody.sock")
    result = cay.run("1", raise_errors=False)
    assert not result.success and result.error.code == "engine_unavailable" and result.exit_code is None
    with pytest.raises(cay.SandboxError, match="nobody.sock"):
        cay.run("1")
    with pytest.raises(cay.SandboxError):
        result.check()


def test_mounts_are_judged_by_the_operators_settings(here):
    with pytest.raises(cay.SandboxPolicyError, match="/etc/shadow"):
        cay.validate_mount("/etc/shadow")
    with pytest.raises(cay.SandboxPolicyError):
        cay.validate_mount("/etc", "/data", "rw")
    mounted = here.place.parent / "mounted"
    assert cay.validate_mount(mounted) == {"source": str(mounted), "target": "/data", "access": "ro"}
    assert cay.run(command="cat /in/old", mounts=[f"{mounted}:/in"]).stdout == "old"
    with cay.Sandbox.create(workspace=f"{mounted}:overlay") as made:
        made.files.write("new", "x")
        assert [change["path"].rsplit("/")[-1] for change in made.workspace_diff()["changes"]] == ["new"]
        assert made.workspace_read("new") == b"x" and not (mounted / "new").exists()


def test_events_come_as_they_happen(here):
    stream = cay.stream(command="echo one; read x; echo $x >&2", stdin="two")
    names = [(e.name, e.text) for e in stream if e.name in ("stdout", "stderr")]
    assert names == [("stdout", "one\n"), ("stderr", "two\n")]
    assert stream.result().exit_code == 0


def test_leaving_a_stream_cancels_the_program(here):
    with cay.stream(command="echo begun; sleep 60") as events:
        assert next(e for e in events if e.name == "stdout").text == "begun\n"
    wait_until(lambda: cay.Client().list_runs(limit=1)[0]["status"] == "cancelled", 15, "its end")


def test_a_deadline_gives_up_and_cancels(here):
    with pytest.raises(cay.SandboxTimeoutError):
        cay.run(command="sleep 60", deadline=0.5)
    wait_until(lambda: cay.Client().list_runs(limit=1)[0]["status"] == "cancelled", 15, "its end")


def test_in_the_background(here):
    run = cay.start(command="cat; sleep 0.2; echo done", stdin="in ", labels={"a": "b"})
    assert run.status == "running"
    assert run.result(check=True).stdout == "in done\n"
    assert run.result().stdout == "in done\n"
    again = cay.Client().get_run(run.id)
    assert again.status == "ok" and any(r["id"] == run.id for r in cay.Client().list_runs())
    other = cay.start(command="sleep 60")
    other.cancel()
    assert other.result(deadline=20).status == "cancelled"


def test_batches(here):
    runs = ["print(0)", {"command": "echo 1"}, {"code": "1", "language": "klingon"}]
    found = dict(cay.batch(runs, parallel=2))
    assert found[0].stdout == "0\n" and found[1].stdout == "1\n"
    assert isinstance(found[2], cay.SandboxNotFoundError)
    assert [r.success for r in cay.Client().run_many(runs)] == [True, True, False]


def test_the_same_request_twice_is_one(here):
    first = cay.run("import os; print(os.urandom(8).hex())", idempotency_key="once")
    assert cay.run("import os; print(os.urandom(8).hex())", idempotency_key="once").stdout == first.stdout


def test_what_would_be_done(here):
    plan = cay.Client().dry_run("1", memory="64m")
    assert plan["limits"]["memory"] == 64 << 20 and plan["sandboxed"]


def test_many_threads_with_one_client(here):
    client, found = cay.Client(), []
    threads = [threading.Thread(target=lambda n=n: found.append(client.run(f"print({n})").stdout)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [f"{n}\n" for n in range(8)]


# Sandboxes


def test_a_sandbox_remembers_files(sandbox):
    assert sandbox.run_command("echo hello >greeting", check=True)
    assert sandbox.run_code("print(open('greeting').read().strip())").stdout == "hello\n"
    assert sandbox.run_command(["cat", "greeting"]).stdout == "hello\n"
    assert sandbox.state == "live" and sandbox.id in {s.id for s in cay.Sandbox.list(client=sandbox.client)}


def test_a_sandbox_ends_with_its_block_if_it_was_made_there(here):
    with cay.Sandbox.create(name="block", labels={"a": "b"}, files={"in.txt": "x"}, memory="128m") as made:
        with cay.Sandbox.connect("block") as other:
            assert other.id == made.id and other.files.read("in.txt") == b"x"
        assert made.refresh().state == "live"
        assert made.update(labels={"c": "d"}, ttl=60).info["labels"] == {"c": "d"}
        assert made.pause().state == "paused" and made.resume().state == "live"
    assert made.state == "gone"
    with pytest.raises(cay.SandboxNotFoundError):
        cay.Sandbox.connect("block")


def test_files(sandbox):
    files = sandbox.files
    assert files.write("t/a.txt", "text\n").size == 5
    files.write("t/a.txt", b"more", append=True)
    assert files.read_text("t/a.txt") == "text\nmore"
    assert files.write("t/run", "#!/bin/sh\necho ran\n", mode=0o755).mode.endswith("755")
    assert sandbox.run_command("t/run").stdout == "ran\n"
    with pytest.raises(cay.SandboxError) as caught:
        files.write("t/a.txt", "x", overwrite=False)
    assert caught.value.code == "conflict"
    assert files.mkdir("t/sub/deep").is_dir
    assert [e.name for e in files.list("t")] == ["a.txt", "run", "sub"]
    assert {e.name for e in files.list("t", depth=2)} == {"a.txt", "run", "sub", "deep"}
    assert files.move("t/a.txt", "t/b ä%.txt").name == "b ä%.txt"
    assert files.exists("t/b ä%.txt") and not files.exists("t/a.txt")
    assert files.remove("t", recursive=True) == 5
    with pytest.raises(KeyError):
        files.read("t/run")


def test_large_files_go_in_pieces(sandbox, tmp_path):
    big = tmp_path / "big"
    big.write_bytes(os.urandom(5 << 20))
    sandbox.files.upload(big)
    sandbox.files.download("big", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == big.read_bytes()
    with pytest.raises(FileExistsError):
        sandbox.files.download("big", tmp_path / "back")


def test_trees_go_in_and_come_out(sandbox, tmp_path):
    (tmp_path / "tree" / "empty").mkdir(parents=True)
    (tmp_path / "tree" / "a").write_text("1")
    (tmp_path / "tree" / "run").write_text("#!/bin/sh\n")
    (tmp_path / "tree" / "run").chmod(0o755)
    (tmp_path / "tree" / "link").symlink_to("/etc/passwd")
    sandbox.files.upload(tmp_path / "tree", "tree2")
    assert [e.name for e in sandbox.files.list("tree2")] == ["a", "empty", "run"]
    sandbox.run_command("ln -s /etc/passwd tree2/evil; ln -s / tree2/dir; mkfifo tree2/pipe; ln tree2/a tree2/same")
    back = sandbox.files.download("tree2", tmp_path / "back")
    assert {p.name for p in back.iterdir()} <= {"a", "empty", "run", "same"}
    assert (back / "a").read_text() == "1" and os.access(back / "run", os.X_OK)
    assert not any(p.is_symlink() for p in back.rglob("*"))


def test_what_changes_is_told(sandbox):
    sandbox.files.mkdir("watched")
    with sandbox.files.watch("watched") as events:
        threading.Timer(0.2, lambda: sandbox.files.write("watched/x", "1")).start()
        assert next(events).data["path"].endswith("x")


def test_a_context_remembers_and_shows_values(sandbox):
    main = sandbox.context("py")
    main.run("x = [3, 1, 2]", check=True)
    result = main.run("print('said'); sorted(x)")
    assert (result.text, result.stdout, result.context) == ("[1, 2, 3]", "said\n", "py")
    assert result.results[0]["text/plain"] == "[1, 2, 3]" and repr(result.results[0]) == "[1, 2, 3]"
    assert sandbox.run_code("sum(x)", context="py").text == "6"
    failed = main.run("1 / 0")
    assert failed.exception["name"] == "ZeroDivisionError"
    with pytest.raises(cay.SandboxError, match="ZeroDivisionError"):
        failed.check()
    assert [c["name"] for c in sandbox.contexts()] == ["py"] and main.info()["cells"] == 4
    main.restart()
    assert main.run("x").exception["name"] == "NameError"
    main.delete()
    assert sandbox.contexts() == []


def test_interrupts_and_input(sandbox):
    asking = sandbox.context("asking")
    with asking.stream("name = input('who? ')\nprint('hello', name)\nwhile True: pass") as events:
        for event in events:
            if event.name == "input":
                assert event.data["prompt"] == "who? "
                asking.answer("cay")
            if event.name == "stdout" and "hello" in event.text:
                asking.interrupt()
        assert events.result().exception["name"] == "KeyboardInterrupt"
    assert asking.run("name").text == "'cay'"
    asking.delete()


PICTURE = ("class Shown:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
           "        return {'text/plain': 'plain', 'text/html': '<script>1</script>', 'image/png': b'\\x89PNG'}\n"
           "Shown()")


def test_results_show_themselves_in_notebooks_without_what_runs_there(here):
    result = cay.run(PICTURE, rich=True)
    bundle = result.results[-1]
    assert bundle["text/html"] and bundle.data("image/png") == b"\x89PNG"
    assert set(bundle._repr_mimebundle_()) == {"text/plain", "image/png"}
    assert set(bundle.trust()._repr_mimebundle_()) == set(bundle)
    assert set(result._repr_mimebundle_()) == {"text/plain", "image/png"}
    assert bundle._repr_mimebundle_(include={"text/plain"}) == {"text/plain": "plain"}


def test_a_notebook_takes_them(here):
    formatters = importlib.import_module("IPython.core.formatters")
    result = cay.run(PICTURE, rich=True)
    shown, _ = formatters.DisplayFormatter().format(result.results[-1])
    assert set(shown) == {"text/plain", "image/png"} and shown["text/plain"] == "plain"
    assert "text/html" in formatters.DisplayFormatter().format(result.results[-1].trust())[0]


def test_ctrl_c_cancels_the_program(here):
    code = "import cay; cay.run(command='sleep 60')"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "sdk" / "python")}) as process:
        client = cay.Client()
        wait_until(lambda: any(r["status"] == "running" for r in client.list_runs()), 20, "its start")
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=20)[1]
    wait_until(lambda: all(r["status"] != "running" for r in client.list_runs()), 20, "its end")


def test_a_terminal(sandbox):
    with sandbox.terminal(cols=100, rows=30) as terminal:
        terminal.send("stty size; tty\n")
        assert b"30 100" in terminal.read_until("/dev/pts/", 20)
        terminal.resize(50, 20)
        terminal.send("stty size\n")
        assert terminal.read_until("20 50", 20)
        terminal.send("exit 3\n")
        for _ in terminal:
            pass
        assert (terminal.exit_code, terminal.signal) == (3, None)
    with sandbox.terminal("cat") as terminal:
        terminal.send("x" * 300 + "\n")
        assert terminal.read_until("x" * 300, 20)
        with pytest.raises(TimeoutError):
            while True:
                terminal.read(0.1)
        terminal.kill("KILL")
        while terminal.read(20):
            pass
        assert terminal.signal == 9


def test_a_terminal_that_is_not_to_be_had(sandbox):
    with pytest.raises(cay.SandboxNotFoundError):
        sandbox.terminal(terminal="term_0000000000000000", cols=None, rows=None)


def test_logs_and_background_runs_of_a_sandbox(sandbox):
    run = sandbox.start(command="echo logged; sleep 0.1")
    assert run.result().stdout == "logged\n"
    assert [e.text for e in sandbox.logs(run=run.id)] == ["logged\n"]
    with sandbox.follow_logs(run=run.id) as events:
        assert next(events).text == "logged\n"


def test_by_tcp_with_a_key(daemon, monkeypatch):
    key, _ = daemon.key("sdk")
    client = cay.Client(f"http://127.0.0.1:{daemon.port}", api_key=key)
    assert client.run("print(1)").stdout == "1\n" and client.health()["status"] == "ok"
    monkeypatch.setenv("CAY_HOST", f"http://localhost:{daemon.port}/")
    with pytest.raises(cay.SandboxPolicyError) as caught:
        cay.run("1")
    assert caught.value.code == "unauthorized"
    monkeypatch.setenv("CAY_API_KEY", key)
    with cay.Sandbox.create() as made, made.terminal("echo by tcp") as terminal:
        assert terminal.read_until("by tcp", 20)
    monkeypatch.setenv("CAY_API_KEY", "two\nlines")
    with pytest.raises(cay.SandboxError, match="can't be a key"):
        cay.run("1")


# Without a daemon


def test_by_the_program_alone(alone):
    client = cay.Client(binary=alone, local=True)
    result = client.run("import os, sys; print(sys.argv[1:], sys.stdin.read(), os.environ['A'], open('f').read())\n"
                        "open('o', 'w').write('1')", args=["-x", "--json"], stdin="in", env={"A": "b c"},
                        files={"f": b"file"}, get=["o"], memory="64m", timeout=20, output=4096, cpus=1, version="3")
    assert result.stdout == "['-x', '--json'] in b c file\n", str(result)
    assert result.files[0].data == b"1" and result.engine == "native"
    assert client.run(command="cat; exit 3", stdin="x").exit_code == 3
    assert client.run(argv=["cat"], stdin="y").stdout == "y"
    assert [e.name for e in client.stream("print(1)")] == ["stdout", "result"]
    assert [r.stdout for r in client.run_many(["print(1)", "print(2)"])] == ["1\n", "2\n"]
    os.mkdir("in")
    assert client.validate_mount("in")["source"] == os.path.abspath("in")
    with pytest.raises(cay.SandboxPolicyError):
        client.validate_mount("/etc")


def test_by_the_program_alone_what_needs_a_daemon_says_so(alone):
    client = cay.Client(binary=alone, local=True)
    for fields in ({"rich": True}, {"workspace": {"name": "kept"}}, {"limits": {"open_files": 20}}, {"env": {"A": "b\nc"}}):
        with pytest.raises(cay.SandboxError) as caught:
            client.run("1", **fields)
        assert caught.value.code == "unsupported"
    with pytest.raises(cay.SandboxError) as caught:
        cay.Sandbox.create(client=client)
    assert caught.value.code == "engine_unavailable"
    with pytest.raises(cay.SandboxError) as caught:
        cay.Client(binary="/nowhere/cay", local=True).run("1")
    assert caught.value.code == "engine_unavailable"


def test_by_the_program_alone_a_deadline_ends_it(alone):
    with pytest.raises(cay.SandboxTimeoutError):
        cay.Client(binary=alone, local=True).run(command="sleep 60", deadline=1)


def test_values_are_on_no_command_line(alone, monkeypatch):
    spied = []
    monkeypatch.setattr("cay._sync.client.run_program", lambda words, *_: spied.extend(words) or (b'{"success":true,"status":"ok"}', b""))
    cay.Client(binary=alone, local=True).run("secret1", env={"K": "secret2"}, stdin="secret3", files={"f": "secret4"})
    assert not [word for word in spied if "secret" in word], spied


# What is written down twice


@pytest.mark.parametrize("host", [
    "unix:/run/x.sock", "unix:///run/x.sock", "http://localhost:1", "http://127.0.0.1:1/", "http://[::1]:1",
    "/run/x.sock", "unix:", "unix:x.sock", "unix:/", "tcp://localhost:1", "http://", "http://localhost",
    "http://localhost:0", "http://localhost:65536", "http://localhost:80/v1", "http://:80", "http://::1:80",
    "http://[::1:80", "http://[]:80", "http://a b:80", "http://user@host:80", "http://host:80?x", "https://x:1",
    f"unix:/{'x' * 120}"],
    ids=range(24))
def test_places_are_those_of_the_command_line(host, tmp_path):
    done = subprocess.run([CAY, "ps"], env={"CAY_HOST": host, "HOME": str(tmp_path)}, capture_output=True, text=True)
    with pytest.raises(cay.SandboxError) as caught:
        cay.Client(host).health()
    first = caught.value.message.split(":")[0] if "no daemon at" not in done.stderr else \
        f"no daemon at {_place.parse_place(host)}"
    assert f"cay: {first}" in done.stderr, (str(caught.value), done.stderr)


# Fields that are not known yet are sent and kept as they are. What is known must be there.


def test_options_are_those_of_the_api():
    names = re.findall(r"^        (\w+): ", (ROOT / "sdk" / "python" / "cay" / "_options.py").read_text().split("LIMITS =")[0], re.M)
    assert len(names) > 40
    assert not set(names) - fields.of_requests() - {"idempotency_key", "extra", "allow", "block", "limits"}
    assert set(_options.LIMITS) == fields.of("Limits")


def test_results_are_those_of_the_api():
    assert not set(cay.SandboxResult.__dataclass_fields__) - fields.of("Result") - {"error", "raw"}
    assert not set(cay.FileEntry.__dataclass_fields__) - fields.of("FileEntry")


def test_the_classes_without_await_are_made_of_those_with():
    done = subprocess.run([ROOT / "sdk" / "python" / "unasync", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_version_is_the_programs():
    assert subprocess.run([CAY, "version"], capture_output=True, text=True).stdout.split()[1] == cay.__version__
    assert f'version = "{cay.__version__}"' in (ROOT / "sdk" / "python" / "pyproject.toml").read_text()


def test_a_request_can_be_any_json():
    assert json.dumps(_options.request_of({"files": [{"path": "a", "text": "b"}], "network": "full",
                                           "block": "x.org", "workspace": {"source": "/srv"}, "stdin": None}))
    assert _options.request_of({"mounts": ["/a:b:/data:rw"], "workspace": "/srv:rw"}) == {
        "mounts": [{"source": "/a:b", "target": "/data", "access": "rw"}],
        "workspace": {"source": "/srv", "access": "rw"}}
    assert _options.request_of({"workspace": {"name": "kept"}}) == {"workspace": {"name": "kept"}}
    with pytest.raises(cay.SandboxError):
        _options.mount_of("/only")
    with pytest.raises(TypeError):
        _options.request_of({"files": {"a": 1}})
