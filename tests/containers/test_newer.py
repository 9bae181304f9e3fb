"""The Docker of the next Debian, which takes newer versions of the API: what is of the API is the same there."""

import json

from test_calls import check_every_call


def test_every_call(newer_docker, tmp_path):
    check_every_call(newer_docker, tmp_path, 44)


def test_doctor(cay, newer_docker):
    rows = json.loads(cay("doctor", "--json", env=newer_docker.environment).out)["engines"]
    [row] = [row for row in rows if row["engine"] == "docker"]
    assert row["usable"] and int(row["version"].split(".")[0]) >= 26 and row["api"] == "1.44"
