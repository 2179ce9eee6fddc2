"""What is printed of a record: its value, JSON, or the fields of a template."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.plugins.client_commands.records.command_options import unescape
from tidelog.plugins.client_commands.records.json_lines import json_line

if TYPE_CHECKING:
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client_commands.records.encodings import RecordEncoding

OutputFormat: TypeAlias = "Callable[[ConsumerRecord], bytes]"
"""Returns what is printed; raises ValueError if key or value has another form than it has to."""

_FIELD: Final = re.compile(rb"%(.)", re.DOTALL)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def value_format(value: RecordEncoding, delimiter: bytes, null: bytes) -> OutputFormat:
    """Return the format of values with a delimiter after each."""
    part = _part_format("value", value, null)
    return lambda record: part(record.value) + delimiter


def json_format(key: RecordEncoding, value: RecordEncoding) -> OutputFormat:
    """Return the format of JSON on one line."""
    return lambda record: json_line(record, key, value).encode() + b"\n"


def template_format(template: str, key: RecordEncoding, value: RecordEncoding, null: bytes) -> OutputFormat:
    r"""Return the format of a template of `_fields`, with \n and others.

    Raises:
        ValueError: there is no such field.
    """
    fields = _fields(_part_format("key", key, null), _part_format("value", value, null))
    pieces = _FIELD.split(unescape(template))
    if pieces[-1].endswith(b"%"):
        raise ValueError("a single % is at its end; %% prints one")
    makers: list[Callable[[ConsumerRecord], bytes]] = []
    for index, piece in enumerate(pieces):
        if index % 2:
            name = piece.decode("latin-1")
            if name not in fields:
                raise ValueError(f"%{name} is no field; there are {', '.join(f'%{each}' for each in fields)}")
            makers.append(fields[name])
        elif piece:
            makers.append(_constant(piece))
    return lambda record: b"".join([make(record) for make in makers])


def _fields(
    key: Callable[[bytes | None], bytes], value: Callable[[bytes | None], bytes]
) -> Mapping[str, OutputFormat]:
    return {
        "k": lambda record: key(record.key),
        "v": lambda record: value(record.value),
        "s": lambda record: value(record.value),
        "h": _headers,
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp_ms,
        "D": lambda record: _time(record.timestamp_ms).encode(),
        "K": lambda record: _size(record.key),
        "S": lambda record: _size(record.value),
        "%": lambda _record: b"%",
    }


def _part_format(name: str, encoding: RecordEncoding, null: bytes) -> Callable[[bytes | None], bytes]:
    def show(data: bytes | None) -> bytes:
        if data is None:
            return null
        try:
            return encoding.to_output(data)
        except ValueError as error:
            raise ValueError(f"the {name} is no {encoding.name}: {error}") from None

    return show


def _constant(data: bytes) -> OutputFormat:
    return lambda _record: data


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(
        name.encode() if content is None else name.encode() + b"=" + content
        for name, content in record.headers
    )


def _size(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _time(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "-"
    try:
        found = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
