"""One behaviour that a checklist claims, how to take it out of the code, and which test then fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from pathlib import Path

_TICKED_ROW: Final = re.compile(
    r"^\| ✔ \| (?P<claim>.+) \| (?P<places>.+) \| (?P<proofs>.+) \|$", re.MULTILINE
)


class StaleRemovalError(Exception):
    """The text that a removal replaces is not in its module, or more than once."""


@attrs.frozen
class Removal:
    """`old`, which `module` has once, becomes `new`; then `test` must fail.

    `claim` is the beginning of a row of the checklist, long enough to be the only one. `test` is a path below
    `tests`, with `::name` for a single test.
    """

    claim: str
    module: str
    old: str
    new: str
    test: str

    def removed_from(self, text: str) -> str:
        """Return the module's text without the behaviour.

        Raises:
            StaleRemovalError: `old` is not there, or not once.
        """
        if (count := text.count(self.old)) != 1:
            raise StaleRemovalError(f"{self.module} has {self.old!r} {count} times: {self.claim!r}")
        return text.replace(self.old, self.new)

    @property
    def test_file(self) -> str:
        """The name of the file with the test."""
        return self.test.partition("::")[0].rpartition("/")[2]


@attrs.frozen
class Claim:
    """A ticked row of a checklist: what it claims, and the test files that it names."""

    text: str
    proofs: tuple[str, ...]


def claims_of(page: Path) -> list[Claim]:
    """Return the ticked rows of all checklists of a page of the documentation."""
    rows = _TICKED_ROW.finditer(page.read_text(encoding="utf-8"))
    return [Claim(row["claim"], tuple(re.findall(r"`(test_\w+\.py)`", row["proofs"]))) for row in rows]
