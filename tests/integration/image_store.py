"""Image stores written by hand: names and records, as cay-image would; no files of images."""

import json
import pathlib


class ImageStore:
    def __init__(self, place):
        self.place = pathlib.Path(place)
        for name in ("names", "records"):
            (self.place / name).mkdir(parents=True, exist_ok=True)

    @property
    def settings(self):
        return f"[images]\nstore = {self.place}\n"

    def put(self, name, digit, runtimes=(), **more):
        """An image whose id is all of one digit; runtimes are (language, version, program)."""
        id = digit * 64
        record = {"id": id, "env": [], "runtimes": [dict(zip(("language", "version", "program"), r)) for r in runtimes],
                  **more}
        (self.place / "records" / f"{id}.json").write_text(json.dumps(record))
        if name:
            (self.place / "names" / name.replace("/", "%2F")).write_text(f"{id}\n")
        return id

    def put_pythons(self):
        for digit, version in ("a", "3.10.9"), ("b", "3.12.1"):
            minor = version.rsplit(".", 1)[0]
            self.put(f"docker.io/library/python:{minor}-slim", digit,
                     [("python", version, f"/usr/local/bin/python{minor}")])
