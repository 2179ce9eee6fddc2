"""The table of APIs, and that importing it imports no message."""

from __future__ import annotations

import subprocess
import sys

import attrs
import pytest

from tests.tables import for_each
from tidelog.plugins.protocol_kafka.messages.api import (
    APIS,
    INIT_PRODUCER_ID,
    PRODUCE,
    Api,
    request_class,
    response_class,
)
from tidelog.plugins.schema.declare import versions_of

# By key: the newest version, and the first flexible one.
VERSIONS = {
    0: (13, 9),
    1: (18, 12),
    2: (11, 6),
    3: (13, 9),
    8: (10, 8),
    9: (10, 6),
    10: (6, 3),
    11: (9, 6),
    12: (4, 4),
    13: (5, 4),
    14: (5, 4),
    15: (6, 5),
    16: (5, 3),
    17: (1, None),
    18: (5, 3),
    19: (7, 5),
    20: (6, 4),
    21: (2, 2),
    22: (6, 2),
    23: (4, 4),
    24: (5, 3),
    25: (4, 3),
    26: (5, 3),
    27: (2, 1),
    28: (6, 3),
    29: (3, 2),
    30: (3, 2),
    31: (3, 2),
    32: (4, 4),
    33: (2, 2),
    34: (2, 2),
    35: (5, 2),
    36: (2, 2),
    37: (3, 2),
    38: (3, 2),
    39: (2, 2),
    40: (2, 2),
    41: (3, 2),
    42: (3, 2),
    43: (2, 2),
    44: (1, 1),
    45: (1, 0),
    46: (0, 0),
    47: (0, None),
    48: (1, 1),
    49: (1, 1),
    50: (0, 0),
    51: (0, 0),
    55: (2, 0),
    57: (2, 0),
    60: (2, 0),
    61: (0, 0),
    65: (0, 0),
    66: (2, 0),
    68: (1, 0),
    69: (1, 0),
    71: (0, 0),
    72: (0, 0),
    74: (1, 0),
    75: (0, 0),
}


def test_apis_have_the_newest_and_first_flexible_versions_of_kafka() -> None:
    assert {key: (api.versions.high, api.versions.flexible) for key, api in APIS.items()} == VERSIONS
    assert {api.versions.low for api in APIS.values()} == {0}


def test_newest_stable_is_below_the_newest_version_of_init_producer_id_only() -> None:
    unfinished = {api.name for api in APIS.values() if api.newest_stable != api.versions.high}
    assert unfinished == {"InitProducerId"}
    assert INIT_PRODUCER_ID.newest_stable == 5


@for_each("api", APIS.values(), ids=lambda api: api.name)
def test_classes_go_by_the_name_of_their_api(api: Api) -> None:
    for cls, suffix in ((request_class(api.key), "Request"), (response_class(api.key), "Response")):
        assert cls.__name__ == api.name + suffix
        assert versions_of(cls) is api.versions


def test_request_header_version_and_response_header_version_of_produce() -> None:
    assert [PRODUCE.request_header_version(version) for version in (0, 8, 9, 13)] == [1, 1, 2, 2]
    assert [PRODUCE.response_header_version(version) for version in (0, 8, 9, 13)] == [0, 0, 1, 1]


def test_request_class_of_an_unknown_api_key_raises_key_error() -> None:
    with pytest.raises(KeyError):
        request_class(4)


def test_an_api_is_imported_only_when_it_is_asked_for() -> None:
    program = """
import sys
import tidelog.plugins.protocol_kafka.messages.header
from tidelog.plugins.protocol_kafka.messages.api import APIS

def loaded():
    package = "tidelog.plugins.protocol_kafka.messages"
    return [api.name for api in APIS.values() if f"{package}.{api.module}" in sys.modules]

assert loaded() == [], loaded()
APIS[18].request_class
assert loaded() == ["ApiVersions"], loaded()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_request_class_has_slots_and_keyword_only_fields() -> None:
    cls = request_class(0)
    assert all(attribute.kw_only for attribute in attrs.fields(cls))
    with pytest.raises(AttributeError):
        cls(acks=1, timeout_ms=1, topic_data=[]).acknowledgements = 1
