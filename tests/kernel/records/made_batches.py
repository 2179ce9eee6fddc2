"""Record batches for tests of their decoders: any that is valid, and some that are not."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from hypothesis import strategies as st

from tidelog.kernel.records.batch import (
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    pack_batch,
    parse_header,
)
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.placed import PlacedBatch
from tidelog.kernel.records.record import Record, encode_record
from tidelog.kernel.records.varint import write_varlong

BASE_TIMESTAMP = 1_700_000_000_000
MOST_DELTA = 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

# Lengths at which a varint gets another byte, whether it folds to an even number or not.
sizes = st.integers(0, 20) | st.sampled_from([62, 63, 64, 65, 127, 128, 8190, 8191, 8192, 8193])
maybe_bytes = st.none() | st.binary(max_size=10) | sizes.map(bytes)
header_lists = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3).map(tuple)
timestamp_deltas = (
    st.integers(-100, 100)
    | st.integers(0, 62).map(lambda bits: 1 << bits)
    | st.integers(0, 62).map(lambda bits: -(1 << bits))
)


@attrs.frozen
class Written:
    """A batch, its records as they were meant, and the delete horizon in its header."""

    batch: bytes
    records: Sequence[Record]
    horizon_ms: int | None


def wrapped(number: int) -> int:
    """The number in 64 bits, as Java adds."""
    return (number + 2**63) % 2**64 - 2**63


@st.composite
def batches(draw: st.DrawFn, codecs: Sequence[int] = range(5)) -> Written:
    """Any batch of the format, as a producer, the broker or compaction may write it."""
    base_offset = draw(st.sampled_from([0, 5, 2**40, 2**62]))
    base_timestamp = draw(st.sampled_from([BASE_TIMESTAMP, -1, 0, LONG_MIN, LONG_MAX]))
    deltas = sorted(
        draw(st.sets(st.integers(0, 70) | st.sampled_from([8191, 8192, 2**20, MOST_DELTA]), max_size=8))
    )
    appended_ms = draw(st.none() | st.just(BASE_TIMESTAMP + 77))
    same_size = draw(st.booleans())
    key = draw(maybe_bytes)
    body = bytearray()
    records: list[Record] = []
    for delta in deltas:
        timestamp = wrapped(base_timestamp + draw(timestamp_deltas))
        if same_size:
            timestamp = wrapped(base_timestamp + draw(st.integers(-64, 63)))
            record = Record(base_offset + delta, timestamp, key, b"v" if delta % 2 else b"w")
        else:
            record = Record(
                base_offset + delta, timestamp, draw(maybe_bytes), draw(maybe_bytes), draw(header_lists)
            )
        stored = attrs.evolve(record, timestamp=wrapped(timestamp - base_timestamp), offset=delta)
        encode_record(body, stored, 0, 0)
        records.append(record if appended_ms is None else attrs.evolve(record, timestamp=appended_ms))
    last_delta = max(deltas[-1] if deltas else 0, draw(st.sampled_from([0, 100, MOST_DELTA])))
    codec = draw(st.sampled_from(codecs))
    has_horizon = draw(st.booleans())
    attributes = codec | DELETE_HORIZON_BIT * has_horizon | TIMESTAMP_TYPE_BIT * (appended_ms is not None)
    header = BatchHeader(
        base_offset,
        0,
        0,
        2,
        0,
        attributes,
        last_delta,
        base_timestamp,
        appended_ms or 0,
        7,
        1,
        3,
        len(deltas),
    )
    packed = pack_batch(header, compress(codec, body) if codec else body)
    return Written(bytes(packed), records, base_timestamp if has_horizon else None)


def placed(parts: Sequence[bytes], between: bytes = b"") -> tuple[bytes, list[PlacedBatch]]:
    """The bytes of all batches with something between them, and where each one is."""
    content = bytearray()
    found: list[PlacedBatch] = []
    for part in parts:
        content += between
        found.append(PlacedBatch(parse_header(part), len(content)))
        content += part
    return bytes(content + between), found


def block_of(*parts: bytes | bytearray) -> RecordBlock:
    """The block of batches that follow each other."""
    return RecordBlock(*placed([bytes(part) for part in parts]))


def of_body(body: bytes | bytearray, count: int = 1, attributes: int = 0, last_delta: int = 0) -> bytes:
    """A batch whose records' bytes are `body`, whatever that is."""
    header = BatchHeader(100, 0, 0, 2, 0, attributes, last_delta, BASE_TIMESTAMP, 0, -1, -1, -1, count)
    return bytes(pack_batch(header, body))


def varint(value: int) -> bytes:
    """A varint of the least size."""
    out = bytearray()
    write_varlong(out, value)
    return bytes(out)


def stretched(value: int, size: int) -> bytes:
    """A varint of that size, however few bytes would do."""
    folded = (value << 1) ^ (value >> 63)
    groups = [folded >> 7 * index & 0x7F for index in range(size)]
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def framed(body: bytes, length: int | None = None) -> bytes:
    """A record of these bytes, with its length or a wrong one in front."""
    return varint(len(body) if length is None else length) + body
