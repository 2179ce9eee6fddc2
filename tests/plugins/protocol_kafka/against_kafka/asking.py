"""The same requests to Apache Kafka and to tidelog, over sockets."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tests.deadlines import DEADLINE_S
from tests.plugins.protocol_kafka.apis.client import answer_in, framed
from tidelog.plugins.protocol_kafka.messages.api import Api
from tidelog.plugins.schema.declare import FieldSpec, spec_of
from tidelog.plugins.schema.types import (
    BYTES,
    RECORDS,
    STRING,
    UUID,
    ZERO_UUID,
    Array,
    Primitive,
    Struct,
)

TEXTS = frozenset({"error_message", "documentation"})
SOME = "some text"


class Asker:
    """A connection to one broker."""

    def __init__(self, bootstrap: str, client_id: str | None = "tests") -> None:
        self._client_id = client_id
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), DEADLINE_S)
        self._file = self._socket.makefile("rb")

    def close(self) -> None:
        """Disconnect."""
        self._file.close()
        self._socket.close()

    def ask(self, api: Api, version: int, request: object) -> Any:
        """The answer to a request."""
        self.send(framed(api, version, request, client_id=self._client_id))
        return self.receive(api, version)

    def send(self, frame: bytes) -> None:
        """Send a request; `receive` returns its answer."""
        self._socket.sendall(frame)

    def receive(self, api: Api, version: int) -> Any:
        """The next answer, which is one of that API and version."""
        head = self._file.read(4)
        assert len(head) == 4, f"{api.name} {version}: the connection was closed"
        (size,) = struct.unpack(">i", head)
        return answer_in(api, version, head + self._file.read(size))


def plain(message: Any, texts: frozenset[str] = TEXTS) -> Any:
    """A message as dictionaries and lists; lists of structures are sorted, as Kafka has no order for them.

    Of `texts` for the user only that there is one is left: the words are each broker's own.
    """
    if attrs.has(type(message)):
        names = [field.name for field in attrs.fields(type(message))]
        values = {name: plain(getattr(message, name), texts) for name in names}
        return {name: value and SOME if name in texts else value for name, value in values.items()}
    if isinstance(message, list):
        items = [plain(item, texts) for item in message]
        return sorted(items, key=repr) if items and isinstance(items[0], dict) else items
    return message


def same_answers(kafka: Asker, tidelog: Asker, script: Sequence[tuple[Api, int, Any]]) -> None:
    """Assert that both brokers answer each request of a script alike, one after the other.

    Kafka applies a change soon after it has acknowledged it, so it may be asked again for a description.
    """
    for api, version, request in script:
        found = plain(tidelog.ask(api, version, request))
        expected = plain(kafka.ask(api, version, request))
        deadline = time.monotonic() + DEADLINE_S
        while found != expected and api.name.startswith("Describe") and time.monotonic() < deadline:
            expected = plain(kafka.ask(api, version, request))
        assert found == expected, f"{api.name} {version}: {request}"


def message(cls: type[Any], values: Mapping[str, Any]) -> Any:
    """A message of dictionaries and lists; a field without value or default is 0, empty or null."""
    fields = {
        field.name: _value(spec_of(field), values[field.name])
        if field.name in values
        else _nothing(spec_of(field))
        for field in attrs.fields(cls)
        if field.name in values or field.default is attrs.NOTHING
    }
    assert values.keys() <= {field.name for field in attrs.fields(cls)}, f"{cls.__name__}: {list(values)}"
    return cls(**fields)


def _value(spec: FieldSpec, value: Any) -> Any:
    kind = spec.kind
    if isinstance(kind, Array) and value is not None:
        return [_value(spec._replace(kind=kind.element), item) for item in value]
    if isinstance(kind, Struct) and value is not None:
        return message(kind.cls, value)
    return memoryview(value) if kind is RECORDS and value is not None else value


def _nothing(spec: FieldSpec) -> Any:
    if spec.nullable is not None:
        return None
    if isinstance(spec.kind, Array):
        return []
    return (
        {STRING: "", BYTES: b"", UUID: ZERO_UUID}.get(spec.kind, 0)
        if isinstance(spec.kind, Primitive)
        else None
    )
