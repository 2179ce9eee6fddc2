"""Down-conversion of record batches to message sets, for clients of Fetch 0 to 3.

This is the only fetch that reads records, so it runs in threads, and a response of many messages is converted
while it is sent: no more than a piece of it is in memory. Compressed batches are returned uncompressed, which
every client reads; control batches, which old clients cannot distinguish from data, are omitted. The formats
0 and 1 have no field for record headers. Messages that a log of Apache Kafka before 0.11 holds keep their
format, unless the client only reads format 0.

The size of a response is sent before the messages are known: it is that of the log's batches, as in Apache
Kafka's `LazyDownConversionRecords`. If the messages take more, the last one is cut; if they take less, one
follows that is cut, which clients ignore.

Source: Kafka documentation, "Old Message Format".
"""

from __future__ import annotations

import logging
import struct
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from tidelog.kernel.errors import BrokerError, MessageTooLarge, StorageError
from tidelog.kernel.pace import ThreadPace
from tidelog.kernel.records.batch import HEADER_BYTES, TIMESTAMP_TYPE_BIT, BatchHeader
from tidelog.kernel.records.message_set import MAGIC_V0, MAGIC_V1, MessageContent, encode_message
from tidelog.kernel.records.stored import iter_stored, iter_stored_contents, unpacking_memory
from tidelog.kernel.seams.storage import LogSlice, Region, region_bytes
from tidelog.kernel.seams.wire import Part, StreamedBytes

if TYPE_CHECKING:
    from tidelog.kernel.log.memory_budget import Unpacking

FORMAT_1_SINCE = 2
BATCHES_SINCE = 4
"""First version of Fetch with record batches; FORMAT_1_SINCE is the first with message format 1."""
PIECE_BYTES = 256 * 1024
"""Bytes of messages that are converted at once: some milliseconds of work in a thread."""
MAX_RECORD_BYTES = 4 * 1024 * 1024
"""The largest record that is converted, which is in memory as a whole."""
MAX_FIRST_BYTES = 4 * 1024 * 1024
"""Bytes of the first pieces of all partitions, which are in memory until they are sent; beyond that one more
message is."""
_HOLD_SECONDS: Final = 50e-6
"""How long a conversion holds the interpreter's lock.

The event loop waits for it after each system call of another client's request. Half of the time goes to
releases, which only clients of before 0.11 notice.
"""
_PLACE = struct.Struct(">qi")
_NO_OFFSET: Final = -1
_log = logging.getLogger(__name__)
T = TypeVar("T")


@attrs.define
class _OpenBatch:
    """A batch whose records are not all converted; `held_back` is the next one if it was read already.

    `memory_bytes` are what decompression takes, `read_bytes` what was read of the log.
    """

    header: BatchHeader
    contents: Iterator[MessageContent]
    memory_bytes: int
    read_bytes: int
    held_back: MessageContent | None = None

    @property
    def kept_bytes(self) -> int:
        """Bytes that stay in memory until the next piece."""
        record = self.held_back
        held_back_bytes = len(record.key or b"") + len(record.value or b"") if record else 0
        return self.memory_bytes + self.read_bytes + held_back_bytes


class Conversion:
    """The messages of a partition from `next_offset` on, for one version of Fetch.

    It is used in threads, by one at a time.
    """

    def __init__(
        self, read: Callable[[int], LogSlice], offset: int, fetch_version: int, unpacking: Unpacking
    ) -> None:
        """`read(offset)` returns batches of the log from there, which are decompressed by `unpacking`."""
        self.next_offset = offset
        self._read = read
        self._magic = MAGIC_V1 if fetch_version >= FORMAT_1_SINCE else MAGIC_V0
        self._memory = unpacking.memory
        self._kept = unpacking.kept
        self._release_kept: Callable[[], object] = _nothing_is_held
        self._stored: Iterator[tuple[BatchHeader, memoryview]] = iter(())
        self._read_bytes = 0
        self._batch: _OpenBatch | None = None

    def more(self, max_bytes: int) -> bytes:
        """Blocking: return the next messages, about `max_bytes` of them but at least one if there is any.

        Raises:
            BrokerError: what `read` raises; CorruptBatch when records cannot be decoded; MessageTooLarge when
                the next record is larger than is converted.
        """
        out = bytearray()
        pace = ThreadPace(_HOLD_SECONDS)
        self._release_kept()
        try:
            while (batch := self._batch or self._next_batch()) is not None:
                self._batch = batch
                with self._memory.hold(batch.memory_bytes):
                    if not self._convert(out, batch, max_bytes, pace):
                        break
                self._batch = None
        except MessageTooLarge:
            # What comes before it is returned first.
            self.restart(self.next_offset)
            if not out:
                raise
        self._keep_open()
        return bytes(out)

    def restart(self, offset: int) -> None:
        """Begin again at `offset`; the next piece reads its batch again."""
        self._release_kept()
        self.next_offset, self._batch, self._stored = offset, None, iter(())

    def _keep_open(self) -> None:
        """Keep the batch for the next piece if there is memory for it; until then a client may take long."""
        batch = self._batch
        if batch is None:
            self._stored = iter(())
        elif self._kept.try_hold(kept_bytes := batch.kept_bytes):
            # A conversion ends without a call where its client leaves in the middle of a response.
            self._release_kept = release = weakref.finalize(self, self._kept.release, kept_bytes)
            release.atexit = False
        else:
            self.restart(self.next_offset)

    def _next_batch(self) -> _OpenBatch | None:
        while True:
            for header, batch in self._stored:
                if not header.is_control:
                    contents = iter_stored_contents(batch, header, MAX_RECORD_BYTES)
                    return _OpenBatch(header, contents, unpacking_memory(batch, header), self._read_bytes)
                self.next_offset = header.next_offset
            content = _content(self._read(self.next_offset))
            if not content:
                return None
            self._read_bytes = len(content)
            self._stored = iter_stored(content)

    def _convert(self, out: bytearray, batch: _OpenBatch, max_bytes: int, pace: ThreadPace) -> bool:
        """Append a batch's records from `next_offset` on; return whether all of them are appended."""
        magic = min(self._magic, batch.header.magic)
        attributes = batch.header.attributes & TIMESTAMP_TYPE_BIT if magic == MAGIC_V1 else 0
        contents = batch.contents
        if batch.held_back is not None:
            encode_message(out, batch.held_back, magic, attributes=attributes)
            self.next_offset = batch.held_back.offset + 1
            batch.held_back = None
        for record in contents:
            pace.turn()
            if record.offset < self.next_offset:
                continue
            size = len(out)
            encode_message(out, record, magic, attributes=attributes)
            if size and len(out) > max_bytes:
                del out[size:]
                batch.held_back = record
                return False
            self.next_offset = record.offset + 1
        self.next_offset = batch.header.next_offset
        return True


@attrs.frozen
class ConvertedRecords:
    """Messages of a partition in a response: the first ones, and streamed bytes if there are more."""

    regions: Sequence[Part]
    size: int
    held_bytes: int
    """What of it is in memory."""


NO_MESSAGES = ConvertedRecords((), 0, 0)


def converted(
    conversion: Conversion,
    stored: LogSlice,
    max_bytes: int,
    in_thread: Callable[[Callable[[], bytes]], Awaitable[bytes]],
    first_bytes: int = PIECE_BYTES,
) -> ConvertedRecords:
    """Blocking: return the messages of a partition in a response of up to `max_bytes`, or one message.

    `stored` are the batches that they are made of. `in_thread` runs the conversion of what is streamed: all
    but the first `first_bytes`. With 0 of them nothing is in memory; that there is a message is only checked.

    Raises as `Conversion.more`.
    """
    offset = conversion.next_offset
    first = conversion.more(min(max_bytes, first_bytes))
    if not first:
        return NO_MESSAGES
    size = max(min(stored.size, max_bytes), len(first))
    if not first_bytes:
        conversion.restart(offset)
        first = b""
    elif max_bytes <= first_bytes or size == len(first) or conversion.next_offset >= stored.end_offset:
        return ConvertedRecords((first,), len(first), len(first))
    rest = _Rest(conversion, size - len(first), in_thread)
    streamed = StreamedBytes(rest.left, rest.next_piece)
    return ConvertedRecords((first, streamed) if first else (streamed,), size, len(first))


def _nothing_is_held() -> None:
    """Stands for the release of memory that is not held."""


class _Rest:
    """The messages behind the first ones, `left` bytes with what fills the response."""

    def __init__(
        self,
        conversion: Conversion,
        size: int,
        in_thread: Callable[[Callable[[], bytes]], Awaitable[bytes]],
    ) -> None:
        self.left = size
        self._conversion = conversion
        self._in_thread = in_thread
        self._filled = False

    async def next_piece(self) -> bytes:
        """Return the next bytes, which may be more than are left."""
        piece = b"" if self._filled else await self._in_thread(self._convert)
        if not piece:
            piece = bytes(min(self.left, PIECE_BYTES)) if self._filled else self._cut_message()
            self._filled = True
        self.left -= len(piece)
        return piece

    def _convert(self) -> bytes:
        try:
            return self._conversion.more(min(self.left, PIECE_BYTES))
        except BrokerError as error:
            # The next fetch, which starts there, returns the error.
            _log.debug("a down-converted response ends at offset %d: %s", self._conversion.next_offset, error)
            return b""

    def _cut_message(self) -> bytes:
        """Return the begin of a message that is longer than what is left."""
        return _PLACE.pack(_NO_OFFSET, max(self.left + 1, HEADER_BYTES))


def _content(batches: LogSlice) -> memoryview:
    return memoryview(b"".join(map(_bytes_of, batches.regions)))


def _bytes_of(region: Region) -> bytes | memoryview:
    try:
        return region_bytes(region)
    except OSError as error:
        raise StorageError(f"batches cannot be read: {error}") from error
