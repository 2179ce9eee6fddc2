"""Many records at once, as columns: for work on whole files, where one object per record would cost too much.

A block holds the records of several batches. Its columns are arrays with an element for each record, in the
order of the log. Source: Kafka documentation, "Record".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np
from librt.strings import BytesWriter

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Buffer,
)
from tidelog.kernel.records.columns import Column, Mask
from tidelog.kernel.records.compression import unpack
from tidelog.kernel.records.placed import PlacedBatch, PlacedBatches
from tidelog.kernel.records.record import MAX_RECORDS_BYTES, Record, RecordPlaces
from tidelog.kernel.records.scanner import FIELDS, HEADER_FIELDS, Scanner, note_headers

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
    "header_start",
    "header_count",
)


class RecordBlock:
    """The records of some batches.

    `data` holds them uncompressed. For record i: `batch[i]` is the index of its batch in `batches`,
    `data[start[i]:end[i]]` are its bytes with the length in front, `offset[i]` and `timestamp[i]` its offset
    and milliseconds since the epoch, `key_start[i]` and `value_start[i]` the positions of its key and value,
    `key_size[i]` and `value_size[i]` their sizes in bytes, -1 for null, `header_start[i]` the position of the
    first of its `header_count[i]` headers. The records of the batch b are those from `first[b]` to
    `first[b + 1]`.
    """

    __slots__ = (
        "batch",
        "batches",
        "data",
        "end",
        "first",
        "header_count",
        "header_start",
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
        self._decode(areas)

    def __len__(self) -> int:
        return len(self.start)

    @property
    def headers(self) -> list[BatchHeader]:
        """Return the headers of the batches; each call builds them again."""
        return [batch.header for batch in self.batches]

    @property
    def is_tombstone(self) -> Mask:
        """Whether each record has no value."""
        is_null: Mask = self.value_size < 0
        return is_null

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
        # How many chosen records come before each batch's first one: a batch without any begins where it
        # ends.
        chosen.first = np.concatenate(([0], np.cumsum(mask)))[self.first]
        return chosen

    def _decode(self, areas: Sequence[tuple[int, int]]) -> None:
        batches = self.batches
        counts = batches.record_count
        noted = self._scan(areas, counts.tolist())
        (
            self.start, self.end, timestamp_delta, offset_delta, self.key_start, self.key_size,
            self.value_start, self.value_size, self.header_start, self.header_count,
        ) = np.ascontiguousarray(np.frombuffer(noted, "<i8").reshape(-1, FIELDS).T)  # fmt: skip
        self.first: Column = np.concatenate(([0], np.cumsum(counts)))
        self.batch: Column = np.repeat(np.arange(len(batches)), counts)

        def of_batches(field: str) -> Column:
            return np.repeat(batches.column(field), counts)

        beyond = np.flatnonzero((offset_delta < 0) | (offset_delta > of_batches("last_offset_delta")))
        if beyond.size:
            raise self._error(int(self.batch[beyond[0]]), "a record has an offset beyond it")
        self.offset = of_batches("base_offset") + offset_delta
        appended = (of_batches("attributes") & TIMESTAMP_TYPE_BIT) != 0
        created = of_batches("base_timestamp") + timestamp_delta
        self.timestamp = np.where(appended, of_batches("max_timestamp"), created)

    def _scan(self, areas: Sequence[tuple[int, int]], counts: Sequence[int]) -> bytes:
        """Return `FIELDS` of all records, those of each batch in its area."""
        fields, scanner, stop = BytesWriter(), Scanner(), 0
        scan = scanner.scan
        for index, ((begin, end), count) in enumerate(zip(areas, counts, strict=True)):
            stop += count
            if count < 0 or scan(self.data, begin, stop, fields) != end or scanner.index != stop:
                raise self._error(index, "its records are malformed, or do not end where it does")
        return fields.getvalue()

    def _error(self, index: int, message: str) -> CorruptBatch:
        return CorruptBatch(f"the batch at offset {self.batches.base_offset[index]}: {message}")

    def keys(self, mask: Mask) -> list[bytes]:
        """Return the keys of the records in `mask`, none of which is null."""
        data = self.data
        starts = self.key_start[mask]
        ends = (starts + self.key_size[mask]).tolist()
        return [data[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]

    def header_values(self, name: str) -> dict[int, bytes | None]:
        """Return the value of a header for the index of each record that has it; its last one counts."""
        wanted, data = name.encode(), self.data
        having = np.flatnonzero(self.header_count)
        fields = BytesWriter()
        starts, counts = self.header_start[having], self.header_count[having]
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            note_headers(data, start, count, fields)
        key, key_size, value, value_size = (
            np.frombuffer(fields.getvalue(), "<i8").reshape(-1, HEADER_FIELDS).T.astype(np.int64)
        )
        alike = np.flatnonzero(key_size == len(wanted))
        found: dict[int, bytes | None] = {}
        for index, begin, at, size in zip(
            np.repeat(having, counts)[alike].tolist(),
            key[alike].tolist(),
            value[alike].tolist(),
            value_size[alike].tolist(),
            strict=True,
        ):
            if data[begin : begin + len(wanted)] == wanted:
                found[index] = None if size < 0 else data[at : at + size]
        return found

    def record(self, index: int) -> Record:
        """Return one record."""
        fields = (
            self.key_start, self.key_size, self.value_start, self.value_size,
            self.header_start, self.header_count,
        )  # fmt: skip
        places = RecordPlaces(*(int(field[index]) for field in fields))
        return places.record(self.data, int(self.offset[index]), int(self.timestamp[index]))

    def records(self) -> Iterator[Record]:
        """Iterate over all records."""
        return map(self.record, range(len(self)))


def _uncompressed(
    content: bytes, batches: PlacedBatches, most_bytes: int | None
) -> tuple[bytes, Sequence[tuple[int, int]]]:
    """Return bytes with the records of the first batches, and where those of each one begin and end."""
    begins, ends = batches.position + HEADER_BYTES, batches.position + batches.size
    # Uncompressed records are used where they lie, without a copy.
    if not batches.codec.any():
        return content, [*zip(begins.tolist(), ends.tolist(), strict=True)]
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
    return b"".join(pieces), areas
