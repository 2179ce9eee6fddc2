"""The log of one partition in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from tidelog.kernel.seams.storage.batch_list_store import BatchListStore
from tidelog.kernel.seams.storage.batch_lists import ListedBatch, ListedSegment, LogChange

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.records.batch import Buffer
    from tidelog.kernel.seams.storage import AbortedTransaction


class MemoryPartitionStore(BatchListStore):
    """`PartitionStore` in memory: the place of a batch is its bytes, and nothing here blocks."""

    def __init__(self, config: TopicConfig, now_ms: Callable[[], int]) -> None:
        """Create an empty log."""
        super().__init__(config, now_ms)
        self._side_files: dict[str, bytes] = {}

    def keep_batch(
        self, segment: ListedSegment, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int
    ) -> bytes:
        """Return a copy of the bytes."""
        return bytes(batch)

    def batch_bytes(self, batch: ListedBatch) -> bytes:
        """Return the bytes, which are there."""
        return cast("bytes", batch.place)

    def keep_aborted(self, segment: ListedSegment, aborted: AbortedTransaction) -> None:
        """Do nothing: the list of the segment has it."""

    def commit(self, change: LogChange) -> None:
        """Do nothing: the lists are all that there is."""

    def side_files(self) -> Sequence[str]:
        """Return the names of the side files, sorted."""
        return sorted(self._side_files)

    def read_side_file(self, name: str) -> bytes | None:
        """Return the content of a side file, None when there is none."""
        return self._side_files.get(name)

    def write_side_file(self, name: str, content: bytes) -> None:
        """Replace a side file."""
        self._side_files[name] = content

    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        """Remove a side file; no error when there is none."""
        del durable
        self._side_files.pop(name, None)
