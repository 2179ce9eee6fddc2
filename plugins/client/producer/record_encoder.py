"""Encoding of the records of a batch in one pass; their layout is drawn in `kernel.records.scanner`.

The module is compiled where there is a C compiler, and runs as it is elsewhere: so it knows integers of 64
bits, bytes and nothing else.

Source: Kafka documentation, "Record".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from librt.strings import BytesWriter

if TYPE_CHECKING:
    from mypy_extensions import i64

EncodedHeaders: TypeAlias = tuple[tuple[bytes, bytes | None], ...]
QueuedRecord: TypeAlias = tuple[bytes | None, bytes | None, int, EncodedHeaders]
"""Key, value, timestamp in milliseconds since the epoch, headers with their names in UTF-8."""

_BITS: Final = 0x7F
_MORE: Final = 0x80


def encode_records(records: list[QueuedRecord]) -> tuple[bytes, int]:
    """Return the records of a batch whose base timestamp is that of the first, and their latest timestamp.

    Raises:
        IndexError: there are no records.
    """
    out = BytesWriter()
    base: i64 = records[0][2]
    latest: i64 = base
    index: i64 = 0
    for key, value, time, headers in records:
        timestamp: i64 = time
        if timestamp > latest:
            latest = timestamp
        delta: i64 = timestamp - base
        size: i64 = 1 + _size_of(delta) + _size_of(index) + _bytes_size(key) + _bytes_size(value)
        count: i64 = len(headers)
        size += _size_of(count)
        for name, content in headers:
            size += _bytes_size(name) + _bytes_size(content)
        _write_number(out, size)
        out.append(0)
        _write_number(out, delta)
        _write_number(out, index)
        _write_bytes(out, key)
        _write_bytes(out, value)
        _write_number(out, count)
        for name, content in headers:
            _write_bytes(out, name)
            _write_bytes(out, content)
        index += 1  # noqa: SIM113 - it is compiled to a number of 64 bits, one of enumerate is not
    return out.getvalue(), latest


def _size_of(value: i64) -> i64:
    """Return the bytes of a varint, zigzag encoded."""
    # Negative numbers are folded between the others: the sign takes the lowest bit.
    left: i64 = ~value if value < 0 else value
    size: i64 = 1
    left >>= 6
    while left > 0:
        left >>= 7
        size += 1
    return size


def _bytes_size(content: bytes | None) -> i64:
    if content is None:
        return 1
    length: i64 = len(content)
    return _size_of(length) + length


def _write_number(out: BytesWriter, value: i64) -> None:
    if 0 <= value < 64:
        out.append(value << 1)
        return
    # The lowest six bits and the sign first, so that nothing is shifted out of 64 bits.
    left: i64 = ~value if value < 0 else value
    sign: i64 = 1 if value < 0 else 0
    byte: i64 = ((left << 1) | sign) & _BITS
    left >>= 6
    while left > 0:
        out.append(byte | _MORE)
        byte = left & _BITS
        left >>= 7
    out.append(byte)


def _write_bytes(out: BytesWriter, content: bytes | None) -> None:
    if content is None:
        out.append(1)
        return
    _write_number(out, len(content))
    out.write(content)
