"""Down-conversion: record batches as message sets, for clients that know nothing newer (Fetch 0 to 3).

This is the one fetch that reads records, so it runs in a thread. Compressed batches are handed on
uncompressed, which every client reads; control batches, which old clients could not tell from data, are left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.kernel.errors import MessageTooLarge, StorageError
from tidelog.kernel.pace import RECORDS_PER_TURN, yield_interpreter
from tidelog.kernel.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, parse_header
from tidelog.kernel.records.message_set import MAGIC_V0, MAGIC_V1, encode_message
from tidelog.kernel.records.record import iter_contents
from tidelog.kernel.records.unpacking import memory_for
from tidelog.kernel.seams.partition import MemoryBudget
from tidelog.kernel.seams.storage import LogSlice, Region, region_bytes

FORMAT_1_SINCE = 2
MAX_CONVERTED_BYTES = 4 * 1024 * 1024
"""How much one answer has of messages at most, which are kept in memory until the client has taken them; also
the largest record that is converted. Clients that old ask for 1 MB of a partition."""
BATCHES_SINCE = 4
"""Fetch versions from which on a client reads message format 1 and record batches."""


def message_set(
    read: Callable[[int], LogSlice], offset: int, max_bytes: int, fetch_version: int, memory: MemoryBudget
) -> bytes:
    """Blocking: messages from `offset` on, about `max_bytes` of them but at least one if there is any.

    `read(offset)` gives the log's batches from there; `memory` is what unpacking them waits for.

    Raises:
        BrokerError: what `read` raises; CorruptBatch when records cannot be decoded; MessageTooLarge
            when the first record is larger than is converted.
    """
    magic = MAGIC_V1 if fetch_version >= FORMAT_1_SINCE else MAGIC_V0
    out = bytearray()
    next_offset = offset
    while not out and (batches := _content(read(next_offset))):
        for header, batch in _whole_batches(batches):
            next_offset = header.next_offset
            if header.is_control:
                continue
            with memory.hold(memory_for(header.codec, batch[HEADER_BYTES:])):
                if not _convert(out, header, batch, offset, max_bytes, magic):
                    break
    return bytes(out)


def _convert(
    out: bytearray, header: BatchHeader, batch: memoryview, offset: int, max_bytes: int, magic: int
) -> bool:
    """Append a batch's records from `offset` on; whether there is room for more."""
    try:
        for number, record in enumerate(iter_contents(batch, header, MAX_CONVERTED_BYTES)):
            if number % RECORDS_PER_TURN == 0:
                yield_interpreter()
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
