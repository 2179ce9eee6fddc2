"""Many records at once, as columns: for work on whole files, where one object per record would cost too much.

A block holds the records of several batches. Its columns are arrays with an element for each record, in the
order of the log. Source: Kafka documentation, "Record".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, Buffer
from tidelog.kernel.records.record import MAX_RECORDS_BYTES, Record, decode_record
from tidelog.kernel.records.unpacking import unpack
from tidelog.kernel.records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, read_varint

Column: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


NEVER = 2**63 - 1
_COLUMNS = ("batch", "start", "end", "offset", "timestamp", "key_start", "key_size", "value_size")


class PlacedBatch(NamedTuple):
    """The header of a batch, and the position of its first byte in the bytes that it was found in."""

    header: BatchHeader
    position: int


class RecordBlock:
    """The records of some batches.

    `data` holds them uncompressed. For record i: `batch[i]` is the index of its batch in `headers`,
    `data[start[i]:end[i]]` are its bytes with the length in front, `offset[i]` and `timestamp[i]` its offset
    and milliseconds since the epoch, `key_start[i]` the position of its key, `key_size[i]` and
    `value_size[i]` are sizes in bytes, -1 for null. The records of the batch b are those from `first[b]` to
    `first[b + 1]`.
    """

    __slots__ = (
        "batch",
        "data",
        "end",
        "first",
        "headers",
        "key_size",
        "key_start",
        "offset",
        "start",
        "timestamp",
        "value_size",
    )

    def __init__(self, content: bytes, batches: Sequence[PlacedBatch], most_bytes: int | None = None) -> None:
        """Decode batches that lie in `content`; no more of them once `most_bytes` were decompressed.

        Raises:
            CorruptBatch: their records are malformed.
            UnsupportedCompression: a codec is unknown.
        """
        self.data, areas = _uncompressed(content, batches, most_bytes)
        self.headers: list[BatchHeader] = [batch.header for batch in batches[: len(areas)]]
        starts: list[int] = []
        ends: list[int] = []
        for header, (start, end) in zip(self.headers, areas, strict=True):
            found = _starts(self.data, start, end, header.record_count)
            starts += found
            ends += found[1:]
            if found:
                ends.append(end)
        self.start: Column = np.array(starts, np.int64)
        self.end: Column = np.array(ends, np.int64)
        # Not before the records were found: a wrong count would demand any amount of memory.
        counts = np.array([header.record_count for header in self.headers], np.int64)
        self.first: Column = np.concatenate(([0], np.cumsum(counts)))
        self.batch: Column = np.repeat(np.arange(len(areas)), counts)
        self._decode()

    def __len__(self) -> int:
        return len(self.start)

    @property
    def is_tombstone(self) -> Mask:
        """Whether each record has no value."""
        return self.value_size < 0

    @property
    def delete_horizon(self) -> Column:
        """The time from which each record may be dropped if it is a tombstone, in milliseconds, or `NEVER`.

        A rewrite notes it in the header of a batch when it first keeps a tombstone of that.
        """
        horizons = [header.delete_horizon_ms for header in self.headers]
        return np.array([NEVER if each is None else each for each in horizons], np.int64)[self.batch]

    def select(self, mask: Mask) -> RecordBlock:
        """Return the block with the records in `mask` alone; every batch stays, if need be without any."""
        chosen = copy(self)
        for name in _COLUMNS:
            setattr(chosen, name, getattr(self, name)[mask])
        chosen.first = np.concatenate(([0], np.cumsum(mask)))[self.first]
        return chosen

    def _decode(self) -> None:
        content = np.frombuffer(self.data, np.uint8)
        try:
            self._decode_columns(content)
        except IndexError:
            raise CorruptBatch("a record reaches beyond its batch") from None

    def _decode_columns(self, content: npt.NDArray[np.uint8]) -> None:
        length, position = _read_varints(content, self.start, MAX_VARINT_BYTES)
        self._check(position + length == self.end)
        timestamp_delta, position = _read_varints(content, position + 1, MAX_VARLONG_BYTES)
        offset_delta, position = _read_varints(content, position, MAX_VARINT_BYTES)
        self.key_size, self.key_start = _read_varints(content, position, MAX_VARINT_BYTES)
        position = self.key_start + np.maximum(self.key_size, 0)
        self._check(position < self.end)
        self.value_size, position = _read_varints(content, position, MAX_VARINT_BYTES)
        self._check(position + np.maximum(self.value_size, 0) < self.end)
        self._check((offset_delta >= 0) & (offset_delta <= self._of_batches("last_offset_delta")))
        self.offset = self._of_batches("base_offset") + offset_delta
        appended = self._of_batches("is_append_time").astype(np.bool_)
        created = self._of_batches("base_timestamp") + timestamp_delta
        self.timestamp = np.where(appended, self._of_batches("max_timestamp"), created)

    def _check(self, holds: Mask) -> None:
        if not holds.all():
            at = self.headers[int(self.batch[np.flatnonzero(~holds)[0]])].base_offset
            raise CorruptBatch(f"the batch at offset {at} has a malformed record")

    def _of_batches(self, field: str) -> Column:
        """Return a field of each record's batch."""
        return np.array([getattr(header, field) for header in self.headers], np.int64)[self.batch]

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
        return decode_record(memoryview(self.data)[start:end], self.headers[int(self.batch[index])])

    def records(self) -> Iterator[Record]:
        """Iterate over all records."""
        return map(self.record, range(len(self)))


def _uncompressed(
    content: bytes, batches: Sequence[PlacedBatch], most_bytes: int | None
) -> tuple[bytes, Sequence[tuple[int, int]]]:
    """Return bytes with the records of the first batches, and where those of each one begin and end."""
    if not any(batch.header.codec for batch in batches):
        return content, [(each.position + HEADER_BYTES, each.position + each.header.size) for each in batches]
    pieces: list[Buffer] = []
    areas: list[tuple[int, int]] = []
    position = 0
    for header, start in batches:
        area = memoryview(content)[start + HEADER_BYTES : start + header.size]
        size = 0
        for piece in unpack(header.codec, area, MAX_RECORDS_BYTES) if header.codec else (area,):
            pieces.append(piece)
            size += len(piece)
        areas.append((position, position + size))
        position += size
        if most_bytes is not None and position >= most_bytes:
            break
    return b"".join(pieces), areas


def _starts(data: bytes, start: int, end: int, count: int) -> Sequence[int]:
    """Return where the records of a batch begin.

    Raises:
        CorruptBatch: they do not end where the batch does.
    """
    if count < 0:
        raise CorruptBatch(f"a batch cannot have {count} records")
    if count > 1:
        evenly = _even_starts(data, start, end, count)
        if evenly is not None:
            return evenly
    starts: list[int] = []
    add = starts.append
    position = start
    try:
        for _ in range(count):
            add(position)
            byte = data[position]
            if byte < 0x80 and not byte & 1:
                position += 1 + (byte >> 1)
            elif (following := data[position + 1]) < 0x80 and byte >= 0x80 and not byte & 1:
                position += 2 + (((following << 7) | (byte & 0x7F)) >> 1)
            else:
                length, position = read_varint(data, position)
                if length < 0:
                    raise CorruptBatch(f"a record cannot have {length} bytes")
                position += length
    except IndexError:
        position = -1
    if position != end:
        raise CorruptBatch(f"{count} records do not have the {end - start} bytes of their batch")
    return starts


def _even_starts(data: bytes, start: int, end: int, count: int) -> Sequence[int] | None:
    """Return where the records begin if all have the same size, as their lengths say; None if not."""
    size, rest = divmod(end - start, count)
    if rest or size < 2:
        return None
    length, position = read_varint(data, start)
    varint_size = position - start
    if length + varint_size != size:
        return None
    for index in range(start, position):
        if data[index:end:size] != data[index : index + 1] * count:
            return None
    return range(start, end, size)


def _read_varints(
    content: npt.NDArray[np.uint8], positions: Column, most_bytes: int
) -> tuple[Column, Column]:
    """Return the values of varints at `positions`, and the positions after them.

    Raises:
        CorruptBatch: one of them is longer than `most_bytes`.
        IndexError: one of them ends beyond `content`.
    """
    byte = content[positions]
    folded = (byte & 0x7F).astype(np.uint64)
    after = positions + 1
    pending = np.flatnonzero(byte & 0x80)
    for shift in range(7, 7 * most_bytes, 7):
        if not pending.size:
            break
        byte = content[after[pending]]
        folded[pending] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[pending] += 1
        pending = pending[(byte & 0x80) != 0]
    if pending.size:
        raise CorruptBatch(f"a varint of a record has more than {most_bytes} bytes")
    if most_bytes == MAX_VARINT_BYTES:
        folded &= np.uint64(0xFFFFFFFF)
    return (folded >> np.uint64(1)).astype(np.int64) ^ -(folded & np.uint64(1)).astype(np.int64), after
