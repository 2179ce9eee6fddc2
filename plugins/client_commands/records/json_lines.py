"""A record as a JSON object on one line: what `consume --format json` writes, and `produce` reads.

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1700000000000, "key": "table 7",
     "value": "tea", "headers": [{"key": "waiter", "value": "Ada"}]}

A part that is no UTF-8 has another name, such as `value_base64`, so that every record can be written and read
back as it was. Timestamps are in milliseconds since the epoch.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from tidelog.plugins.client_commands.records.encodings import TEXT, RecordEncoding, compact_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord

_BASE64: Final = "_base64"
_FIELDS: Final = frozenset(
    ("topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers")
)


@attrs.define
class InputRecord:
    """A record to send; None for what the input does not say, and `key` and `value` also for null."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    topic: str | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


def json_line(record: ConsumerRecord, key: RecordEncoding, value: RecordEncoding) -> str:
    """Return a record as JSON, with its key and value in these encodings.

    Raises:
        ValueError: key or value is no such thing.
    """
    found: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    _add(found, "key", record.key, key)
    _add(found, "value", record.value, value)
    headers: list[dict[str, Any]] = []
    for name, content in record.headers:
        header: dict[str, Any] = {"key": name}
        _add(header, "value", content, None)
        headers.append(header)
    found["headers"] = headers
    return compact_json(found)


def parse_json_line(line: bytes, key: RecordEncoding, value: RecordEncoding) -> InputRecord:
    """Return the record of a line.

    Raises:
        ValueError: it is no such object.
    """
    try:
        given: Any = json.loads(line)
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError("it is no JSON object")
    found = cast("dict[str, Any]", given)
    unknown = sorted(found.keys() - _FIELDS)
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no field of a record: there are {', '.join(sorted(_FIELDS))}")
    if "value" not in found and "value_base64" not in found:
        raise ValueError("it has no value; null makes a tombstone")
    timestamp = _integer(found, "timestamp")
    topic = found.get("topic")
    if topic is not None and not isinstance(topic, str):
        raise ValueError(f"the topic is no name: {topic!r}")
    return InputRecord(
        value=_part(found, "value", value),
        key=_part(found, "key", key),
        headers=_headers(found.get("headers")),
        topic=topic,
        partition=_integer(found, "partition"),
        # What a log of message format 0 has is no time.
        timestamp_ms=None if timestamp == -1 else timestamp,
    )


def _add(found: dict[str, Any], name: str, data: bytes | None, encoding: RecordEncoding | None) -> None:
    if data is None:
        found[name] = None
    elif encoding is None or encoding.name == TEXT:
        try:
            found[name] = data.decode()
        except UnicodeDecodeError:
            found[name + _BASE64] = base64.b64encode(data).decode()
    else:
        found[name] = encoding.show(data)


def _part(found: dict[str, Any], name: str, encoding: RecordEncoding | None) -> bytes | None:
    if name + _BASE64 in found:
        return base64.b64decode(found[name + _BASE64], validate=True)
    given = found.get(name)
    if given is None:
        return None
    if encoding is None:
        return (given if isinstance(given, str) else compact_json(given)).encode()
    try:
        return encoding.from_json(given)
    except ValueError as error:
        raise ValueError(f"the {name} is no {encoding.name}: {error}") from None


def _integer(found: dict[str, Any], name: str) -> int | None:
    given = found.get(name)
    if given is not None and type(given) is not int:
        raise ValueError(f"the {name} is no whole number: {given!r}")
    return given


def _headers(given: Any) -> list[tuple[str, bytes | None]]:
    """Return headers of a list, or of an object where no name occurs twice."""
    if given is None:
        return []
    if isinstance(given, dict):
        named = cast("dict[str, Any]", given)
        return [(name, _part({"value": content}, "value", None)) for name, content in named.items()]
    try:
        return [(_header_key(each), _part(each, "value", None)) for each in given]
    except (TypeError, KeyError):
        raise ValueError('headers are a list such as [{"key": "a", "value": "b"}]') from None


def _header_key(header: dict[str, Any]) -> str:
    key = header["key"]
    if not isinstance(key, str):
        raise TypeError
    return key
