"""Down-conversion of record batches to message sets, for clients of Fetch 0 to 3.

This is the only fetch that reads records, so it runs in a thread. Compressed batches are returned
uncompressed, which every client reads; control batches, which old clients cannot distinguish from data, are
omitted. A message of the formats 0 and 1:

    offset        int64
    message size  int32   bytes after this field
    crc           uint32  CRC-32 (not CRC-32C) of everything after it
    magic         int8    0 or 1
    attributes    int8    bits 0-2 codec, in format 1 bit 3 timestamp type
    timestamp     int64   format 1 only, milliseconds since the epoch
    key           int32 length (-1: null) and bytes
    value         int32 length (-1: null) and bytes

Source: Kafka documentation, "Old Message Format".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

from tidelog.kernel.errors import MessageTooLarge, StorageError
from tidelog.kernel.pace import ThreadPace
from tidelog.kernel.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, parse_header
from tidelog.kernel.records.compression import memory_for
from tidelog.kernel.records.record import Record, iter_contents
from tidelog.kernel.seams.partition import MemoryBudget
from tidelog.kernel.seams.storage import LogSlice, Region, region_bytes

MAGIC_V0 = 0
MAGIC_V1 = 1
APPEND_TIME_BIT = 0x08
FORMAT_1_SINCE = 2
MAX_CONVERTED_BYTES = 4 * 1024 * 1024
"""Most bytes of messages in one response, which stay in memory until they are sent, and the largest record
that is converted. Clients that old request 1 MB of a partition."""
BATCHES_SINCE = 4
"""First version of Fetch with record batches; FORMAT_1_SINCE is the first with message format 1."""
CRC_BYTES = 4

_ENTRY = struct.Struct(">qiI")
_HEAD_V0 = struct.Struct(">bb")
_HEAD_V1 = struct.Struct(">bbq")
_LENGTH = struct.Struct(">i")


def message_set(
    read: Callable[[int], LogSlice], offset: int, max_bytes: int, fetch_version: int, memory: MemoryBudget
) -> bytes:
    """Blocking: return messages from `offset` on, about `max_bytes` of them but at least one if there is any.

    `read(offset)` returns the log's batches from there; decompression waits for `memory`.

    Raises:
        BrokerError: what `read` raises; CorruptBatch when records cannot be decoded; MessageTooLarge
            when the first record is larger than is converted.
    """
    magic = MAGIC_V1 if fetch_version >= FORMAT_1_SINCE else MAGIC_V0
    out = bytearray()
    pace = ThreadPace()
    next_offset = offset
    while not out and (batches := _content(read(next_offset))):
        for header, batch in _whole_batches(batches):
            next_offset = header.next_offset
            if header.is_control:
                continue
            with memory.hold(memory_for(header.codec, batch[HEADER_BYTES:])):
                if not _convert(out, header, batch, offset, max_bytes, magic, pace):
                    break
    return bytes(out)


def _convert(
    out: bytearray,
    header: BatchHeader,
    batch: memoryview,
    offset: int,
    max_bytes: int,
    magic: int,
    pace: ThreadPace,
) -> bool:
    """Append a batch's records from `offset` on; whether there is room for more."""
    try:
        for record in iter_contents(batch, header, MAX_CONVERTED_BYTES):
            pace.turn()
            if record.offset < offset:
                continue
            size = len(out)
            encode_message(out, record, magic, is_append_time=header.is_append_time)
            if len(out) > max_bytes:
                if size:
                    del out[size:]
                return False
    except MessageTooLarge:
        # What comes before it is answered first.
        if not out:
            raise
        return False
    return True


def _content(batches: LogSlice) -> memoryview:
    return memoryview(b"".join(map(_bytes_of, batches.regions)))


def _bytes_of(region: Region) -> bytes | memoryview:
    try:
        return region_bytes(region)
    except OSError as error:
        raise StorageError(f"batches cannot be read: {error}") from error


def _whole_batches(batches: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    position = 0
    while len(batches) - position >= HEADER_BYTES:
        header = parse_header(batches, position)
        if header.size > len(batches) - position:
            return
        yield header, batches[position : position + header.size]
        position += header.batch_length + LOG_OVERHEAD_BYTES


def encode_message(out: bytearray, record: Record, magic: int, *, is_append_time: bool = False) -> None:
    """Append a record as an uncompressed message of format `magic`, which has no field for record headers."""
    body = _encode_body(record, magic, is_append_time=is_append_time)
    out += _ENTRY.pack(record.offset, CRC_BYTES + len(body), zlib.crc32(body))
    out += body


def _encode_body(record: Record, magic: int, *, is_append_time: bool) -> bytes:
    if magic == MAGIC_V0:
        head = _HEAD_V0.pack(MAGIC_V0, 0)
    else:
        head = _HEAD_V1.pack(MAGIC_V1, APPEND_TIME_BIT if is_append_time else 0, record.timestamp)
    return head + _sized(record.key) + _sized(record.value)


def _sized(content: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if content is None else _LENGTH.pack(len(content)) + content
