"""What a partition's log is, in the simplest words: a list of batches."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tidelog.kernel.records.batch import Buffer, parse_header


@attrs.frozen
class ModelBatch:
    """A batch and what its header says of it."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: bytes

    @classmethod
    def of(cls, batch: Buffer) -> ModelBatch:
        """Return the batch of these bytes."""
        header = parse_header(batch)
        return cls(header.base_offset, header.last_offset, header.max_timestamp, bytes(batch))


@attrs.define
class ModelLog:
    """What a store has to agree with after the same operations."""

    batches: list[ModelBatch] = attrs.field(factory=list[ModelBatch])
    start_offset: int = 0
    end_offset: int = 0
    rewritten: dict[str, int] = attrs.field(factory=dict[str, int])

    def append(self, batch: Buffer) -> ModelBatch:
        """Add a batch at the end."""
        added = ModelBatch.of(batch)
        assert added.base_offset >= self.end_offset
        self.batches.append(added)
        self.end_offset = added.last_offset + 1
        return added

    def truncate_to(self, offset: int) -> None:
        """Keep the batches that lie wholly below `offset`; where an empty log ends the caller says."""
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]
        if self.batches:
            self.end_offset = min(self.end_offset, self.batches[-1].last_offset + 1)

    def lower_rewritten(self) -> None:
        """Note that what comes behind the end was not rewritten."""
        self.rewritten = {policy: min(until, self.end_offset) for policy, until in self.rewritten.items()}

    def delete_before(self, offset: int) -> None:
        """Forget the batches whose base offset is below `offset`, with which a segment begins."""
        self.batches = [batch for batch in self.batches if batch.base_offset >= offset]
        self.start_offset = max(self.start_offset, offset)

    def from_offset(self, offset: int) -> Sequence[ModelBatch]:
        """Return the batches from the first that ends at or above `offset` on."""
        return [batch for batch in self.batches if batch.last_offset >= offset]

    def read(self, offset: int, limit_offset: int) -> bytes:
        """Everything that a read without a limit of bytes gives."""
        if offset >= limit_offset:
            return b""
        return b"".join(batch.data for batch in self.from_offset(offset) if batch.base_offset < limit_offset)

    def at_timestamp(self, timestamp_ms: int) -> bytes | None:
        """Return the first batch whose max timestamp is `timestamp_ms` or later."""
        return next((batch.data for batch in self.batches if batch.max_timestamp >= timestamp_ms), None)

    def of_max_timestamp(self) -> bytes | None:
        """Return the first batch that has the largest max timestamp."""
        return max(self.batches, key=lambda batch: batch.max_timestamp).data if self.batches else None
