"""The filter of compaction as it is sent to the process that uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.kernel.records.block import RecordBlock
    from tidelog.kernel.records.columns import Column, Mask
    from tidelog.plugins.cleaner.compaction.newest_offsets import NewestOffsets


class KeepNewest:
    """`RecordFilter` that keeps the newest record of each key. It is empty until it is used."""

    def __init__(
        self, now_ms: int, buffer_bytes: int, load_factor: float, most_keys: int | None = None
    ) -> None:
        """For no more than `most_keys` different keys.

        `buffer_bytes` is the memory for keys and offsets, at most, `load_factor` the share of it that is
        filled.
        """
        self._most_keys = most_keys
        self._now_ms = now_ms
        self._buffer_bytes = buffer_bytes
        self._load_factor = load_factor

    @cached_property
    def _newest(self) -> NewestOffsets:
        # Not at the top: it needs a library that the broker's own process never loads.
        from tidelog.plugins.cleaner.compaction.newest_offsets import NewestOffsets

        return NewestOffsets(self._now_ms, self._buffer_bytes, self._load_factor, self._most_keys)

    def survey(self, block: RecordBlock) -> int | None:
        """Note the newest offset of each key; return the first offset for which there is no room."""
        return self._newest.survey(block)

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        """Return for each record whether it stays."""
        return self._newest.keep(block)  # type: ignore[return-value]  # an array

    def drops(self, base_offsets: Column, last_offsets: Column) -> Mask:
        """Return for each batch whether all of its records were surveyed, and each has a newer one."""
        return self._newest.drops(base_offsets, last_offsets)

    def counts(self) -> Mapping[str, float]:
        """Return what is worth a look: records that no log with compaction should have, and room."""
        return self._newest.counts()
