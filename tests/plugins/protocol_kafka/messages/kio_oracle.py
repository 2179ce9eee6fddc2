"""The kio package as an oracle: its entities from our messages, and back.

kio has a class per version whose fields stand in wire order like ours. It knows durations, times, error codes
and UUIDs as such, which the conversions here undo.
"""

from __future__ import annotations

import dataclasses
import io
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from tidelog.plugins.protocol_kafka.messages.api import APIS
from tidelog.plugins.schema.layout import message_layout
from tidelog.plugins.schema.types import ZERO_UUID, Array, Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import SearchStrategy

    from tidelog.plugins.protocol_kafka.messages.api import Api
    from tidelog.plugins.schema.layout import Field, Layout

_MILLISECOND = timedelta(milliseconds=1)
_LAST_SECOND = int(datetime.max.replace(tzinfo=UTC).timestamp()) - 1
_EPOCH = datetime.fromtimestamp(0, UTC)


def is_in_kio(cls: type[Any], version: int) -> bool:
    """Whether kio has a class for a message in one version: to load all of its classes takes seconds."""
    return version in schema_name_map[api_key_map[_apis()[cls].key]]


def kio_class(cls: type[Any], version: int) -> type[Any]:
    """kio's class for a message in one version that it has."""
    api = _apis()[cls]
    load: Any = load_request_schema if cls is api.request_class else load_response_schema
    schema: type[Any] = load(api.key, version)
    return schema


@cache
def _apis() -> dict[type[Any], Api]:
    """The APIs by the classes of their messages."""
    return {cls: api for api in APIS.values() for cls in (api.request_class, api.response_class)}


def kio_encode(entity: Any) -> bytes:
    """kio's encoding of one of its entities."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def kio_decode(schema: type[Any], data: bytes) -> Any:
    """The entity that kio decodes; all of the bytes have to belong to it."""
    entity, size = entity_reader(schema)(data, 0)
    assert size == len(data)
    return entity


_TIMES = {"transaction_start_time_ms", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"}
_PERIODS = {"retention_time_ms", "max_lifetime_ms", "renew_period_ms", "expiry_time_period_ms"}


def known_to_kio(field: Field) -> SearchStrategy[Any] | None:
    """Values of fields that kio restricts: error codes that it has, times in whole seconds."""
    if field.name.endswith("error_code") and field.name != "topic_config_error_code":
        return st.sampled_from(sorted(code.value for code in KioErrorCode))
    times = st.integers(0, _LAST_SECOND).map(lambda second: second * 1000)
    if field.name == "log_append_time_ms":
        return st.just(-1) | times
    if field.name in _TIMES:
        return times
    if field.name in _PERIODS:
        return st.integers(-1, _LAST_SECOND * 1000)
    return None


def to_kio(message: Any, schema: type[Any], version: int) -> Any:
    """kio's entity for a message."""
    return _to_kio(message, schema, message_layout(type(message), version))


def from_kio(entity: Any, cls: type[Any], version: int) -> Any:
    """Our message for one of kio's entities."""
    return _from_kio(entity, message_layout(cls, version))


def _pairs(layout: Layout, schema: type[Any]) -> Iterable[tuple[Field, Any]]:
    """Our fields of a version and kio's, in their common order."""
    present = {field.name: field for field in layout.fields + layout.tagged}
    ours = [present[name] for name in layout.cls.__slots__ if name in present]
    theirs = dataclasses.fields(schema)
    assert [_comparable(field.name) for field in ours] == [_comparable(field.name) for field in theirs]
    return zip(ours, theirs, strict=True)


def _comparable(name: str) -> str:
    """A name without its unit, which kio leaves out, and without underscores, which kio sets elsewhere."""
    return name.removesuffix("_ms").replace("_", "")


def _to_kio(message: Any, schema: type[Any], layout: Layout) -> Any:
    hints = _element_classes(schema)
    values: dict[str, Any] = {}
    for ours, theirs in _pairs(layout, schema):
        value = getattr(message, ours.name)
        values[theirs.name] = _value_to_kio(value, ours, theirs, hints.get(theirs.name), layout)
    return schema(**values)


def _value_to_kio(value: Any, ours: Field, theirs: Any, inner: type[Any] | None, layout: Layout) -> Any:
    if value is None:
        return None
    if isinstance(ours.kind, Array):
        element = ours.kind.element
        if isinstance(element, Struct):
            assert inner is not None
            return tuple(_to_kio(item, inner, layout.nested(element)) for item in value)
        return tuple(value)
    if isinstance(ours.kind, Struct):
        assert inner is not None
        return _to_kio(value, inner, layout.nested(ours.kind))
    match theirs.metadata["kafka_type"]:
        case "timedelta_i32" | "timedelta_i64":
            return value * _MILLISECOND
        case "datetime_i64":
            return None if value == -1 else _EPOCH + value * _MILLISECOND
        case "error_code":
            return KioErrorCode(value)
        case "uuid":
            return None if value == ZERO_UUID else UUID(bytes=value)
        case "records":
            return bytes(value)
        case _:
            return value


def _from_kio(entity: Any, layout: Layout) -> Any:
    values: dict[str, Any] = {}
    for ours, theirs in _pairs(layout, type(entity)):
        values[ours.name] = _value_from_kio(getattr(entity, theirs.name), ours, theirs, layout)
    return layout.cls(**values)


def _value_from_kio(value: Any, ours: Field, theirs: Any, layout: Layout) -> Any:
    if value is None:
        return {"datetime_i64": -1, "uuid": ZERO_UUID}.get(theirs.metadata.get("kafka_type"))
    if isinstance(ours.kind, Array):
        element = ours.kind.element
        return [
            _from_kio(item, layout.nested(element)) if isinstance(element, Struct) else item for item in value
        ]
    if isinstance(ours.kind, Struct):
        return _from_kio(value, layout.nested(ours.kind))
    match theirs.metadata.get("kafka_type"):
        case "timedelta_i32" | "timedelta_i64":
            return value // _MILLISECOND
        case "datetime_i64":
            return (value - _EPOCH) // _MILLISECOND
        case "error_code":
            return value.value
        case "uuid":
            return value.bytes
        case _:
            return value


def _element_classes(schema: type[Any]) -> dict[str, type[Any]]:
    """kio's classes of nested entities, by field."""
    found: dict[str, type[Any]] = {}
    for field in dataclasses.fields(schema):
        for candidate in _classes_in(field.type):
            if dataclasses.is_dataclass(candidate):
                found[field.name] = candidate
    return found


def _classes_in(annotation: Any) -> Iterable[type[Any]]:
    for argument in getattr(annotation, "__args__", ()):
        yield from _classes_in(argument)
    if isinstance(annotation, type):
        yield annotation
