"""How keys and values of records look in bodies: as JSON, or as base64; and records as lines, or alone."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from tidelog.plugins.protocol_http import json_text
from tidelog.plugins.protocol_http.messages import JSON, HttpProblem

if TYPE_CHECKING:
    from tidelog.kernel.records.record import Record

Embedded: TypeAlias = Literal["json", "binary"]
"""The format of keys and values within JSON."""

NDJSON: Final = "application/x-ndjson"
OCTETS: Final = "application/octet-stream"
EVENT_STREAM: Final = "text/event-stream"
KAFKA_JSON: Final = "application/vnd.kafka.json.v2+json"
KAFKA_BINARY: Final = "application/vnd.kafka.binary.v2+json"
KAFKA: Final = "application/vnd.kafka.v2+json"
EMBEDDED_OF: Final[Mapping[str, Embedded]] = {
    JSON: "json",
    KAFKA: "json",
    KAFKA_JSON: "json",
    KAFKA_BINARY: "binary",
}
"""Media types of bodies that are JSON as a whole."""
NO_PARTITION: Final = -1


class FetchedRecord(NamedTuple):
    """A record, and where it is."""

    topic: str
    partition: int
    record: Record


class BodyRecord(NamedTuple):
    """A record to append; a partition of -1 leaves the choice to the broker, a timestamp of -1 is now."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def _value_of_json(value: Any, text: str) -> bytes | None:
    """Return the text as it was sent."""
    return None if value is None else text.encode()


def _key_of_json(value: Any, _text: str) -> bytes | None:
    """Return compact text: spaces do not make another key of it, which would be in another partition."""
    return None if value is None else json_text.encode(value)


def _of_base64(value: Any, _text: str = "") -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise HttpProblem(422, "keys and values are strings of base64 in this format")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise HttpProblem(422, f"a key or value is not base64: {error}") from error


class Contents(NamedTuple):
    """What becomes of a key and a value in a record of JSON, which has both as value and as text."""

    key_of: Callable[[Any, str], bytes | None]
    value_of: Callable[[Any, str], bytes | None]


CONTENTS_OF: Final[Mapping[Embedded, Contents]] = {
    "json": Contents(_key_of_json, _value_of_json),
    "binary": Contents(_of_base64, _of_base64),
}
FIELDS: Final = frozenset(("key", "value", "partition", "timestamp", "headers"))
_NOTHING: Final = json_text.Member(None, "null")
_VALUE_ALONE: Final = re.compile(r'\{[ \t\n\r]*"value"[ \t\n\r]*:[ \t\n\r]*')
_END: Final = re.compile(r"[ \t\n\r]*\}")


def record_at(contents: Contents, text: str, position: int) -> tuple[BodyRecord, int]:
    """Return the record that an element of `records` describes, and the position behind it.

    Raises:
        HttpProblem: it describes none.
        ValueError: it is no JSON.
    """
    # Most records are a value and no more: half of the work for each.
    if (start := _VALUE_ALONE.match(text, position)) is not None:
        value, end = json_text.value_at(text, start.end())
        if (closed := _END.match(text, end)) is not None:
            content = contents.value_of(value, text[start.end() : end])
            return BodyRecord(NO_PARTITION, None, content, -1), closed.end()
    if text[position : position + 1] != "{":
        json_text.value_at(text, position)
        raise HttpProblem(422, "a record is an object with key, value, partition, timestamp and headers")
    members, position = json_text.members_at(text, position)
    return _record_of(members, contents), position


def _record_of(members: Mapping[str, json_text.Member], contents: Contents) -> BodyRecord:
    if not members.keys() <= FIELDS:
        unknown = min(members.keys() - FIELDS)
        raise HttpProblem(422, f"a record has no member {unknown[:100]!r}")
    headers = members.get("headers", _NOTHING).value
    try:
        return BodyRecord(
            _number(members, "partition", 2**31 - 1),
            contents.key_of(*members.get("key", _NOTHING)),
            contents.value_of(*members.get("value", _NOTHING)),
            _number(members, "timestamp", 2**63 - 1),
            tuple(map(_header, headers)) if headers else (),
        )
    except (TypeError, UnicodeEncodeError) as error:
        raise HttpProblem(422, f"a record is invalid: {error}") from error


def _number(members: Mapping[str, json_text.Member], name: str, most: int) -> int:
    value = members.get(name, _NOTHING).value
    if value is None:
        return -1
    if type(value) is not int or not 0 <= value <= most:
        raise HttpProblem(422, f"the {name} of a record is a number from 0 to {most}")
    return value


def _header(element: Any) -> tuple[bytes, bytes | None]:
    if not json_text.is_object(element) or not isinstance(element.get("name"), str):
        raise HttpProblem(422, "a header of a record is an object with a name and a base64 value")
    return element["name"].encode(), _of_base64(element.get("value"))


def record_text(fetched: FetchedRecord, embedded: Embedded) -> str:
    """Return a record as JSON in one line.

    A key or value that is no JSON is in `key_base64` or `value_base64` where JSON is asked for.
    """
    record = fetched.record
    parts = [
        f'{{"topic":{json_text.encode_text(fetched.topic)},"partition":{fetched.partition},'
        f'"offset":{record.offset},"timestamp":{record.timestamp}',
        _content("key", record.key, embedded),
        _content("value", record.value, embedded),
    ]
    if record.headers:
        headers = [{"name": name, "value": _base64(value)} for name, value in record.headers]
        parts.append(f'"headers":{json_text.encode_text(headers)}')
    return ",".join(parts) + "}"


def _content(name: str, content: bytes | None, embedded: Embedded) -> str:
    if content is None:
        return f'"{name}":null'
    if embedded == "binary":
        return f'"{name}":"{_base64(content)}"'
    try:
        json_text.decode(content)
    except HttpProblem:
        return f'"{name}_base64":"{_base64(content)}"'
    # As it is stored, but for the ends of lines, which are whitespace there.
    return f'"{name}":{content.decode()}'.replace("\n", " ").replace("\r", " ")


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def json_array(texts: Iterable[str]) -> bytes:
    """Return an array of values that are JSON already."""
    return ("[" + ",".join(texts) + "]").encode()


def accepted(accept: str, offered: Sequence[str]) -> str:
    """Return the first media type in `Accept` that is offered, the first offered one for `*/*` or nothing.

    Raises:
        HttpProblem: none is.
    """
    names = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    for name in names:
        if name in offered:
            return name
        if name in ("", "*/*", "application/*"):
            return offered[0]
    raise HttpProblem(406, f"this is offered as {', '.join(offered)}", 40601)
