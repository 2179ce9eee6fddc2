"""Versions that Apache Kafka 4 dropped, against the hand-written schemas of kafka-python."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plugins.protocol_kafka.messages.strategies import all_versions, messages
from tidelog.plugins.schema import decode, encode
from tidelog.plugins.schema.layout import Layout, message_layout
from tidelog.plugins.schema.types import Array, Struct

# kafka-python reads its schemas with a function that Python has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

DROPPED = {
    "Produce": ("produce", {0, 1, 2}),
    "Fetch": ("fetch", {0, 1, 2, 3}),
    "ListOffsets": ("list_offsets", {0}),
    "CreateTopics": ("admin", {0, 1}),
    "DeleteTopics": ("admin", {0}),
    "OffsetForLeaderEpoch": ("offset_for_leader_epoch", {0, 1}),
    "DescribeConfigs": ("admin", {0}),
    "JoinGroup": ("group", {0, 1}),
}


def dropped_versions() -> list[Any]:
    return [
        parameter
        for parameter in all_versions()
        if parameter.values[1] in DROPPED.get(api_name(parameter.values[0]), ("", set[int]()))[1]
    ]


def api_name(cls: type[Any]) -> str:
    return cls.__name__.removesuffix("Request").removesuffix("Response")


def old_class(cls: type[Any], version: int) -> Any:
    """kafka-python's class for a version."""
    module = import_module(f"kafka.protocol.old.{DROPPED[api_name(cls)][0]}")
    return getattr(module, f"{cls.__name__}_v{version}")


def in_wire_order(value: Any, layout: Layout) -> tuple[Any, ...]:
    """The fields of a structure as nested tuples and lists, which is what those schemas take."""
    values: list[Any] = []
    for field in layout.fields:
        item = getattr(value, field.name)
        if isinstance(field.kind, Array) and isinstance(field.kind.element, Struct) and item is not None:
            inner = layout.nested(field.kind.element)
            item = [in_wire_order(element, inner) for element in item]
        values.append(bytes(item) if isinstance(item, memoryview) else item)
    return tuple(values)


@pytest.mark.parametrize(("cls", "version"), dropped_versions())
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_encode_and_decode_of_old_versions_agree_with_kafka_python(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    theirs = old_class(cls, version)(*in_wire_order(message, message_layout(cls, version))).encode()
    assert encode(message, version) == theirs
    assert decode(cls, version, theirs) == message
