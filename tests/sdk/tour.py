"""What every Python that the package is for goes through, with the package installed: tour.py HOST."""

import asyncio
import sys

import cay

alone = cay.Client(local=True)
assert alone.run("print(6 * 7)").stdout == "42\n"
assert asyncio.run(cay.AsyncClient(local=True).run("print(6 * 7)", stdin="x")).stdout == "42\n"
assert "site-packages" in cay.__file__


async def with_await(host):
    client = cay.AsyncClient(host)
    async with await cay.AsyncSandbox.create(client=client) as sandbox:
        assert (await sandbox.run_code("6 * 7", context="main")).text == "42"
        await sandbox.files.write("a", "b")
        async with await sandbox.terminal("echo typed") as terminal:
            assert b"typed" in b"".join([data async for data in terminal])
        names = [event.name async for event in sandbox.stream(command="echo x")]
        assert names == ["start", "stdout", "result"], names
    try:
        await client.run(command="sleep 60", deadline=0.3)
    except TimeoutError:
        return
    raise AssertionError


client = cay.Client(sys.argv[1])
assert client.run("print(6 * 7)", files={"a": b"b"}).check().stdout == "42\n"
with cay.Sandbox.create(client=client) as sandbox:
    assert sandbox.run_code("6 * 7", context="main").text == "42"
    with sandbox.terminal("echo typed") as terminal:
        assert b"typed" in b"".join(terminal)
asyncio.run(with_await(sys.argv[1]))
print("toured")
