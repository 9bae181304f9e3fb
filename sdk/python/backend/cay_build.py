"""Builds wheel and sdist with the standard library alone (PEP 517), so that it works offline.

A wheel carries the static program `cay`: the one CAY_BINARY names, or build/cay of the source tree. It needs no
libc at all, so the wheel is for every Linux of its processor. Where there is none, as from an sdist, the wheel is
for any machine and has the library alone.
"""

import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import struct
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parents[1]
NAME, FILE_NAME = "cay-sandbox", "cay_sandbox"
VERSION = re.search(r'^version = "(.+)"$', (HERE / "pyproject.toml").read_text(), re.M)[1]
TAGS = {  # by the machine of an ELF file
    62: ["manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"],
    183: ["manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"],
}
METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: Runs code that nobody has read yet in a sandbox: Python client of cay, with the program inside
License: Apache-2.0
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

"""
# Zip has no year before 1980; builds of the same tree are the same.
WHEN = (1980, 1, 1, 0, 0, 0)


def metadata():
    return METADATA + (HERE / "README.md").read_text()


def program():
    """The bytes of the static binary, and the tags of machines that it runs on; None."""
    named = os.environ.get("CAY_BINARY")
    path = pathlib.Path(named) if named else HERE.parents[1] / "build" / "cay"
    if not named and not path.exists():
        return None
    data = path.read_bytes()
    machine = struct.unpack_from("<H", data, 18)[0] if data[:5] == b"\x7fELF\x02" else None
    if machine not in TAGS or b"ld-linux" in data[:4096] or b"ld-musl" in data[:4096]:
        raise SystemExit(f"{path} is no static program of a machine that wheels are made for")
    return data, TAGS[machine]


def sources():
    return sorted(p for p in (HERE / "cay").rglob("*") if p.suffix == ".py" or p.name == "py.typed")


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    found = program()
    tags = found[1] if found else ["any"]
    info = f"{FILE_NAME}-{VERSION}.dist-info"
    files = [(str(p.relative_to(HERE)), p.read_bytes(), 0o644) for p in sources()]
    if found:
        files.append(("cay/bin/cay", found[0], 0o755))
    wheel = "".join(f"Tag: py3-none-{tag}\n" for tag in tags)
    files += [(f"{info}/{name}", text.encode(), 0o644) for name, text in (
        ("METADATA", metadata()),
        ("WHEEL", f"Wheel-Version: 1.0\nGenerator: cay_build\nRoot-Is-Purelib: {str(not found).lower()}\n{wheel}"),
        *([("entry_points.txt", "[console_scripts]\ncay = cay._local:main\n")] if found else []))]
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, data, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files.append((f"{info}/RECORD", record.getvalue().encode(), 0o644))
    target = f"{FILE_NAME}-{VERSION}-py3-none-{'.'.join(tags)}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, WHEN)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return target


def build_sdist(sdist_directory, config_settings=None):
    top = f"{FILE_NAME}-{VERSION}"
    names = [*sources(), HERE / "pyproject.toml", HERE / "README.md", HERE / "backend" / "cay_build.py"]
    files = [(str(p.relative_to(HERE)), p.read_bytes()) for p in names] + [("PKG-INFO", metadata().encode())]
    target = f"{top}.tar.gz"
    with tarfile.open(pathlib.Path(sdist_directory) / target, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files:
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return target
