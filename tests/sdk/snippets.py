"""What is to be run of a page, and what it prints as the page has it."""

import re

from support import ROOT


def snippets(page, language):
    """(code, what it prints or None) each."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```\n(?:^```\n(.*?)^```$)?", text, re.M | re.S)
