"""The interceptor `schema_validation`: what it refuses, and what bounds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.protocol_kafka.apis.topics import new_topic
from tests.plugins.protocol_kafka.interception.produced import TOPIC, send, values
from tests.tables import for_each
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import new_broker, running_broker
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.schema_validation.avro import avro_check
from tidelog.plugins.schema_validation.json_schema import json_check
from tidelog.plugins.schema_validation.protobuf import protobuf_check
from tidelog.plugins.schema_validation.unfit import Unfit

fastavro = pytest.importorskip("fastavro")
jsonschema = pytest.importorskip("jsonschema")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

LIMIT_S = 60.0
ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "mail": {"type": "string", "pattern": "^[^@]+@[^@]+$"}},
    "required": ["id"],
    "additionalProperties": False,
}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "to", "type": "string"}],
}


def fits(check: Callable[[bytes], None], value: bytes) -> str:
    """Why a value does not fit; empty if it does."""
    try:
        check(value)
    except Unfit as unfit:
        return str(unfit)
    return ""


def for_json(schema: object, limit_s: float = LIMIT_S) -> Callable[[bytes], None]:
    return json_check(json.dumps(schema).encode(), limit_s)


@for_each(
    ("value", "fault"),
    [
        (b'{"id":1}', ""),
        (b'{"id":1,"mail":"a@b"}', ""),
        (b'{"id":"1"}', "$.id: '1' is not of type 'integer'"),
        (b"{}", "$: 'id' is a required property"),
        (b'{"id":1,"mail":"a"}', "$.mail: 'a' does not match '^[^@]+@[^@]+$'"),
        (b'{"id":1,"x":2}', "$: the field 'x' is not expected"),
        (b"{", "the value is not JSON: "),
        (b"", "the value is not JSON: "),
        (b"\xff", "the value is not JSON: "),
        (b'{"id":NaN}', "the value is not JSON: NaN is no JSON"),
        (b'{"id":' + b"9" * 5000 + b"}", "the value is not JSON: "),
        (b"[" * 200_000, "the document is nested too deeply"),
        (b'{"mail":"' + b"x" * 100_000 + b'","id":1}', "$.mail: "),
    ],
)
def test_json_check_says_why_a_document_does_not_fit(value: bytes, fault: str) -> None:
    found = fits(for_json(ORDER), value)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)
    assert len(found) <= 200


@for_each(
    ("schema", "problem"),
    [
        ({"type": "nothing"}, "it is no JSON Schema"),
        ({"pattern": "(a+)+\\1"}, "a pattern that RE2 does not know"),
        ({"patternProperties": {"(?=a)": {}}}, "a pattern that RE2 does not know"),
        ({"$ref": "http://127.0.0.1:1/schema.json"}, "nothing is fetched from elsewhere"),
        ({"$ref": "file:///etc/passwd"}, "nothing is fetched from elsewhere"),
        ({"$ref": "#/$defs/none"}, "nothing is fetched from elsewhere"),
        ({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, "unevaluatedProperties"),
    ],
)
def test_json_check_refuses_schemas_that_cannot_be_used(schema: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        for_json(schema)


def test_json_check_ends_with_a_schema_that_explodes() -> None:
    # Each level doubles the work, and no document of it fits.
    explosive: dict[str, Any] = {"$defs": {"l0": {"type": "integer"}}}
    for level in range(1, 40):
        below = {"$ref": f"#/$defs/l{level - 1}"}
        explosive["$defs"][f"l{level}"] = {"anyOf": [{"allOf": [below]}, {"allOf": [below]}]}
    explosive["$ref"] = "#/$defs/l39"
    assert fits(for_json(explosive, 0.01), b'"x"') == "the document takes too long to compare with the schema"


def test_json_check_bounds_recursion_patterns_and_uniqueness() -> None:
    tree = {"properties": {"next": {"$ref": "#"}}}
    deep = b'{"next":' * 400 + b"1" + b"}" * 400
    assert fits(for_json(tree), deep) in ("", "the document is nested too deeply")
    assert fits(for_json({"pattern": "^(a+)+$"}), b'"' + b"a" * 100_000 + b'!"').startswith("$: ")
    unique = for_json({"uniqueItems": True})
    mixed = json.dumps([*range(20_000), *map(str, range(20_000)), {"a": 1}, {"a": [1]}]).encode()
    assert fits(unique, mixed) == ""
    assert fits(unique, b"[1, 1.0]") == fits(unique, b'[{"a":1,"b":2},{"b":2,"a":1}]') != ""
    assert fits(unique, b"[1, true, [1], [true]]") == ""


@for_each(
    ("schema", "problem"),
    [
        (
            {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]},
            "refers to itself",
        ),
        ({"type": "array", "items": "null"}, "take no bytes"),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, "take no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "take no bytes"),
        ({"type": "unknown"}, "no Avro schema"),
        (7, "no schema"),
    ],
)
def test_avro_check_refuses_schemas_whose_values_are_not_bounded(schema: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        avro_check(json.dumps(schema).encode())


def test_avro_check_reads_whole_values() -> None:
    check = avro_check(json.dumps(AVRO).encode())
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"id": 7, "to": "x"})
    assert fits(check, out.getvalue()) == ""
    assert fits(check, out.getvalue() + b"!") == "1 bytes follow the Avro value"
    assert fits(check, out.getvalue()[:-1]) != ""
    assert fits(check, b"\x02" + b"\xff" * 9 + b"\x01") != ""
    many = avro_check(json.dumps({"type": "array", "items": "long"}).encode())
    # A block of 2^61 elements.
    assert fits(many, b"\x80\x80\x80\x80\x80\x80\x80\x80\x40") != ""


def descriptors() -> bytes:
    """What protoc would write of `message Order { required int32 id = 1; Order next = 2; }`."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="shop.proto", package="shop")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=5, label=2)
    message.field.add(name="next", number=2, type=11, label=1, type_name=".shop.Order")
    written: bytes = files.SerializeToString()
    return written


def test_protobuf_check_parses_messages() -> None:
    check = protobuf_check(descriptors(), "shop.Order")
    assert fits(check, b"\x08\x07") == ""
    assert "required field" in fits(check, b"")
    assert fits(check, b"\xff\xff") == "the value is no shop.Order"
    deep = b""
    for _ in range(200):
        deep = b"\x08\x07\x12" + _varint(len(deep)) + deep
    assert fits(check, deep) != ""
    for content, message in ((descriptors(), "shop.None"), (b"\xff", "shop.Order")):
        with pytest.raises(ValueError, match="it has no"):
            protobuf_check(content, message)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def table(file: Path, **settings: object) -> dict[str, object]:
    named = {f"interceptors.it.schema_validation.{key}": value for key, value in settings.items()}
    return {
        "interceptors.it.type": "schema_validation",
        "interceptors.it.schema_validation.file": file,
        **named,
    }


async def test_values_are_validated_behind_the_frame_of_a_registry(tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps(ORDER))
    settings = table(file, **{"skip.bytes": 5, "max.value.bytes": 100, "allow.null": False})
    async with running_broker(settings) as broker:
        await new_topic(broker)
        frame = b"\0\0\0\0\1"
        assert (await send(broker, make_batch([frame + b'{"id":1}']))).error_code == 0
        for value, fault in (
            (frame + b"{}", "record 0: $: 'id' is a required property"),
            (b"\0", "record 0: the value has 1 bytes, fewer than are in front of it"),
            (b"x" * 101, "record 0: the value has 101 bytes, more than 100"),
            (None, "record 0: the value is null"),
        ):
            refused = await send(broker, make_batch([value], keys=[b"k"]))
            assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_RECORD, fault)
        assert values(broker, TOPIC) == [frame + b'{"id":1}']


def test_a_schema_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"schema_validation\.file = .* cannot be used: .*No such file"):
        new_broker(table(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be used"):
        new_broker(table(tmp_path / "bad.json"))
