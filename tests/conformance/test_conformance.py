"""The same requests give the same results, however they are asked for: every field of them."""

import concurrent.futures
import json
import os

import pytest

from cases import CASES

SHOWN = 200  # characters on both sides of where two values part


def parting(want, got):
    """The two values as text, where they are no longer the same."""
    texts = [json.dumps(value, ensure_ascii=False) for value in (want, got)]
    at = len(os.path.commonprefix(texts))
    return [text[max(0, at - SHOWN):at + SHOWN] for text in texts]


def expected(first, case, way):
    """The first way's answer, with what is otherwise by design."""
    _, own = case.differs.get(way.name, ("", {}))
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
    asked = [way for way in ways if (way.is_island or not case.island) and way.name not in case.never]
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
