"""Configuration keys of the interceptor `schema_validation`: in tables `[interceptors.NAME]`."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.types import boolean, choice, integer, string

JSON: Final = "json"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
_ONLY: Final = ("interceptors.NAME.type", "schema_validation")

FORMAT = ConfigKey(
    name="interceptors.NAME.schema_validation.format",
    type=choice(JSON, AVRO, PROTOBUF),
    default=JSON,
    documentation="`json`: a JSON Schema, with the extra `json-schema` of tidelog. `avro`: an Avro schema in "
    "JSON, with the extra `avro`. `protobuf`: descriptors as `protoc --descriptor_set_out` writes them, with "
    "the extra `protobuf`.",
    only_with=_ONLY,
)
FILE = ConfigKey(
    name="interceptors.NAME.schema_validation.file",
    type=string(),
    default="",
    documentation="The file with the schema, which is read when the broker starts.",
    only_with=_ONLY,
)
MESSAGE = ConfigKey(
    name="interceptors.NAME.schema_validation.message",
    type=string(),
    default="",
    documentation="The full name of the Protobuf message that values are, such as `shop.Order`.",
    only_with=_ONLY,
)
SKIP_BYTES = ConfigKey(
    name="interceptors.NAME.schema_validation.skip.bytes",
    type=integer(0, 64),
    default=0,
    documentation="Bytes in front of each value that are none of it: 5 for the frame of clients of a schema "
    "registry, 6 with Protobuf if the message is the first one of its file.",
    only_with=_ONLY,
)
MAX_VALUE_BYTES = ConfigKey(
    name="interceptors.NAME.schema_validation.max.value.bytes",
    type=integer(1),
    default=1024 * 1024,
    documentation="Larger values are refused before they are looked at.",
    only_with=_ONLY,
)
ALLOW_NULL = ConfigKey(
    name="interceptors.NAME.schema_validation.allow.null",
    type=boolean(),
    default=True,
    documentation="Whether records without a value, such as tombstones, are accepted.",
    only_with=_ONLY,
)
