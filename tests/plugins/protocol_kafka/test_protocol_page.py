"""docs/protocol.md lists what ApiVersions returns; every API of Kafka's brokers is served or has a reason."""

from __future__ import annotations

import json
import re
import zipfile
from typing import Any

import pytest

from tests.docs.error_table import REASONS, SHOWN, compared
from tests.docs.protocol_tables import (
    PAGE,
    ROOT,
    KafkaVersions,
    files_with_tests_of,
    kafka_versions,
    with_tables,
)
from tests.peers import NEWEST_KAFKA, OLD_PROTOCOLS_KAFKA, find_kafka
from tests.tables import for_each
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.errors import CODES
from tidelog.plugins.protocol_kafka.messages.api import APIS
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.routes import Routes
from tidelog.plugins.protocol_kafka.unserved import UNSERVED

SERVED = {api.key for api in BUILT_IN}
RENAMED = {"ListClientMetricsResources": "ListConfigResources"}
_COMMENT = re.compile(r"(^|(?<=[\s,{\[]))//.*$", re.MULTILINE)


def test_the_page_lists_the_served_versions() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)-(\d+) \|(?:[^|]*\|){6}$", PAGE.read_text(), re.MULTILINE)
    listed = {int(key): (name, int(low), int(high)) for key, name, low, high in rows}
    assert listed == {api.key: (api.name, api.span.low, api.span.high) for api in BUILT_IN}


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    assert with_tables(PAGE.read_text()) == PAGE.read_text(), "docs/protocol.md is stale: run `make docs`"


def test_every_error_is_shown_or_has_a_reason() -> None:
    shown = [error.name for error in ({**compared(), **SHOWN})]
    assert sorted([*shown, *REASONS, ErrorCode.NONE.name]) == sorted(error.name for error in ErrorCode)
    missing = set(CODES.values()) - set(compared()) - set(SHOWN)
    assert missing == {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}, "the broker has errors that have no test"


def test_every_error_is_shown_by_a_test_that_exists() -> None:
    for error, (_, file, test, _) in SHOWN.items():
        assert f"def {test}(" in (ROOT / file).read_text(), error.name


def test_every_api_of_kafka_is_served_or_has_a_reason() -> None:
    kafka = kafka_versions()
    assert kafka.keys() == SERVED | UNSERVED.keys()
    assert not SERVED & UNSERVED.keys()
    assert {key: api.name for key, api in kafka.items()} == {
        key: APIS[key].name if key in SERVED else UNSERVED[key].name for key in kafka
    }


def test_every_served_api_has_tests() -> None:
    assert [APIS[key].name for key in SERVED if not files_with_tests_of(key)] == []


def test_every_version_of_kafkas_releases_is_served() -> None:
    missing = [
        (api.name, version)
        for api in BUILT_IN
        for version in _versions(kafka_versions()[api.key])
        if not api.span.covers(version)
    ]
    assert missing == []


@for_each("key", sorted(UNSERVED))
def test_find_route_names_an_api_that_is_not_served_and_the_reason(key: int) -> None:
    with pytest.raises(ProtocolViolation) as raised:
        _ = Routes(BUILT_IN)[key, 0]
    name, reason = UNSERVED[key]
    assert str(raised.value) == f"API key {key} ({name}) is not served here: {reason}"


@pytest.mark.parametrize("release", [OLD_PROTOCOLS_KAFKA, NEWEST_KAFKA])
def test_kafka_versions_are_those_of_the_schemas_of_a_release(release: str) -> None:
    column = 1 if release == OLD_PROTOCOLS_KAFKA else 2
    assert _schema_versions(release) == {
        key: (api.name, api[column]) for key, api in kafka_versions().items() if api[column] != "-"
    }


def _versions(kafka: KafkaVersions) -> set[int]:
    found: set[int] = set()
    for span in (kafka.older, kafka.newest):
        if span != "-":
            low, _, high = span.partition("-")
            found |= set(range(int(low), int(high) + 1))
    return found


def _schema_versions(release: str) -> dict[int, tuple[str, str]]:
    """Return the names and stable versions of all APIs on a broker's listener."""
    found: dict[int, tuple[str, str]] = {}
    with zipfile.ZipFile(find_kafka(release).jars / f"kafka-clients-{release}.jar") as jar:
        for name in jar.namelist():
            if name.startswith("common/message/") and name.endswith("Request.json"):
                schema = json.loads(_COMMENT.sub("", jar.read(name).decode()))
                versions = _stable_versions(schema)
                if versions is not None:
                    found[schema["apiKey"]] = versions
    return found


def _stable_versions(schema: dict[str, Any]) -> tuple[str, str] | None:
    if not {"broker", "zkBroker"} & set(schema.get("listeners") or ()):
        return None
    low, _, high = schema["validVersions"].partition("-")
    newest = int(high or low) - bool(schema.get("latestVersionUnstable"))
    given: str = schema["name"].removesuffix("Request")
    name = RENAMED.get(given, given)
    return None if newest < int(low) else (name, f"{low}-{newest}")
