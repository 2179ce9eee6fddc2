"""Whole batches of segments, many at once, their outlines, and segments in groups that become one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from struct import Struct
from typing import Final, NamedTuple

import numpy as np

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    Buffer,
    is_message_set,
    parse_header,
)
from tidelog.kernel.records.block import NEVER
from tidelog.kernel.records.placed import OUTLINE_BYTES, PlacedBatches
from tidelog.kernel.records.stored import LEAST_BYTES, batch_of_message, whole_header
from tidelog.kernel.seams.indexes import MAX_RELATIVE_OFFSET
from tidelog.kernel.seams.storage import SegmentSource

_LENGTH = Struct(">i")
_LENGTH_AT = 8
_NO_MESSAGES: Mapping[int, bytes] = {}
RECORDS_AT_ONCE: Final = 2**14
"""A step in so many records at once is worth it; one in more takes memory, and hardly less time for each."""
_LEAST_CHUNK_BYTES: Final = 512 * 1024
"""A chunk has as many, however small the records are, if it may."""
_LEAST_DENSITY: Final = 0.75
"""Batches that take that share of where they lie are read with what lies between them: that costs less than
to put them together."""
_MOST_CONVERTED_BYTES = 4 * 1024 * 1024
"""A chunk with messages ends when they are that large as batches: compressed ones may be small."""
MOST_OUTLINE_BYTES: Final = 3 * 1024 * 1024
"""Outlines of so many bytes are noted: of two gigabytes in batches of 16 KB."""
_BATCHES_AT_ONCE: Final = 2**12
"""Each has some hundred bytes in columns."""


class Chunk(NamedTuple):
    """Whole batches of a segment, one after the other in `content`, which may have more bytes behind them.

    They take `size` bytes there. `messages` are those that are messages of the formats 0 and 1, by their
    index, as they are stored: in `content` they are batches that are not compressed.
    """

    content: bytes
    batches: PlacedBatches
    size: int
    messages: Mapping[int, bytes] = _NO_MESSAGES

    def content_of(self, index: int) -> memoryview:
        """Return the bytes of one batch."""
        position = int(self.batches.position[index])
        return memoryview(self.content)[position : position + int(self.batches.size[index])]


def chunks(source: SegmentSource, chunk_bytes: int, message_horizon_ms: int = NEVER) -> Iterator[Chunk]:
    """Iterate over the batches of a segment; a chunk has more than `chunk_bytes` only for a larger batch.

    It has fewer if these are many records. It is gone before the next one is read if the caller drops it.

    `message_horizon_ms` is the delete horizon of messages of the formats 0 and 1, which cannot have one.

    Raises:
        CorruptBatch: what is there is no batch.
        UnsupportedCompression: the codec of a message is unknown.
        OSError: the disk refused, or the segment was removed.
    """
    chunk_bytes = max(chunk_bytes, HEADER_BYTES)
    position, size = 0, min(chunk_bytes, _LEAST_CHUNK_BYTES)
    with closing(source):
        while position < source.size_bytes:
            content = _read_all(source, position, min(position + size, source.size_bytes))
            chunk = _whole_batches(content, message_horizon_ms)
            if not chunk.size:
                size = _size_of_first(content, source, position)
                continue
            position, size = position + chunk.size, _next_size(chunk, chunk_bytes)
            # The system reads the next one while this one is worked on.
            source.will_need(position, size)
            del content
            yield chunk
            del chunk


def _next_size(chunk: Chunk, most_bytes: int) -> int:
    """Return the bytes of as many records of that size as are worked on at once."""
    records = max(int(chunk.batches.record_count.sum()), 1)
    return min(max(chunk.size * RECORDS_AT_ONCE // records, _LEAST_CHUNK_BYTES), most_bytes)


def _whole_batches(content: bytes, message_horizon_ms: int) -> Chunk:
    positions: list[int] = []
    position, size = 0, len(content)
    while size - position >= HEADER_BYTES and content[position + MAGIC_AT] >= MAGIC_V2:
        (length,) = _LENGTH.unpack_from(content, position + _LENGTH_AT)
        if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            header = parse_header(content, position)
            raise CorruptBatch(f"the batch at offset {header.base_offset} cannot have {header.size} bytes")
        after = position + LOG_OVERHEAD_BYTES + length
        if after > size:
            break
        positions.append(position)
        position = after
    if is_message_set(content[position : position + LEAST_BYTES[0]]):
        return _with_messages(content, positions, position, message_horizon_ms)
    return Chunk(content, PlacedBatches.read(content, positions), position)


def _with_messages(content: bytes, positions: list[int], begin: int, horizon_ms: int) -> Chunk:
    """Return a chunk with batches at `positions`, and with messages and batches from `begin` on."""
    pieces: list[Buffer] = [content[:begin]]
    messages: dict[int, bytes] = {}
    position, end, converted = begin, len(content), 0
    while (header := whole_header(content, position, end)) is not None and header.size <= end - position:
        stored = content[position : position + header.size]
        piece: Buffer = stored
        if header.magic < MAGIC_V2:
            messages[len(positions)] = stored
            piece = batch_of_message(stored, header, horizon_ms=horizon_ms)
        positions.append(begin + converted)
        pieces.append(piece)
        converted += len(piece)
        position += header.size
        if converted >= _MOST_CONVERTED_BYTES:
            break
    as_batches = b"".join(pieces)
    return Chunk(as_batches, PlacedBatches.read(as_batches, positions), position, messages)


def chosen_chunks(source: SegmentSource, batches: PlacedBatches, chunk_bytes: int) -> Iterator[Chunk]:
    """Iterate over some batches of a segment, whose outlines are known; `chunks` has the errors."""
    with closing(source):
        waiting: PlacedBatches | None = None
        for some in _of_about(batches, max(chunk_bytes, HEADER_BYTES)):
            # The system reads these while those before them are worked on.
            for begin, end in _ranges(some):
                source.will_need(begin, end - begin)
            if waiting is not None:
                yield _read_batches(source, waiting)
            waiting = some
        if waiting is not None:
            yield _read_batches(source, waiting)


def _of_about(batches: PlacedBatches, most_bytes: int) -> Iterator[PlacedBatches]:
    """Iterate over batches, as many at once as have `most_bytes` and `RECORDS_AT_ONCE`, and at least one."""
    limits = [(np.cumsum(batches.size), most_bytes), (np.cumsum(batches.record_count), RECORDS_AT_ONCE)]
    done = 0
    while done < len(batches):
        fitting = [
            int(np.searchsorted(ends, most + (ends[done - 1] if done else 0), "right"))
            for ends, most in limits
        ]
        after = max(min(fitting), done + 1)
        yield batches[done:after]
        done = after


def _read_batches(source: SegmentSource, batches: PlacedBatches) -> Chunk:
    """Return batches that may lie apart; far apart, they are one behind the other afterwards."""
    ranges = _ranges(batches)
    content = b"".join([_read_all(source, begin, end) for begin, end in ranges])
    apart = len(ranges) > 1
    position = np.cumsum(batches.size) - batches.size if apart else batches.position - ranges[0][0]
    return Chunk(content, PlacedBatches.read(content, position.tolist()), len(content))


def _ranges(batches: PlacedBatches) -> list[tuple[int, int]]:
    """Return which bytes to read: of all of them at once, or of those each that follow each other."""
    ends = batches.position + batches.size
    begin, end = int(batches.position[0]), int(ends[-1])
    if batches.size.sum() >= _LEAST_DENSITY * (end - begin):
        return [(begin, end)]
    begins_run = np.append(True, batches.position[1:] != ends[:-1])
    ends_run = np.append(begins_run[1:], True)
    return list(zip(batches.position[begins_run].tolist(), ends[ends_run].tolist(), strict=True))


def _read_all(source: SegmentSource, begin: int, end: int) -> bytes:
    """Return the bytes from `begin` to `end`, which were there when the job began."""
    content = source.read(begin, end - begin)
    if len(content) != end - begin:
        found = begin + len(content)
        raise CorruptBatch(f"the segment at {source.base_offset} was cut off meanwhile, at byte {found}")
    return content


def _size_of_first(content: bytes, source: SegmentSource, position: int) -> int:
    length = int.from_bytes(content[_LENGTH_AT:LOG_OVERHEAD_BYTES], signed=True)
    size = length + LOG_OVERHEAD_BYTES
    least = LEAST_BYTES[0] if is_message_set(content) else HEADER_BYTES
    if len(content) < least or size <= len(content) or position + size > source.size_bytes:
        raise CorruptBatch(f"the segment at {source.base_offset} ends in a batch, at byte {position}")
    return size


def groups(
    sources: Sequence[SegmentSource], until: int, segment_bytes: int, index_bytes: int
) -> list[list[SegmentSource]]:
    """Return segments that follow each other in groups; each group fits one segment and its indexes.

    `until` is the offset behind the last one. Source: seed 001, "Pass 2, recopy segments keeping only
    survivors".
    """
    found: list[list[SegmentSource]] = []
    size = index = time_index = 0
    ends = [*(source.base_offset for source in sources[1:]), until]
    for source, end in zip(sources, ends, strict=True):
        size += source.size_bytes
        index += source.index_bytes
        time_index += source.time_index_bytes
        fits = (
            size <= segment_bytes
            and max(index, time_index) <= index_bytes
            and (not source.size_bytes or end - 1 - found[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
            if found
            else False
        )
        if fits:
            found[-1].append(source)
        else:
            found.append([source])
            size, index, time_index = source.size_bytes, source.index_bytes, source.time_index_bytes
    return found


class SurveyedBatches:
    """What a survey notes of the batches that it reads, so that the copy reads only what stays.

    It has the outlines of batches, as long as they take no more than `MOST_OUTLINE_BYTES`.
    """

    def __init__(self) -> None:
        self._left = MOST_OUTLINE_BYTES
        self._noted: dict[int, list[bytes]] = {}
        self._noted_bytes: dict[int, int] = {}
        """Base offset of a segment → bytes of the batches that were noted."""

    def note(self, source: SegmentSource, chunk: Chunk) -> None:
        """Note the next batches of a segment, which are read in order and from its begin on.

        Messages of the formats 0 and 1 have other headers: `is_complete` is false for their segment.
        """
        if chunk.messages or len(chunk.batches) * OUTLINE_BYTES > self._left:
            return
        outlines = chunk.batches.outlines()
        self._left -= len(outlines)
        self._noted.setdefault(source.base_offset, []).append(outlines)
        noted_bytes = self._noted_bytes.get(source.base_offset, 0)
        self._noted_bytes[source.base_offset] = noted_bytes + chunk.size

    def is_complete(self, source: SegmentSource) -> bool:
        """Return whether all batches of a segment were noted."""
        return self._noted_bytes.get(source.base_offset, 0) == source.size_bytes

    def take(self, source: SegmentSource) -> Iterator[PlacedBatches]:
        """Iterate over all batches of a segment, many at once, and forget them."""
        noted = self._noted.pop(source.base_offset, [])
        noted.reverse()
        position = 0
        while noted:
            outlines = noted.pop()
            while noted and len(outlines) + len(noted[-1]) <= _BATCHES_AT_ONCE * OUTLINE_BYTES:
                outlines += noted.pop()
            batches = PlacedBatches.following(outlines, position)
            position += int(batches.size.sum())
            yield batches
