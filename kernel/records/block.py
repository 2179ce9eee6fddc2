"""Many records at once, as columns: for work on whole files, where one object per record would cost too much.

A block holds the records of several batches. Its columns are arrays with an element for each record, in the
order of the log. Source: Kafka documentation, "Record".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Buffer,
)
from tidelog.kernel.records.columns import Column, Mask, Varints
from tidelog.kernel.records.compression import unpack
from tidelog.kernel.records.placed import PlacedBatch, PlacedBatches
from tidelog.kernel.records.record import ATTRIBUTES_BYTES, MAX_RECORDS_BYTES, Record, decode_record
from tidelog.kernel.records.record_starts import record_starts
from tidelog.kernel.records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, read_varint

NEVER = 2**63 - 1
_COLUMNS = (
    "batch",
    "start",
    "end",
    "offset",
    "timestamp",
    "key_start",
    "key_size",
    "value_start",
    "value_size",
)


class RecordBlock:
    """The records of some batches.

    `data` holds them uncompressed. For record i: `batch[i]` is the index of its batch in `batches`,
    `data[start[i]:end[i]]` are its bytes with the length in front, `offset[i]` and `timestamp[i]` its offset
    and milliseconds since the epoch, `key_start[i]` and `value_start[i]` the positions of its key and value,
    `key_size[i]` and `value_size[i]` their sizes in bytes, -1 for null. The headers follow the value. The
    records of the batch b are those from `first[b]` to `first[b + 1]`.
    """

    __slots__ = (
        "batch",
        "batches",
        "data",
        "end",
        "first",
        "key_size",
        "key_start",
        "offset",
        "start",
        "timestamp",
        "value_size",
        "value_start",
    )

    def __init__(self, content: bytes, batches: Sequence[PlacedBatch], most_bytes: int | None = None) -> None:
        """Decode batches that lie in `content`; no more of them once `most_bytes` were decompressed.

        Raises:
            CorruptBatch: their records are malformed.
            UnsupportedCompression: a codec is unknown.
        """
        placed = PlacedBatches.of(batches)
        self.data, areas = _uncompressed(content, placed, most_bytes)
        self.batches: PlacedBatches = placed[: len(areas)]
        try:
            self._decode(areas)
        except (CorruptBatch, IndexError) as error:
            raise self._error_of_batch(areas) from error

    def __len__(self) -> int:
        return len(self.start)

    @property
    def headers(self) -> list[BatchHeader]:
        """Return the headers of the batches; each call builds them again."""
        return [batch.header for batch in self.batches]

    @property
    def is_tombstone(self) -> Mask:
        """Whether each record has no value."""
        return self.value_size < 0

    @property
    def delete_horizon(self) -> Column:
        """The time from which each record may be dropped if it is a tombstone, in milliseconds, or `NEVER`.

        A rewrite notes it in the header of a batch when it first keeps a tombstone of that.
        """
        batches = self.batches
        has_horizon = (batches.attributes & DELETE_HORIZON_BIT) != 0
        horizons: Column = np.where(has_horizon, batches.column("base_timestamp"), NEVER)
        return horizons[self.batch]

    def select(self, mask: Mask) -> RecordBlock:
        """Return the block with the records in `mask` alone; every batch stays, if need be without any."""
        chosen = copy(self)
        for name in _COLUMNS:
            setattr(chosen, name, getattr(self, name)[mask])
        chosen.first = np.concatenate(([0], np.cumsum(mask)))[self.first]
        return chosen

    def _decode(self, areas: Column) -> None:
        counts = self.batches.record_count
        varints = Varints(self.data)
        self.start: Column = record_starts(self.data, varints, areas[:, 0], areas[:, 1], counts)
        self.first: Column = np.concatenate(([0], np.cumsum(counts)))
        self.end: Column = np.empty_like(self.start)
        self.end[:-1] = self.start[1:]
        self.end[self.first[1:][counts > 0] - 1] = areas[:, 1][counts > 0]
        self.batch: Column = np.repeat(np.arange(len(areas)), counts)
        _, position = varints.read(self.start, MAX_VARINT_BYTES)
        timestamp_delta, position = varints.read(position + ATTRIBUTES_BYTES, MAX_VARLONG_BYTES)
        offset_delta, position = varints.read(position, MAX_VARINT_BYTES)
        self.key_size, self.key_start = varints.read(position, MAX_VARINT_BYTES)
        position = self.key_start + np.maximum(self.key_size, 0)
        self._check(position < self.end)
        self.value_size, self.value_start = varints.read(position, MAX_VARINT_BYTES)
        self._check(self.value_start + np.maximum(self.value_size, 0) < self.end)

        def of_batches(field: str) -> Column:
            return np.repeat(self.batches.column(field), counts)

        self._check((offset_delta >= 0) & (offset_delta <= of_batches("last_offset_delta")))
        self.offset = of_batches("base_offset") + offset_delta
        appended = (of_batches("attributes") & TIMESTAMP_TYPE_BIT) != 0
        created = of_batches("base_timestamp") + timestamp_delta
        self.timestamp = np.where(appended, of_batches("max_timestamp"), created)

    def _check(self, holds: Mask) -> None:
        if not holds.all():
            raise CorruptBatch("a record has a malformed field")

    def _error_of_batch(self, areas: Column) -> CorruptBatch:
        """Return what is wrong with the first batch that cannot be decoded by itself."""
        batches = self.batches
        for index, base_offset in enumerate(batches.base_offset.tolist()):
            self.batches = batches[index : index + 1]
            try:
                self._decode(areas[index : index + 1])
            except IndexError:
                return CorruptBatch(f"the batch at offset {base_offset}: a record reaches beyond it")
            except CorruptBatch as error:
                return CorruptBatch(f"the batch at offset {base_offset}: {error}")
        return CorruptBatch(f"records reach beyond the batch at offset {batches.base_offset[-1]}")

    def keys(self, mask: Mask) -> list[bytes]:
        """Return the keys of the records in `mask`, none of which is null."""
        data = self.data
        starts = self.key_start[mask]
        ends = (starts + self.key_size[mask]).tolist()
        return [data[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]

    def record(self, index: int) -> Record:
        """Return one record."""
        start, end = int(self.start[index]), int(self.end[index])
        _, start = read_varint(self.data, start)
        return decode_record(memoryview(self.data)[start:end], self.batches.header(int(self.batch[index])))

    def records(self) -> Iterator[Record]:
        """Iterate over all records."""
        return map(self.record, range(len(self)))


def _uncompressed(content: bytes, batches: PlacedBatches, most_bytes: int | None) -> tuple[bytes, Column]:
    """Return bytes with the records of the first batches, and where those of each one begin and end."""
    begins, ends = batches.position + HEADER_BYTES, batches.position + batches.size
    if not batches.codec.any():
        return content, np.stack((begins, ends), axis=1)
    pieces: list[Buffer] = []
    areas: list[tuple[int, int]] = []
    position = 0
    for codec, begin, end in zip(batches.codec.tolist(), begins.tolist(), ends.tolist(), strict=True):
        area = memoryview(content)[begin:end]
        size = 0
        for piece in unpack(codec, area, MAX_RECORDS_BYTES) if codec else (area,):
            pieces.append(piece)
            size += len(piece)
        areas.append((position, position + size))
        position += size
        if most_bytes is not None and position >= most_bytes:
            break
    return b"".join(pieces), np.array(areas, np.int64)
