"""The Python SDK with await: one thread, many things under way."""

import asyncio
import os
import threading

import pytest

import cay


def with_await(test):
    """Runs in an event loop, and sees that nobody started a thread for it."""
    def run(here):
        before = threading.active_count()
        asyncio.run(asyncio.wait_for(test(here), 60))
        assert threading.active_count() == before
    run.__name__ = test.__name__
    return run


@with_await
async def test_runs_and_sandboxes(here):
    assert (await cay.arun("print(6 * 7)")).stdout == "42\n"
    async with await cay.AsyncSandbox.create(name="async") as sandbox:
        await sandbox.run_command("echo hello >greeting", check=True)
        assert await sandbox.files.read_text("greeting") == "hello\n"
        assert [e.name for e in await sandbox.files.list()] == ["greeting"]
        assert (await sandbox.run_code("6 * 7", context="main")).text == "42"
        assert (await sandbox.context("main").run("_")).text == "42"
        async with await sandbox.terminal("read x; echo got $x; exit 2") as terminal:
            await terminal.send("typed\n")
            assert b"got typed" in b"".join([data async for data in terminal])
            assert terminal.exit_code == 2
        run = await sandbox.start(command="echo background")
        assert (await run.result()).stdout == "background\n"
        again = await cay.AsyncSandbox.connect("async")
        assert again.id == sandbox.id and again.id in {s.id for s in await cay.AsyncSandbox.list()}
    assert sandbox.state == "gone"
    with pytest.raises(KeyError):
        await cay.AsyncSandbox.connect("async")


@with_await
async def test_many_at_a_time(here):
    client = cay.AsyncClient()
    found = await asyncio.gather(*(client.run(f"print({n})") for n in range(12)))
    assert [r.stdout for r in found] == [f"{n}\n" for n in range(12)]
    batch = {index: one async for index, one in client.batch(["print(1)", "print(2)"])}
    assert {index: one.stdout for index, one in batch.items()} == {0: "1\n", 1: "2\n"}


async def states(client):
    return [r["status"] for r in await client.list_runs() if r["status"] != "ok"]


@with_await
async def test_events_and_cancelling(here):
    client = cay.AsyncClient()
    async with client.stream(command="echo begun; sleep 60") as events:
        async for event in events:
            if event.name == "stdout":
                break
    task = asyncio.ensure_future(client.run(command="sleep 60"))
    while "running" not in await states(client) and not task.done():
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while "running" in await states(client):
        await asyncio.sleep(0.02)
    with pytest.raises(TimeoutError):
        await client.run(command="sleep 60", deadline=0.3)


@with_await
async def test_files_of_this_machine(here):
    async with await cay.AsyncSandbox.create() as sandbox:
        os.mkdir("tree")
        with open("tree/big", "wb") as file:
            file.write(os.urandom(3 << 20))
        await sandbox.files.upload("tree")
        back = await sandbox.files.download("tree", "back")
        with open("tree/big", "rb") as one, open(back / "big", "rb") as other:
            assert one.read() == other.read()


def test_by_the_program_alone(alone):
    async def main():
        client = cay.AsyncClient(binary=alone, local=True)
        one, two = await asyncio.gather(client.run("print(input())", stdin="x"), client.run(command="exit 3"))
        assert (one.stdout, two.exit_code) == ("x\n", 3)
        task = asyncio.ensure_future(client.run(command="sleep 60"))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    before = threading.active_count()
    asyncio.run(main())
    assert threading.active_count() == before


def test_an_event_loop_after_the_other(here):
    client = cay.AsyncClient()
    for _ in range(2):
        assert asyncio.run(client.run("print(1)")).success


def test_by_tcp(daemon):
    key, _ = daemon.key("async")
    client = cay.AsyncClient(f"http://127.0.0.1:{daemon.port}", api_key=key)
    assert asyncio.run(client.run("print(1)")).success
