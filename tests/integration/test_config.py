"""Settings: where they come from, what is in force, and what is said when they are wrong."""

import os

import pytest

from support import OURS


def test_show_defaults(cay):
    lines = dict(line.split(" = ", 1) for line in cay("config", "show").ok().text.splitlines())
    values = {k.strip(): v.split("#")[0].strip() for k, v in lines.items()}
    assert values["limits.memory"] == "512m" and values["limits.pids"] == "50"
    assert values["limits.timeout"] == "60s" and values["limits.disk"] == "100m"
    assert values["limits.cpus"] == "1" and values["engine.direct"] == "yes"
    assert all("# default" in v for v in lines.values())


def test_show_says_where_from(cay, config):
    conf = config("[limits]\nmemory = 1g\n[mounts]\nread = /srv/a\nread = ~/b\n")
    shown = cay("config", "show", "--json", config=conf).ok().json
    rows = {(r["section"], r["key"], r["value"]): r["origin"] for r in shown}
    assert rows["limits", "memory", "1g"] == f"{conf}:2"
    assert rows["limits", "pids", "50"] == "default"
    assert rows["mounts", "read", "/srv/a"] == f"{conf}:4" and rows["mounts", "read", "~/b"] == f"{conf}:5"


def test_later_file_overrides(cay, config, scratch):
    own = scratch / "home" / ".config" / "cay"
    own.mkdir(parents=True)
    try:
        (own / "cay.conf").write_text("[limits]\nmemory = 100m\npids = 9\n[mounts]\nread = /a\n")
        conf = config("[limits]\nmemory = 200m\n[mounts]\nread = /b\n")
        rows = {(r["key"], r["value"]) for r in cay("config", "show", "--json", config=conf).json}
        assert {("memory", "200m"), ("pids", "9"), ("read", "/a"), ("read", "/b")} <= rows
        shown = cay("config", "path", config=conf).ok().text.splitlines()
        assert [line.split()[0] for line in shown] == ["/etc/cay/cay.conf", str(own / "cay.conf"), str(conf)]
        assert shown[1].endswith("found") and shown[2].endswith("found")
    finally:
        (own / "cay.conf").unlink()
        own.rmdir()
        own.parent.rmdir()


def test_xdg_config_home(cay, place):
    (place / "cay").mkdir()
    (place / "cay" / "cay.conf").write_text("[limits]\npids = 11\n")
    rows = cay("config", "show", "--json", env={"XDG_CONFIG_HOME": str(place)}).ok().json
    assert [r["value"] for r in rows if (r["section"], r["key"]) == ("limits", "pids")] == ["11"]


def test_path_without_files(cay):
    assert "absent" in cay("config", "path").ok().text


def test_check(cay, config):
    conf = config("[limits]\nmemory = 1g\n")
    assert cay("config", "check", config=conf).ok().text == f"ok {conf}\n"


def test_the_example_is_right(cay, config):
    from support import ROOT
    example = (ROOT / "packaging" / "cay.conf").read_text()
    cay("config", "check", config=config(example)).ok()
    # And so it is with every key switched on.
    live = "\n".join(line[1:] if line[:1] == "#" and line[1:2] not in ("", " ") and " = " in line else line
                     for line in example.splitlines())
    done = cay("config", "check", config=config(live))
    assert done.rc == 0, done.errors


WRONG = {
    "section": ("[limit]\nmemory = 1g\n", 1, "did you mean 'limits'"),
    "key": ("[limits]\n\nmemmory = 1g\n", 3, "did you mean 'memory'"),
    "size": ("[limits]\nmemory = lots\n", 2, "a size such as 512m"),
    "number": ("# x\n[limits]\npids = 1.5\n", 3, "a whole number"),
    "zero": ("[limits]\nmemory = 0\n", 2, "memory"),
    "bool": ("[engine]\ndirect = maybe\n", 2, "yes or no"),
    "relative path": ("[mounts]\nread = srv\n", 2, "absolute"),
    "dots": ("[mounts]\nforbid = /srv/../etc\n", 2, "without '..'"),
    "language": ("[language klingon]\nprefer = 1\n", 1, "klingon"),
    "version": ("[language python]\nprefer = new\n", 2, "a version such as 3.12"),
    "count": ("[serve]\nmax_runs = many\n", 2, "a number from 0 to 10000"),
    "host": ("[serve]\nhost = Example.org:80\n", 2, "a host name"),
    "mode": ("[serve]\nmode = some\n", 2, "all, selective or off"),
    "user": ("[serve]\ndirect_user = a b\n", 2, "a user's name or number"),
    "root": ("[serve]\ndirect_user = root\n", 2, "nothing runs as root"),
    "root's number": ("[serve]\ndirect_user = 00\n", 2, "nothing runs as root"),
    "no section": ("memory = 1g\n", 1, "before the first"),
    "no equals": ("[limits]\nmemory\n", 2, ""),
}


@pytest.mark.parametrize("text, line, words", WRONG.values(), ids=WRONG.keys())
def test_wrong(cay, config, text, line, words):
    conf = config(text)
    for args in (("config", "check"), ("config", "show"), ("run", "--", "true"), ("runtimes",)):
        done = cay(*args, config=conf)
        assert done.rc == OURS, args
        assert f"{conf}:{line}" in done.errors and words in done.errors, done.errors
        assert len(done.said) == 1 and not done.out
    assert cay.refused("--", "true", config=conf)["code"] == "invalid_request"


def test_named_file_missing(cay):
    for args in (("config", "check"), ("config", "show"), ("run", "--", "true")):
        done = cay(*args, config="/nowhere/cay.conf")
        assert done.rc == OURS and "/nowhere/cay.conf" in done.errors and "CAY_CONFIG" in done.errors


def test_named_file_that_is_no_file(cay, place):
    os.mkfifo(place / "fifo")
    done = cay("config", "check", config=place / "fifo", timeout=5)
    assert done.rc == OURS and "not a regular file" in done.errors
    assert cay("config", "check", config=place).rc == OURS


def test_root_follows_only_roots_settings(cay, config, root):
    conf = config("[limits]\npids = 9\n")
    os.chown(conf, 1234, 1234)
    assert "not owned by root" in cay.refused("--", "true", config=conf)["message"]
    os.chown(conf, 0, 0)
    conf.chmod(0o666)
    assert "write" in cay.refused("--", "true", config=conf)["message"]
    conf.chmod(0o644)
    cay.run("--", "true", config=conf).ok()


@pytest.mark.parametrize("args", [(), ("nonsense",), ("show", "extra"), ("--nonsense",), ("path", "--json")])
def test_bad_use(cay, args):
    done = cay("config", *args)
    assert done.rc == OURS and len(done.said) == 1


def test_allow_degraded_setting_is_shown_in_the_plan(cay, config):
    conf = config("[isolation]\nallow_degraded = yes\n")
    assert cay.run("--dry-run", "--json", "--", "true", config=conf).json["dry_run"]["allow_degraded"]


def test_may_degrade_forbids_it(cay, config):
    conf = config("[isolation]\nallow_degraded = yes\nmay_degrade = no\n")
    assert not cay.run("--dry-run", "--json", "--", "true", config=conf).json["dry_run"]["allow_degraded"]
    done = cay.run("--allow-degraded", "--json", "--", "true", config=conf)
    assert done.rc == OURS and done.json["error"]["code"] == "policy_denied"
