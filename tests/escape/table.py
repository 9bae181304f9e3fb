"""What the attacks came to, as lines for the terminal and as the table in README.md."""

import collections
import dataclasses
import pathlib
import re

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- attacks: made by `make attacks` -->", "<!-- /attacks -->"


@dataclasses.dataclass
class Outcome:
    """One test, over all its parameters."""

    number: int
    tried: str
    ends: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    happened: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, end, happened):
        self.ends[end] += 1
        self.happened += happened

    def __str__(self):
        words = [f"{word} ×{n}" if n > 1 else word for word, n in sorted(self.happened.items())]
        for end, said in (("limit", "WORKS, a known limit"), ("skipped", "not tried here"),
                          ("failed", "FAILED")):
            if self.ends[end]:
                words.append(f"{said} ×{self.ends[end]}" if self.ends[end] > 1 else said)
        tried = " ".join((self.tried or "?").split()).rstrip(".")
        return f"{self.number:3}  {tried}: {', '.join(words) or 'held'}"


def lines(outcomes):
    """One for each attack, and the count."""
    outcomes = sorted(outcomes, key=lambda o: o.number)
    ends = collections.Counter()
    for o in outcomes:
        ends["failed" if o.ends["failed"] else "limit" if o.ends["limit"] else
             "passed" if o.ends["passed"] else "skipped"] += 1
        yield str(o)
    yield (f"{len(outcomes)} attacks of {len({o.number for o in outcomes})} numbers: "
           f"{ends['passed']} refused or held, {ends['limit']} known limits, "
           f"{ends['skipped']} not tried, {ends['failed']} failed")


def table(attacks, counts):
    """The table in Markdown; counts: how many tests each number has."""
    yield "| | What the program tries | What it gets | Tests |"
    yield "|---|---|---|---|"
    for family, numbers in attacks.items():
        yield f"| | **{family}** | | |"
        for number, (tried, gets) in numbers.items():
            yield f"| {number} | {tried} | {gets} | {counts[number]} |"


def written():
    """The lines between the marks in README.md."""
    text = README.read_text()
    return text[text.index(BEGIN) + len(BEGIN):text.index(END)].strip().splitlines()


def write_table(attacks, outcomes):
    """Puts the table into README.md, unless an attack was not tried or not refused."""
    outcomes = list(outcomes)
    missing = {n for family in attacks.values() for n in family} - {o.number for o in outcomes}
    if missing or any(o.ends["failed"] or o.ends["skipped"] for o in outcomes):
        return f"README.md is as it was: not all attacks were tried and refused {sorted(missing) or ''}"
    new = "\n".join(table(attacks, collections.Counter(o.number for o in outcomes)))
    text = README.read_text()
    README.write_text(re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n{new}\n{END}",
                             text, flags=re.S))
    return "README.md has the table"
