"""The client of engines' API, one call after the other, on real ones."""

import io
import os
import pathlib
import subprocess
import tarfile

from engines import IMAGE
from support import ROOT

CALLS = os.environ.get("CAY_ENGINE_CALLS", str(ROOT / "build-test" / "tests" / "engine_calls"))


def note():
    """A tar with a file in it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo("note")
        entry.size = 7
        tar.addfile(entry, io.BytesIO(b"a line\n"))
    return out.getvalue()


def check_every_call(engine, tmp_path, api):
    (tmp_path / "tar").write_bytes(note())
    done = subprocess.run([CALLS, engine.name, engine.socket, IMAGE, "cay.test"], capture_output=True, text=True,
                          env={**os.environ, "USR": "1", "TAR": str(tmp_path / "tar")}, timeout=300, check=False)
    assert not done.stderr, done.stderr
    assert done.returncode == 0
    assert done.stdout == f"1.{api}\n"
    engine.settle()
    assert engine.containers("label=cay.test") == []


def test_every_call(engine, tmp_path):
    check_every_call(engine, tmp_path, 41)
