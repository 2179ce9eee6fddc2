"""How far what coordinators remember has been read back."""

from __future__ import annotations

import attrs


@attrs.define
class LoadProgress:
    """Counts of partitions, records and bytes; `milliseconds` is how long it has taken, once it is done."""

    partitions: int = 0
    loaded_partitions: int = 0
    records: int = 0
    bytes: int = 0
    milliseconds: int = 0

    @property
    def done(self) -> bool:
        """Whether everything that had to be read was read."""
        return self.loaded_partitions == self.partitions
