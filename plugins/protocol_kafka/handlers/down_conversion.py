"""Down-conversion of record batches to message sets, for clients of Fetch 0 to 3.

This is the only fetch that reads records, so it runs in a thread. Compressed batches are returned
uncompressed, which every client reads; control batches, which old clients cannot distinguish from data, are
omitted. The formats 0 and 1 have no field for record headers. Messages that a log of Apache Kafka before 0.11
holds keep their format, unless the client only reads format 0.

Source: Kafka documentation, "Old Message Format".
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.kernel.errors import MessageTooLarge, StorageError
from tidelog.kernel.pace import ThreadPace
from tidelog.kernel.records.batch import TIMESTAMP_TYPE_BIT, BatchHeader
from tidelog.kernel.records.message_set import MAGIC_V0, MAGIC_V1, encode_message
from tidelog.kernel.records.stored import iter_stored, iter_stored_contents, unpacking_memory
from tidelog.kernel.seams.partition import MemoryBudget
from tidelog.kernel.seams.storage import LogSlice, Region, region_bytes

FORMAT_1_SINCE = 2
MAX_CONVERTED_BYTES = 4 * 1024 * 1024
"""Most bytes of messages in one response, which stay in memory until they are sent, and the largest record
that is converted. Clients that old request 1 MB of a partition."""
BATCHES_SINCE = 4
"""First version of Fetch with record batches; FORMAT_1_SINCE is the first with message format 1."""


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
        for header, batch in iter_stored(batches):
            next_offset = header.next_offset
            if header.is_control:
                continue
            with memory.hold(unpacking_memory(batch, header)):
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
    magic = min(magic, header.magic)
    attributes = header.attributes & TIMESTAMP_TYPE_BIT if magic == MAGIC_V1 else 0
    try:
        for record in iter_stored_contents(batch, header, MAX_CONVERTED_BYTES):
            pace.turn()
            if record.offset < offset:
                continue
            size = len(out)
            encode_message(out, record, magic, attributes=attributes)
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
