"""The recipe in images/agent: its packages are Debian's; and with CAY_SOAK=1 the image is built and used (minutes)."""

import json
import shutil
import subprocess

from support import ROOT, SOAK, must_work

RECIPE = ROOT / "images" / "agent"
MODULES = ["requests", "httpx", "numpy", "pandas", "matplotlib"]


def test_packages_are_known():
    if not shutil.which("apt-cache"):
        must_work("no apt here")
    wanted = (RECIPE / "packages").read_text().split()
    known = subprocess.run(["apt-cache", "show", "--no-all-versions", *wanted], capture_output=True, text=True).stdout
    assert {line.split()[1] for line in known.splitlines() if line.startswith("Package: ")} == set(wanted)
    assert {f"python3-{name}" for name in MODULES} <= set(wanted)


if SOAK:
    def test_built_and_used(root_stock, place):
        # Its mounts are nobody else's to see.
        subprocess.run(["unshare", "--mount", RECIPE / "build", place / "agent.tar"], check=True, timeout=900)
        root_stock.image("import", "agent", place / "agent.tar", timeout=300).ok()
        code = f"""import getpass, io, json, {', '.join(MODULES)}
import matplotlib.pyplot as plt
plt.plot(pandas.Series(numpy.arange(9)) ** 2)
out = io.BytesIO()
plt.savefig(out, format='png')
print(json.dumps([getpass.getuser(), out.getvalue()[:4].hex()]))"""
        assert json.loads(root_stock.run("agent", "-c", code, timeout=120).ok().text) == ["agent", "89504e47"]
