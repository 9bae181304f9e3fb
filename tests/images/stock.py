"""cay with a store of its own, and what tests look for in that."""

import json
import os
import urllib.parse


class Stock:
    def __init__(self, cay, place, who, settings=""):
        self.cay, self.place, self.who = cay, place, who
        self.store, self.config = place / "store", place / "images.conf"
        self.configure(settings)

    def configure(self, settings):
        """More lines for its settings; [images] is the section they begin in."""
        self.config.write_text(f"[images]\nstore = {self.store}\n{settings}")
        self.config.chmod(0o644)

    # cay

    def image(self, *args, **more):
        more.setdefault("timeout", 60)
        return self.cay("image", *args, config=self.config, **more)

    def start(self, *args, **more):
        return self.cay.start(*args, config=self.config, **more)

    def run(self, image, *args, **more):
        # No cgroups are delegated to the ordinary user.
        degraded = ["--allow-degraded"] if self.who == "user" else []
        return self.cay.run(*degraded, "--image", image, *args, config=self.config, **more)

    def sh(self, image, line, *options, **more):
        """What a line of shell printed that must succeed."""
        return self.run(image, *options, "--", "/bin/sh", "-c", line, **more).ok().text

    # Its files

    def names(self):
        """{reference in full: id}"""
        try:
            return {urllib.parse.unquote(path.name): path.read_text().strip()
                    for path in (self.store / "names").iterdir()}
        except FileNotFoundError:
            return {}

    def id(self, name):
        """Of the one that has it in its name."""
        found = {value for key, value in self.names().items() if name in key}
        assert len(found) == 1, (name, self.names())
        return found.pop()

    def record(self, name):
        return json.loads((self.store / "records" / f"{self.id(name)}.json").read_text())

    def root(self, name):
        return self.store / "roots" / self.id(name)

    def files(self, name, below):
        """{name: content, None of a directory} of what is in the root at and below that."""
        root, found = self.root(name), {}
        for directory, _, files in os.walk(root / below):
            here = os.path.relpath(directory, root)
            found[here] = None
            found |= {f"{here}/{file}": (root / here / file).read_text() for file in files}
        return found

    def owner(self, name, path):
        """(uid, gid) as the image has them; root's stores are of ids that nobody else has."""
        stat, top = os.lstat(self.root(name) / path), os.lstat(self.root(name))
        assert top.st_uid > 1 << 30
        return stat.st_uid - top.st_uid, stat.st_gid - top.st_gid

    def entries(self, part):
        try:
            return sorted(os.listdir(self.store / part))
        except FileNotFoundError:
            return []

    def check(self, images=None):
        """Nothing is half there: each name has a record, each record a root and its layers, and no more."""
        ids = set(self.names().values())
        if images is not None:
            assert len(self.names()) == images, self.names()
        assert {f"{i}.json" for i in ids} <= set(self.entries("records"))
        assert ids <= set(self.entries("roots"))
        for i in ids:
            record = json.loads((self.store / "records" / f"{i}.json").read_text())
            assert set(record["layers"]) <= set(self.entries("layers")), record
        assert not self.entries("staging")

    def nothing(self):
        """Not even half of something, but for what was downloaded."""
        for part in ("names", "records", "roots", "staging"):
            assert self.entries(part) == [], part
