"""Messages of the formats 0 and 1: what a producer may send, what a log may hold, and what is made of either.

The first byte of an input says how the rest is used: bits 0 and 1 are the codec, bit 2 the format of the
compressed message, bit 3 leaves sizes and checksums as they are, and with bit 4 the rest is compressed bytes.
"""

from __future__ import annotations

import zlib
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from attrs import evolve

from tests.kernel.records.message_sets import Row, plain_set, wrapper
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.log.memory_budget import Unpacking
from tidelog.kernel.records.batch import LEAST_MESSAGE_BYTES, LOG_OVERHEAD_BYTES, MAGIC_AT, parse_header
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.checking import RecordRules
from tidelog.kernel.records.message_set import MAGIC_V0, Message, encode_message, iter_messages
from tidelog.kernel.records.placed import PlacedBatch
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.records.stored import (
    batch_of_message,
    iter_stored,
    iter_stored_contents,
    iter_stored_timestamps,
    iter_verified,
    verify_stored_crc,
)
from tidelog.kernel.records.up_conversion import UpConversion, up_convert_in_steps
from tidelog.kernel.seams.storage import EMPTY_SLICE, LogSlice
from tidelog.kernel.testing.clock import START_MS
from tidelog.plugins.cleaner.worker.batches import RemainingRecords, message_of
from tidelog.plugins.coordinator.runtime.batches import decode_batches
from tidelog.plugins.protocol_kafka.apis.down_conversion import Conversion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from tidelog.kernel.records.batch import BatchHeader

_CODEC, _FORMAT, _AS_IT_IS, _IS_PACKED = 3, 4, 8, 16
_MOST_BYTES = 1 << 20
_PIECE_BYTES = 100
_MEMORY_BYTES = 1 << 30


class Messages:
    """All that is done with messages, without a broker."""

    def __enter__(self) -> Messages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def seeds(self) -> Sequence[bytes]:
        """Return sets of each format, for each codec, and compressed bytes of each."""
        rows: list[Row] = [(START_MS, b"key", b"value"), (START_MS + 7, None, b""), (START_MS + 3, b"", None)]
        sets = [plain_set(rows, magic) for magic in (0, 1)]
        sets += [plain_set(rows * 20, 1), plain_set(rows[:1], 0) + plain_set(rows[1:], 1, 1)]
        packed: list[bytes] = []
        for codec in (1, 2, 3):
            for magic in (0, 1):
                message = wrapper(sets[magic], magic, codec)
                value = message[(18, 26)[magic] + 8 :]
                packed.append(bytes([codec | magic * _FORMAT | _IS_PACKED]) + value)
        modes = [codec | magic for codec in range(4) for magic in (0, _FORMAT)]
        return [*(bytes([mode]) + each for each in sets for mode in (*modes, _AS_IT_IS)), *packed]

    def run(self, data: bytes) -> None:
        """Convert the input as that of a producer, and use it as a log in every way."""
        if not data:
            return
        stored = _messages(data)
        _tried(lambda: _up_converted(stored))
        _tried(lambda: deque(iter_verified(memoryview(stored)), 0))
        _tried(lambda: decode_batches(memoryview(stored), 0))
        _tried(lambda: _down_converted(stored))
        for header, message in _all_stored(stored):
            if header.magic < 2:
                _tried(partial(_read, header, message))
                _tried(partial(_compacted, header, bytes(message)))


def _messages(data: bytes) -> bytes:
    """Return what an input stands for."""
    mode, rest = data[0], data[1:]
    codec, magic = mode & _CODEC, int(bool(mode & _FORMAT))
    if not mode & (_AS_IT_IS | _IS_PACKED):
        rest = mended(rest)
    if mode & _IS_PACKED and codec:
        message = bytearray()
        encode_message(message, Message(2, START_MS, None, rest), magic, attributes=codec)
        return bytes(message)
    return wrapper(rest, magic, codec, 2, START_MS) if codec else rest


def mended(data: bytes) -> bytes:
    """Return the messages with the checksums that a producer would have set; the last one has the rest."""
    out = bytearray(data)
    position = 0
    while len(out) - position >= LEAST_MESSAGE_BYTES[0]:
        size = int.from_bytes(out[position + 8 : position + LOG_OVERHEAD_BYTES]) + LOG_OVERHEAD_BYTES
        if not LEAST_MESSAGE_BYTES[0] <= size <= len(out) - position:
            size = len(out) - position
            out[position + 8 : position + LOG_OVERHEAD_BYTES] = (size - LOG_OVERHEAD_BYTES).to_bytes(4)
        crc = zlib.crc32(memoryview(out)[position + MAGIC_AT : position + size])
        out[position + LOG_OVERHEAD_BYTES : position + MAGIC_AT] = crc.to_bytes(4)
        position += size
    return bytes(out)


def _tried(action: Callable[[], object]) -> None:
    try:
        action()
    except BrokerError:
        return


def _all_stored(stored: bytes) -> list[tuple[BatchHeader, memoryview]]:
    found: list[tuple[BatchHeader, memoryview]] = []
    with suppress(BrokerError):
        found.extend(iter_stored(memoryview(stored)))
    return found


def _read(header: BatchHeader, message: memoryview) -> None:
    records = list(iter_stored_contents(message, header, _MOST_BYTES))
    times = [(record.offset, record.timestamp) for record in records]
    assert list(iter_stored_timestamps(message, header)) == times


def _up_converted(stored: bytes) -> None:
    """Convert it; what is taken can be read, and has as many records as it says."""
    steps = up_convert_in_steps(stored, UpConversion(RecordRules(), _MOST_BYTES))
    while True:
        try:
            next(steps)
        except StopIteration as done:
            batch: bytearray = done.value
            break
    header = parse_header(batch)
    records = list(iter_records(batch, header))
    assert len(records) == header.record_count > 0
    assert [record.offset for record in records] == [*range(len(records))]
    assert max(-1, *(record.timestamp for record in records)) == header.max_timestamp


def _down_converted(stored: bytes) -> None:
    """Convert it in pieces; each has whole messages with right checksums."""
    for version in (0, 2):
        slices = iter([LogSlice((stored,), len(stored))])
        read = partial(_next_of, slices)
        conversion = Conversion(read, 0, version, Unpacking(_MEMORY_BYTES))
        while piece := conversion.more(_PIECE_BYTES):
            found = list(iter_verified(memoryview(piece)))
            assert sum(header.size for header, _ in found) == len(piece)
            assert all(header.magic <= version // 2 for header, _ in found)


def _next_of(slices: Iterator[LogSlice], _: int) -> LogSlice:
    return next(slices, EMPTY_SLICE)


def _compacted(header: BatchHeader, message: bytes) -> None:
    """Remove every other record; what stays is a message of the same format with the others."""
    batch = bytes(batch_of_message(message, header))
    there = list(iter_records(batch, parse_header(batch)))
    block = RecordBlock(batch, [PlacedBatch(parse_header(batch), 0)])
    assert list(block.records()) == there
    kept = RemainingRecords(block, np.arange(len(block)) % 2 == 0)
    for each in kept.batches(batch, np.zeros(1, np.bool_), 0).values():
        left = message_of(each, message, len(there))
        (found, content), *others = iter_stored(memoryview(bytes(left.content)))
        assert not others
        assert verify_stored_crc(content, found) or left.content == message
        assert found.magic == header.magic
        stayed = [Record(*one) for one in iter_messages(content, found)]
        if found.magic == MAGIC_V0:
            # One of format 1 in one of format 0, as an old fault of Apache Kafka left them, loses its time.
            stayed = [
                evolve(one, timestamp=was.timestamp) for one, was in zip(stayed, there[::2], strict=True)
            ]
        assert stayed == there[::2]
