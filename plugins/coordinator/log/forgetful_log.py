"""A state log that keeps nothing: what is in memory is all there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.errors import NotCoordinator
from tidelog.kernel.partition.partition import AppendResult
from tidelog.kernel.seams.coordination.loading import LoadProgress
from tidelog.plugins.coordinator.log.state_log import LogReader, StateRecord

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.log.relocation import RelocationPolicy


class ForgetfulLog:
    """One partition, always there, always empty; its offsets only count."""

    def __init__(self) -> None:
        self.progress = LoadProgress()
        self._next_offset = 0
        self._open = False

    @property
    def partition_count(self) -> int:
        """One: nothing is gained by more."""
        return 1

    def check_active(self, partition: int) -> None:
        """See `StateLog`."""
        if not self._open:
            raise NotCoordinator("the coordinator is not open")

    def append(
        self, partition: int, records: Sequence[StateRecord], *, producer: tuple[int, int] | None = None
    ) -> AppendResult:
        """See `StateLog`."""
        self.check_active(partition)
        base_offset = self._next_offset
        self._next_offset += len(records)
        return AppendResult(base_offset, self._next_offset - 1, -1)

    async def committed(self, partition: int, result: AppendResult) -> None:
        """See `StateLog`."""

    async def flush(self, partition: int) -> None:
        """See `StateLog`."""

    async def wait_loaded(self) -> bool:
        """See `StateLog`."""
        return True

    async def ensure(self) -> None:
        """See `StateLog`."""

    def open(self, reader: LogReader, relocation: RelocationPolicy | None = None) -> None:
        """See `StateLog`."""
        self._open = True
        reader.loaded(0)

    def close(self) -> None:
        """See `StateLog`."""
        self._open = False
