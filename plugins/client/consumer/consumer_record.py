"""Records as objects, from where a scanner has found their fields.

The module is compiled where there is a C compiler, and runs as it is elsewhere: so it knows integers of 64
bits, bytes and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from librt.strings import BytesWriter, read_i64_le
from mypy_extensions import mypyc_attr

from tidelog.kernel.records.scanner import as_java_adds, note_headers

if TYPE_CHECKING:
    from mypy_extensions import i64

RecordHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...]

_FIELD: Final = 8
_NOTED: Final = 80
"""Bytes that a scanner notes of a record, `FIELDS` of 64 bits, and of a header."""
_NOTED_HEADER: Final = 32
_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1


# The garbage collector has nothing to find there, and would look at each of millions of them.
@mypyc_attr(acyclic=True)
class ConsumerRecord:
    """A record with its place.

    Attributes:
        topic: name of the topic
        partition: index of the partition
        offset: offset in the partition
        timestamp_ms: milliseconds since the epoch, as the producer or the log has set it; -1 for none
        key: bytes, None, or what `key_decoder` makes of the bytes
        value: the same for the value
        headers: names and values
    """

    def __init__(
        self,
        topic: str,
        partition: i64,
        offset: i64,
        timestamp_ms: i64,
        key: Any,
        value: Any,
        headers: RecordHeaders,
    ) -> None:
        self.topic = topic
        self.partition: i64 = partition
        self.offset: i64 = offset
        self.timestamp_ms: i64 = timestamp_ms
        self.key: Any = key
        self.value: Any = value
        self.headers = headers

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord({self.topic}-{self.partition}, offset={self.offset}, "
            f"timestamp_ms={self.timestamp_ms}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r})"
        )


class NotedBatch:
    """The records of a batch, uncompressed, and what a scanner has noted of them.

    With `append_time_ms` of 0 or more all records have that timestamp.
    """

    def __init__(
        self,
        data: bytes,
        fields: bytes,
        base_offset: i64,
        last_offset_delta: i64,
        base_timestamp: i64,
        append_time_ms: i64,
    ) -> None:
        self.data = data
        self.fields = fields
        self.base_offset: i64 = base_offset
        self.last_offset_delta: i64 = last_offset_delta
        self.base_timestamp: i64 = base_timestamp
        self.append_time_ms: i64 = append_time_ms

    def records(self, topic: str, partition: i64, first_offset: i64) -> list[ConsumerRecord]:
        """Return the records from an offset on.

        Raises:
            IndexError: the offset of a record is none of the batch.
        """
        data, fields = self.data, self.fields
        found: list[ConsumerRecord] = []
        at: i64 = 0
        size: i64 = len(fields)
        while at < size:
            offset = self.offset(at)
            if offset >= first_offset:
                count = read_i64_le(fields, at + 9 * _FIELD)
                headers: RecordHeaders = ()
                if count:
                    headers = headers_at(data, read_i64_le(fields, at + 8 * _FIELD), count)
                found.append(
                    ConsumerRecord(
                        topic,
                        partition,
                        offset,
                        self.timestamp(at),
                        _part_at(data, fields, at + 4 * _FIELD),
                        _part_at(data, fields, at + 6 * _FIELD),
                        headers,
                    )
                )
            at += _NOTED
        return found

    def offset(self, at: i64) -> i64:
        """Return the offset of the record whose fields begin there; raises as `records`."""
        delta = read_i64_le(self.fields, at + 3 * _FIELD)
        if delta < 0 or delta > self.last_offset_delta:
            raise IndexError("the offset of a record is none of its batch")
        return self.base_offset + delta

    def timestamp(self, at: i64) -> i64:
        """Return the timestamp of the record whose fields begin there."""
        if self.append_time_ms >= 0:
            return self.append_time_ms
        delta = read_i64_le(self.fields, at + 2 * _FIELD)
        base = self.base_timestamp
        if (delta > 0 and base > _MOST - delta) or (delta < 0 and base < _LEAST - delta):
            return as_java_adds(base, delta)
        return base + delta


def headers_at(data: bytes, position: i64, count: i64) -> RecordHeaders:
    """Return the headers of a record, the first of which begins there."""
    noted = BytesWriter()
    note_headers(data, position, count, noted)
    fields = noted.getvalue()
    found: list[tuple[str, bytes | None]] = []
    at: i64 = 0
    size: i64 = len(fields)
    while at < size:
        start = read_i64_le(fields, at)
        name = data[start : start + read_i64_le(fields, at + _FIELD)].decode("utf-8", "replace")
        found.append((name, _part_at(data, fields, at + 2 * _FIELD)))
        at += _NOTED_HEADER
    return tuple(found)


def _part_at(data: bytes, fields: bytes, at: i64) -> bytes | None:
    """Return the key or value whose start and size are noted there."""
    start, size = read_i64_le(fields, at), read_i64_le(fields, at + _FIELD)
    return None if size < 0 else data[start : start + size]
