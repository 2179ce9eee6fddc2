"""Store of a partition whose log directory is offline: it is empty and refuses every operation."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.records.batch import BatchHeader, Buffer
    from tidelog.kernel.seams.storage import (
        AbortedTransaction,
        LogSlice,
        SegmentDraft,
        SegmentSource,
        SegmentView,
    )


class OfflineStore:
    """`PartitionStore` without files: operations that need them raise `OSError`."""

    log_directory = ""
    log_start_offset = 0
    first_segment_offset = 0
    log_end_offset = 0
    size_bytes = 0
    durable_offset = 0
    aborted_known_until = 0
    checkpointed_high_watermark = 0

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EIO, self._reason)

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        """Refuse."""
        self._refuse()

    def prepare_roll(self) -> None:
        """Refuse."""
        self._refuse()

    def roll(self) -> bool:
        """Refuse."""
        self._refuse()

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        """Refuse."""
        self._refuse()

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Refuse."""
        self._refuse()

    def aborted_transactions(
        self, from_offset: int, to_offset: int, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """Refuse."""
        self._refuse()

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        """Refuse."""
        self._refuse()

    def batch_of_max_timestamp(self) -> bytes | None:
        """Refuse."""
        self._refuse()

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Refuse."""
        self._refuse()

    def segments(self) -> Sequence[SegmentView]:
        """Return nothing: the directory cannot be read."""
        return ()

    def first_timestamp(self, base_offset: int) -> int:
        """Refuse."""
        self._refuse()

    def rewritten_until(self, policy: str) -> int | None:
        """Return nothing: the directory cannot be read."""

    def set_rewritten_until(self, policy: str, offset: int) -> None:
        """Refuse."""
        self._refuse()

    def configure(self, config: TopicConfig) -> None:
        """Do nothing: the next start takes the configuration from the metadata."""

    def truncate_to(self, offset: int) -> None:
        """Refuse."""
        self._refuse()

    def raise_log_start(self, offset: int) -> None:
        """Refuse."""
        self._refuse()

    def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Refuse."""
        self._refuse()

    def segment_sources(self, until: int) -> Sequence[SegmentSource]:
        """Refuse."""
        self._refuse()

    def draft_segment(self, base_offset: int) -> SegmentDraft:
        """Refuse."""
        self._refuse()

    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Refuse."""
        self._refuse()

    def flush(self) -> int:
        """Refuse."""
        self._refuse()

    def side_files(self) -> Sequence[str]:
        """Return nothing: the directory cannot be read."""
        return ()

    def read_side_file(self, name: str) -> bytes | None:
        """Refuse."""
        self._refuse()

    def write_side_file(self, name: str, content: bytes) -> None:
        """Refuse."""
        self._refuse()

    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        """Refuse."""
        self._refuse()

    def close(self) -> None:
        """Do nothing."""
