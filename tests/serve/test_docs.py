"""The examples of docs/serve.md, docs/contexts.md and docs/settings.md run as they stand."""

import os
import pathlib
import re
import subprocess

import pytest

from support import CAY

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCKS = [block for page in ("serve.md", "contexts.md", "settings.md")
          for block in re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.M | re.S)]


def test_there_are_examples():
    assert len(BLOCKS) >= 6


@pytest.mark.parametrize("daemon", ["root"], indirect=True)
@pytest.mark.parametrize("block", BLOCKS, ids=[b.splitlines()[0][:60] for b in BLOCKS])
def test_example(daemon, block, tmp_path):
    env = {**os.environ, "CAY_SOCKET": str(daemon.socket), "CAY_HOST": f"unix:{daemon.socket}",
           "PATH": f"{pathlib.Path(CAY).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], env=env, cwd=tmp_path,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert '"error":{' not in done.stdout, done.stdout
    assert done.stdout
