"""Every served message in every version, against the schemas in the jars of Apache Kafka's releases."""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from typing import Any, Final, NamedTuple

import pytest

from tests.peers import NEWEST_KAFKA, OLD_PROTOCOLS_KAFKA, find_kafka
from tidelog.plugins.protocol_kafka.messages.api import APIS
from tidelog.plugins.schema.declare import versions_of
from tidelog.plugins.schema.layout import message_layout
from tidelog.plugins.schema.types import Array, Struct

_COMMENT: Final = re.compile(r"(^|(?<=[\s,{\[]))//.*$", re.MULTILINE)
_NAMES: Final = {
    ("InitProducerIdRequest", "enable2Pc"): "enable2pc",
    # Renamed in 4.4, with the same bytes.
    ("TxnOffsetCommitRequest", "generationIdOrMemberEpoch"): "generationId",
    # The name of the API in 3.9.
    ("ListClientMetricsResourcesResponse", "clientMetricsResources"): "configResources",
    ("ListClientMetricsResourcesResponse", "name"): "resourceName",
}
"""Fields of Kafka's schemas that are called otherwise here."""
_TYPES: Final = {"records": "bytes"}

Shape = list["FieldShape"]


class FieldShape(NamedTuple):
    """A field on the wire: what its bytes depend on, and its name."""

    name: str
    kind: object
    nullable: bool
    tag: int | None


def _own(layout: Any) -> Shape:
    return [
        FieldShape(_camel(field.name), _own_kind(layout, field.kind), field.nullable, field.tag)
        for field in layout.fields + layout.tagged
    ]


def _own_kind(layout: Any, kind: Any) -> object:
    if isinstance(kind, Array):
        return [_own_kind(layout, kind.element)]
    return _own(layout.nested(kind)) if isinstance(kind, Struct) else _TYPES.get(kind.name, kind.name)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _in(versions: str | None, version: int) -> bool:
    if versions is None or versions == "none":
        return False
    low, dash, high = versions.partition("-")
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    return int(low) <= version <= int(high if dash else low)


class Schema:
    """One message of a release."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._common = {each["name"]: each["fields"] for each in document.get("commonStructs", ())}

    def shape(self, version: int) -> Shape:
        """Return the fields of a version in wire order, then the tagged ones."""
        return self._shape(self.document["fields"], version)

    def _shape(self, fields: list[dict[str, Any]], version: int) -> Shape:
        found: Shape = []
        for field in fields:
            if not _in(field.get("versions", field.get("taggedVersions")), version):
                continue
            tagged = _in(field.get("taggedVersions"), version)
            given = field["name"][0].lower() + field["name"][1:]
            name = _NAMES.get((self.document["name"], given), given)
            kind, nullable = self._kind(field, version), _in(field.get("nullableVersions"), version)
            found.append(FieldShape(name, kind, nullable, field["tag"] if tagged else None))  # pyright: ignore[reportArgumentType]
        return sorted(found, key=lambda field: -1 if field.tag is None else field.tag)

    def _kind(self, field: dict[str, Any], version: int) -> object:
        name: str = field["type"]
        element = name.removeprefix("[]")
        kind: object = _TYPES.get(element, element)
        if element[0].isupper():
            kind = self._shape(field.get("fields") or self._common[element], version)
        return [kind] if name.startswith("[]") else kind


@cache
def _schemas(release: str) -> dict[tuple[int, str], Schema]:
    found: dict[tuple[int, str], Schema] = {}
    with zipfile.ZipFile(find_kafka(release).jars / f"kafka-clients-{release}.jar") as jar:
        for name in jar.namelist():
            if name.startswith("common/message/") and name.endswith(("Request.json", "Response.json")):
                document = json.loads(_COMMENT.sub("", jar.read(name).decode()))
                found[document["apiKey"], document["type"]] = Schema(document)
    return found


@pytest.mark.parametrize("release", [NEWEST_KAFKA, OLD_PROTOCOLS_KAFKA])
def test_messages_have_the_layout_of_the_schemas_of_a_release(release: str) -> None:
    compared, wrong = 0, []
    for (key, direction), schema in _schemas(release).items():
        if key not in APIS:
            continue
        cls = APIS[key].request_class if direction == "request" else APIS[key].response_class
        span = versions_of(cls)
        low, _, high = schema.document["validVersions"].partition("-")
        for version in range(int(low), int(high or low) + 1):
            theirs = schema.shape(version), _in(schema.document["flexibleVersions"], version)
            ours = _own(message_layout(cls, version)), span.is_flexible(version)
            compared += 1
            if ours != theirs:
                wrong.append(f"{cls.__name__} {version}:\n  ours   {ours}\n  theirs {theirs}")
    assert not wrong, "\n".join(wrong)
    assert compared > 300
