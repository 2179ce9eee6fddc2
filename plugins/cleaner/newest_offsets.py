"""Which records compaction keeps: of each key the newest one, and tombstones for a while.

Only the process that compacts imports this, and the library for arrays with it.

Source: seed 001, "Pass 1, build the offset map" and "Tombstones and delete.retention.ms".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidelog.kernel.records.block import Mask, RecordBlock
from tidelog.plugins.cleaner.offset_map import OffsetMap, hash_keys

MOST_BUFFER_BYTES = 2**31 - 1
"""More is not used for one log, as in Apache Kafka."""


class NewestOffsets:
    """The newest offset of each key in the part of a log that is dirty; see `RecordFilter`."""

    def __init__(self, now_ms: int, buffer_bytes: int, load_factor: float) -> None:
        """`buffer_bytes` is the memory for keys and offsets, `load_factor` the share of it that is filled."""
        self._now_ms = now_ms
        self._map = OffsetMap(min(buffer_bytes, MOST_BUFFER_BYTES), load_factor)
        self._keyless = 0

    def survey(self, block: RecordBlock) -> int | None:
        """Note the newest offset of each key; return the first offset for which there is no room."""
        keyed = block.key_size >= 0
        offsets = block.offset[keyed]
        taken = self._map.put(hash_keys(block, keyed), offsets)
        return None if taken == len(offsets) else int(offsets[taken])

    def keep(self, block: RecordBlock) -> Mask:
        """Return for each record whether it stays."""
        keyed = block.key_size >= 0
        newest = np.full(len(block), np.iinfo(np.int64).max)
        newest[keyed] = self._map.get(hash_keys(block, keyed))
        self._keyless += len(block) - int(keyed.sum())
        expired = block.is_tombstone & (block.delete_horizon <= self._now_ms)
        return (block.offset >= newest) & ~expired

    def counts(self) -> Mapping[str, float]:
        """Return what is worth a look: records that no log with compaction should have, and room."""
        return {"records without a key": self._keyless, "share of the buffer filled": self._map.filled}
