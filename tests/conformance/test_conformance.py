"""The same requests give the same results, however they are asked for: every field of them."""

import concurrent.futures
import json
import os

import pytest

import in_containers
from cases import CASES

SHOWN = 200  # characters on both sides of where two values part


def parting(want, got):
    """The two values as text, where they are no longer the same."""
    texts = [json.dumps(value, ensure_ascii=False) for value in (want, got)]
    at = len(os.path.commonprefix(texts))
    return [text[max(0, at - SHOWN):at + SHOWN] for text in texts]


def expected(first, case, way):
    """The first way's answer, with what is otherwise by design."""
    _, own = case.differs.get(way.name) or way.otherwise.get(case.name, ("", {}))
    answer = dict(first)
    changed = own if "error" in first else {**way.by_design, **own}
    for name, value in changed.items():
        answer[name] = value(first[name]) if callable(value) else value
    return answer


def differences(want, got):
    for name in sorted(set(want) | set(got)):
        values = [answer.get(name, "(not there)") for answer in (want, got)]
        if values[0] != values[1]:
            yield name, *parting(*values)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same(case, ways):
    asked = [way for way in ways if (way.is_island or not case.island) and way.name not in case.never
             and way.otherwise.get(case.name, ("", {}))[1] is not None]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda way: way.answer(case.request), asked))
    first = answers[0]
    about = first.get("error", first)
    assert {name: about.get(name) for name in case.shows} == case.shows, about
    wrong = [f"{way.name}: {name}\n  want {want}\n  got  {got}" for way, answer in zip(asked, answers)
             for name, want, got in differences(expected(first, case, way), answer)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_names_are_unique():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_what_is_otherwise_in_containers():
    """Each row is about a case there is, and the table in the documents is made of them."""
    names = {case.name for case in CASES} | set(in_containers.HAS_NOT)
    assert set(in_containers.OTHERWISE) <= names
    text = in_containers.DOCS.read_text()
    assert in_containers.with_table(text) == text, "tests/conformance/in_containers.py --write"
