"""Encoded messages as parts: bytes, and regions of files that are sent without being read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.plugins.protocol_kafka.codecs.types import Part

COPIED_BYTES: Final = 8192
"""Record batches up to this size are copied into the bytes before them: a part of its own costs more."""
_BYTES_LIKE: Final = frozenset((bytes, bytearray, memoryview))


def size_of(records: Any) -> int:
    """Return the size of a records value or of a part in bytes."""
    if type(records) in _BYTES_LIKE:
        return records.nbytes if type(records) is memoryview else len(records)
    size: int = records.size
    return size


def append_records(out: list[Any], parts: list[Part], records: Any) -> None:
    """Append a records value: to `out` if it is short, else to `parts`, after the content of `out`."""
    if type(records) not in _BYTES_LIKE:
        regions: Iterable[Part] = records.regions
    elif size_of(records) <= COPIED_BYTES:
        out.append(records)
        return
    else:
        regions = (memoryview(records) if type(records) is bytearray else records,)
    if out:
        parts.append(b"".join(out))
        out.clear()
    parts.extend(regions)


def content_of(records: Any) -> bytes:
    """Return the bytes of a records value.

    Raises:
        TypeError: it lies in a file.
    """
    regions: Iterable[Any] = (records,) if type(records) in _BYTES_LIKE else records.regions
    return b"".join(regions)


def total_size(parts: Iterable[Part]) -> int:
    """Return the size of all parts in bytes."""
    return sum(map(size_of, parts))
