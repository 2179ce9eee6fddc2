"""Blocks of records for the filter of compaction."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.placed import PlacedBatch
from tidelog.kernel.testing import make_batch


def block_of(
    keys: Sequence[bytes | None], values: Sequence[bytes | None] | None = None, base_offset: int = 0
) -> RecordBlock:
    """A block of one batch."""
    batch = bytes(make_batch(values or [b""] * len(keys), base_offset, keys=keys))
    return RecordBlock(batch, [PlacedBatch(parse_header(batch), 0)])
