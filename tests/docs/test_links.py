"""Pages in docs/ link to what exists."""

from __future__ import annotations

import re

from tests.docs.examples import DOCS
from tests.tables import for_each

LINKS = [
    (page.name, target)
    for page in sorted(DOCS.glob("*.md"))
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text())
    if "://" not in target
]


@for_each(("page", "target"), LINKS)
def test_a_link_leads_somewhere(page: str, target: str) -> None:
    assert (DOCS / page).parent.joinpath(target).exists()
