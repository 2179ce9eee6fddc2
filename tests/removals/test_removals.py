"""The tables of removals fit the pages and the code; `make removals` tries them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.removals.pages import REMOVALS
from tests.removals.removal import Removal, StaleRemovalError, claims_of
from tests.tables import for_each

ROOT = Path(__file__).parents[2]
PAGES = sorted(REMOVALS)
ALL = [removal for page in PAGES for removal in REMOVALS[page]]


@pytest.mark.parametrize("page", PAGES)
def test_each_claim_of_a_page_can_be_removed(page: str) -> None:
    claims = claims_of(ROOT / "docs" / f"{page}.md")
    unproven = [
        claim.text
        for claim in claims
        if not any(claim.text.startswith(removal.claim) for removal in REMOVALS[page])
    ]
    assert unproven == []


@pytest.mark.parametrize("page", PAGES)
def test_each_removal_belongs_to_one_claim_that_names_its_test(page: str) -> None:
    claims = claims_of(ROOT / "docs" / f"{page}.md")
    for removal in REMOVALS[page]:
        matching = [claim for claim in claims if claim.text.startswith(removal.claim)]
        assert len(matching) == 1, removal.claim
        assert removal.test_file in matching[0].proofs, removal.claim


@for_each("removal", ALL, ids=lambda removal: removal.claim[:60])
def test_removal_fits_its_module(removal: Removal) -> None:
    compile(removal.removed_from((ROOT / removal.module).read_text(encoding="utf-8")), removal.module, "exec")
    path, _, name = removal.test.partition("::")
    assert (ROOT / "tests" / path).exists()
    # A class may inherit its tests.
    if name and "::" not in name and not name.startswith("Test"):
        assert f"def {name.partition('[')[0]}(" in (ROOT / "tests" / path).read_text(encoding="utf-8")


def test_removal_that_is_stale_is_refused() -> None:
    removal = Removal("claim", "module.py", "x = 1", "pass", "test_x.py::test_y")
    assert removal.removed_from("x = 1\n") == "pass\n"
    for text in ("y = 1\n", "x = 1\nx = 1\n"):
        with pytest.raises(StaleRemovalError):
            removal.removed_from(text)
