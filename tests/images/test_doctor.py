"""What doctor says about images: where they are, what they take, and what the file system can do, tried."""

import json
import os
import subprocess

import pytest

from makers import Image, Tree, busybox, layout


def doctor(stock):
    done = stock.cay("doctor", "--json", config=stock.config)
    told = json.loads(done.out)
    return told, {row["control"]: row for row in told["controls"]}


def test_the_store(stock, place):
    stock.configure("budget = 1g\n")
    told, rows = doctor(stock)
    assert told["images"] == {"store": str(stock.store), "count": 0, "bytes": 0, "budget_bytes": 1 << 30}
    stock.image("load", layout(place / "layout", {
        "localhost/a:1": Image(busybox()),
        "localhost/b:1": Image(busybox(), Tree().file("big", os.urandom(1 << 20)).data)})).ok()
    told, rows = doctor(stock)
    images = told["images"]
    assert images["count"] == 2
    # The layer that both have once.
    lowest = os.stat("/bin/busybox").st_size + (1 << 20)
    assert lowest <= images["bytes"] < lowest + (1 << 20)
    assert rows["images"]["ok"] and rows["images"]["how"].startswith("2, ")
    assert f"of 1 GiB, in {stock.store}" in rows["images"]["how"]
    assert not any(rows[name]["required"] for name in ("images", "owners in images", "writable images"))
    assert stock.cay("doctor", config=stock.config).text.count(str(stock.store)) == 1


def test_what_it_says_is_so(stock, place):
    """Where it says that roots can be writable, they are."""
    _, rows = doctor(stock)
    assert rows["owners in images"]["ok"] and rows["writable images"]["ok"], rows
    assert rows["owners in images"]["how"] == ("idmapped mount" if stock.who == "root" else "one id: your own")
    stock.image("load", layout(place / "layout", {"localhost/a:1": Image(busybox())})).ok()
    assert stock.sh("localhost/a:1", "echo new >/new; cat /new", "--writable", "--user", "root") == "new\n"


@pytest.fixture
def plain(root_stock, place, root):
    """A store on a file system that can't show owners as others."""
    made = place / "ramfs"
    made.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "ramfs", made], check=True)
    root_stock.store = made / "store"
    root_stock.configure("")
    yield root_stock
    subprocess.run(["umount", made], check=True)


@pytest.mark.parametrize("made", [False, True])
def test_a_file_system_that_can_not(plain, made):
    """Also before there is a store: where it would be."""
    if made:
        plain.image("prune").ok()
    told, rows = doctor(plain)
    for name in ("owners in images", "writable images"):
        assert not rows[name]["ok"] and rows[name]["reason"] and rows[name]["todo"], rows[name]
    assert "[images] store" in rows["owners in images"]["todo"]
    assert told["ok"] == all(row["ok"] for row in rows.values() if row["required"])


def test_a_store_of_others(root_stock, root):
    root_stock.store.mkdir()
    os.chown(root_stock.store, 4321, 4321)
    _, rows = doctor(root_stock)
    assert not rows["images"]["ok"] and "belongs to others" in rows["images"]["reason"]
    assert "[images] store" in rows["images"]["todo"]
