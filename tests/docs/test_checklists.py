"""Each ticked row of a checklist names a module that has the behaviour, and tests that prove it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.examples import DOCS

ROOT = DOCS.parent
ROWS = re.compile(r"^\| ✔ \| (?P<what>.+) \| (?P<places>.+) \| (?P<proofs>.+) \|$", re.MULTILINE)
PLACE = re.compile(r"`([\w/]+(?:\.py)?)`")
PROOF = re.compile(r"`(test_\w+\.py)`")
FOLDERS = {
    "groups": "plugins/coordinator",
    "protocol": "plugins/protocol_kafka",
    "storage": "plugins/storage_file",
    "transactions": "plugins/coordinator",
}
"""Where the places of a page are that begin with neither `kernel/` nor `plugins/`."""


@pytest.mark.parametrize("page", sorted(FOLDERS))
def test_checklist_names_modules_and_tests_that_exist(page: str) -> None:
    rows = list(ROWS.finditer((DOCS / f"{page}.md").read_text()))
    assert rows
    missing = [problem for row in rows for problem in _missing(row, FOLDERS[page])]
    assert missing == []


def _missing(row: re.Match[str], folder: str) -> Iterator[str]:
    places, proofs = PLACE.findall(row["places"]), PROOF.findall(row["proofs"])
    # What a whole broker does has no place of its own.
    if not places and row["places"] != "–":
        yield f"no place: {row['what']}"
    if not proofs:
        yield f"no test: {row['what']}"
    for place in places:
        if not (ROOT / place).exists() and not (ROOT / folder / place).exists():
            yield f"{place}: {row['what']}"
    for proof in proofs:
        if not list((ROOT / "tests").rglob(proof)):
            yield f"{proof}: {row['what']}"
