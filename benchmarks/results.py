"""Everything that was measured so far."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import attrs

from .brokers import KAFKA, TIDELOG
from .ratios import Ratio
from .rows import OTHER_SHARE, Better
from .summaries import Summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .rows import Row, Sample, Verdict

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
    _errors: dict[tuple[str, str], str] = attrs.field(factory=dict[tuple[str, str], str])

    def add(self, subject: str, samples: Iterable[Sample]) -> None:
        """Keep samples of one subject."""
        for sample in samples:
            self._samples.setdefault((sample.row, subject), []).append(sample)

    def fail(self, subject: str, rows: Iterable[Row], title: str, error: str) -> None:
        """Keep the error of a slice. The caller measures no further slice of these rows on this subject."""
        self.failures.append(f"{title}: {error}")
        for row in rows:
            self._errors[row.name, subject] = error

    @property
    def measured(self) -> list[Row]:
        """The rows with samples, and those whose first slice has failed."""
        return [row for row in self.rows if self.subjects(row.name) or self.errors(row.name)]

    def samples(self, row: str, subject: str) -> list[Sample]:
        """In the order of measuring; empty when there are none."""
        return self._samples.get((row, subject), [])

    def errors(self, row: str) -> dict[str, str]:
        """What ended the slices of a row, by subject."""
        return {subject: error for (name, subject), error in self._errors.items() if name == row}

    def subjects(self, row: str) -> list[str]:
        """Who has samples of a row."""
        return [subject for name, subject in self._samples if name == row]

    def summary(self, row: str, subject: str) -> Summary | None:
        """Over all slices; None when there are none."""
        values = self._values(row, subject)
        return Summary.of(values) if values else None

    def _values(self, row: str, subject: str) -> list[float]:
        return [sample.value for sample in self.samples(row, subject)]

    def other_share(self, row: str, subject: str) -> float | None:
        """The median share of the machine that other processes took in the slices of a row."""
        return self.median_detail(row, subject, OTHER_SHARE)

    def median_detail(self, row: str, subject: str, key: str) -> float | None:
        """The median of what explains samples; None when none of them has it."""
        details = (sample.details.get(key) for sample in self.samples(row, subject))
        values = [value for value in details if isinstance(value, float)]
        return statistics.median(values) if values else None

    def ratio(self, row: str) -> Ratio | None:
        """Compare tidelog's slices with their neighbours of the peer, or of the best package."""
        beside = self._beside(row)
        if beside is None:
            return None
        return Ratio.of(self._values(row, TIDELOG), self._values(row, beside))

    def _beside(self, name: str) -> str | None:
        """Return the subject that tidelog is compared with."""
        row = next((row for row in self.rows if row.name == name), None)
        subjects = (row.packages if row else ()) or (self.peer,)
        medians = {subject: found.median for subject in subjects if (found := self.summary(name, subject))}
        best = max if row and row.better is Better.HIGHER else min
        return best(medians, key=medians.__getitem__, default=None)

    def share_of_limit(self, row: Row, subject: str) -> float | None:
        """A broker's median as a share of what the machine reaches without one."""
        limit = self.summary(row.limit, MACHINE) if row.limit else None
        figure = self.summary(row.name, subject)
        return figure.median / limit.median if limit and figure and limit.median else None

    def verdicts(self, row: Row) -> list[Verdict | None]:
        """Return for each target of the row what is known of it.

        None without Apache Kafka to compare with, and when a slice of the row has failed.
        """
        if self.errors(row.name) or (self.peer != KAFKA and not row.packages):
            return [None for _ in row.targets]
        ours = self.summary(row.name, TIDELOG)
        value = ours.median if ours else None
        return [target.verdict(value, self.ratio(row.name)) for target in row.targets]
