"""The scanner of records, compiled and from its source: they have to say the same of any batch.

The fuzzer follows the source, so that its inputs reach every branch of what is compiled.
`scripts/sanitize_scanner.sh` then gives them to a scanner that is compiled with sanitizers.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.kernel.records.compare_builds import difference, sample_of
from tests.kernel.records.odd_batches import sample

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_SEEDS = 60


class ScannerBuilds:
    """Both builds of the scanner."""

    def __enter__(self) -> ScannerBuilds:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def seeds(self) -> Sequence[bytes]:
        """Return batches of each codec and kind, good and spoiled, for topics of all kinds."""
        dice = random.Random(_SEEDS)
        return [bytes([dice.randrange(8)]) + sample(dice).batch for _ in range(_SEEDS)]

    def run(self, data: bytes) -> None:
        """Validate and read one batch with both.

        Raises:
            AssertionError: they differ.
        """
        found = difference(sample_of(data))
        assert found is None, found
