"""The site of the pages in docs/ has all of them, and no link leads out of it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.examples import DOCS

ROOT = Path(__file__).parents[2]


def test_every_page_is_once_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    pages = re.findall(r"- ([\w-]+\.md)$", navigation, re.MULTILINE)
    assert sorted(pages) == sorted(page.name for page in DOCS.glob("*.md"))
