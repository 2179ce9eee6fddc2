"""Everything that was measured so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .brokers import KAFKA, TIDELOG
from .rows import Better
from .summaries import Summary, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .rows import Row, Sample

MACHINE = "machine"


@attrs.define
class Results:
    """Samples by row and by what was measured: a broker's key, or `machine` for its limits.

    `peer` is the key of the broker that ratios divide by.
    """

    rows: Sequence[Row]
    peer: str = KAFKA
    failures: list[str] = attrs.field(factory=list[str])
    _samples: dict[tuple[str, str], list[Sample]] = attrs.field(factory=dict[tuple[str, str], "list[Sample]"])

    def add(self, subject: str, samples: Iterable[Sample]) -> None:
        """Keep samples of one subject."""
        for sample in samples:
            self._samples.setdefault((sample.row, subject), []).append(sample)

    def samples(self, row: str, subject: str) -> list[Sample]:
        """In the order of measuring; empty when there are none."""
        return self._samples.get((row, subject), [])

    def subjects(self, row: str) -> list[str]:
        """Who has samples of a row."""
        return [subject for name, subject in self._samples if name == row]

    def summary(self, row: str, subject: str) -> Summary | None:
        """Over all repeats; None when there are none."""
        samples = self.samples(row, subject)
        return Summary.of([sample.value for sample in samples]) if samples else None

    def ratio(self, row: str) -> float | None:
        """Return tidelog's median as a multiple of the peer's; None when one is missing."""
        ours, theirs = self.summary(row, TIDELOG), self._beside(row)
        return ratio(ours.median, theirs) if ours and theirs is not None else None

    def _beside(self, name: str) -> float | None:
        """Return the median that tidelog's is divided by: the peer's, or that of the best package."""
        row = next((row for row in self.rows if row.name == name), None)
        subjects = (row.packages if row else ()) or (self.peer,)
        medians = [found.median for subject in subjects if (found := self.summary(name, subject))]
        best = max if row and row.better is Better.HIGHER else min
        return best(medians, default=None)

    def share_of_limit(self, row: Row, subject: str) -> float | None:
        """A broker's median as a share of what the machine reaches without one."""
        limit = self.summary(row.limit, MACHINE) if row.limit else None
        figure = self.summary(row.name, subject)
        return ratio(figure.median, limit.median) if limit and figure else None

    def verdicts(self, row: Row) -> list[bool | None]:
        """Return for each target of the row whether it is met; None without Apache Kafka to compare with."""
        if self.peer != KAFKA and not row.packages:
            return [None for _ in row.targets]
        ours = self.summary(row.name, TIDELOG)
        value = ours.median if ours else None
        return [target.is_met(value, self.ratio(row.name)) for target in row.targets]
