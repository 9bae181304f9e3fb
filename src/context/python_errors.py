"""A part of python.py: exceptions as they are reported."""

import re
import traceback

NAME_MAX = 1000
TEXT_MAX = 256 << 10  # characters of an exception's value, and of its traceback

# What traceback makes of a frame in a cell: its file's name is the cell's, the module has no name.
CELL_LINE = re.compile(r'^(\W*)File "(Cell In\[\d+\](?: %+\w+)?)", line (\d+)(?:, in (?:<module>|<cell line: \d+>))?(?=$|,)', re.M)


def shortened(text):
    if len(text) <= TEXT_MAX:
        return text
    half = TEXT_MAX // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters were left out ...\n{text[-half:]}"


def is_cell(frame):
    return frame.filename.startswith("Cell In[")


def without_driver(report, seen):
    """Takes our frames out, and what is between them and the cell, as asyncio's; of all that is chained."""
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    stack = report.stack
    first = next((n for n, frame in enumerate(stack) if is_cell(frame)), 0) if stack and \
        stack[0].filename == SOURCE else 0
    stack[:] = [frame for frame in stack[first:] if frame.filename != SOURCE]
    for other in (report.__cause__, report.__context__, *(getattr(report, "exceptions", None) or ())):
        without_driver(other, seen)


def formatted(error):
    report = traceback.TracebackException(type(error), error, error.__traceback__)
    without_driver(report, set())
    return CELL_LINE.sub(r"\1\2, line \3", "".join(report.format()))


def value_of(error):
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


def described(error):
    try:
        text = formatted(error)
    except Exception as failure:  # an exception whose parts raise themselves
        text = f"{type(error).__name__}\n(and its traceback can't be shown: {type(failure).__name__})\n"
    return {"name": type(error).__name__[:NAME_MAX], "value": shortened(value_of(error)), "traceback": shortened(text)}


def complain(error):
    """About what went wrong beside the cell, as in a _repr_html_()."""
    sys.stderr.write(described(error)["traceback"])
