"""Our codec against kio's, for every version that kio has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plugins.protocol_kafka.messages.kio_oracle import (
    from_kio,
    is_in_kio,
    kio_class,
    kio_decode,
    kio_encode,
    known_to_kio,
    to_kio,
)
from tests.plugins.protocol_kafka.messages.strategies import (
    all_versions,
    messages,
    minimal,
    newest_of_each_layout,
)
from tests.tables import for_each
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.schema import decode, encode

# Apache Kafka 4 dropped the old ones, and kio with it; ApiVersions 5 is newer than this kio.
NOT_IN_KIO = {
    "Produce": {0, 1, 2},
    "Fetch": {0, 1, 2, 3},
    "ListOffsets": {0},
    "OffsetCommit": {0, 1},
    "OffsetFetch": {0},
    "ApiVersions": {5},
    "CreateTopics": {0, 1},
    "DeleteTopics": {0},
    "OffsetForLeaderEpoch": {0, 1},
    "WriteTxnMarkers": {0, 2},
    "TxnOffsetCommit": {6},
    "DescribeAcls": {0},
    "CreateAcls": {0},
    "DeleteAcls": {0},
    "DescribeConfigs": {0},
    "AlterReplicaLogDirs": {0},
    "DescribeLogDirs": {0, 5},
    "JoinGroup": {0, 1},
    "DescribeGroups": {6},
    "DeleteGroups": {3},
    "CreateDelegationToken": {0},
    "RenewDelegationToken": {0},
    "ExpireDelegationToken": {0},
    "DescribeDelegationToken": {0},
}


def in_kio() -> list[Any]:
    return [parameter for parameter in all_versions() if is_in_kio(*parameter.values)]


def test_kio_lacks_known_versions_only() -> None:
    missing: dict[str, set[int]] = {}
    for parameter in all_versions():
        cls, version = parameter.values
        if not is_in_kio(cls, version):
            api = cls.__name__.removesuffix("Request").removesuffix("Response")
            missing.setdefault(api, set()).add(version)
    assert all(missing[api] <= NOT_IN_KIO.get(api, set()) for api in missing)


@for_each(("cls", "version"), in_kio())
def test_encode_of_a_small_message_agrees_with_kio_in_every_version(cls: type[Any], version: int) -> None:
    message = minimal(cls, version)
    schema = kio_class(cls, version)
    theirs = kio_decode(schema, encode(message, version))
    assert from_kio(theirs, cls, version) == message
    assert kio_encode(theirs) == encode(message, version)


@pytest.mark.long
@pytest.mark.parametrize(("cls", "version"), newest_of_each_layout(in_kio()))
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_encode_and_decode_agree_with_kio(cls: type[Any], version: int, data: st.DataObject) -> None:
    message = data.draw(messages(cls, version, known_to_kio))
    schema = kio_class(cls, version)
    encoded = encode(message, version)

    theirs = kio_decode(schema, encoded)
    assert from_kio(theirs, cls, version) == message
    assert kio_encode(theirs) == encoded

    built = to_kio(message, schema, version)
    assert kio_encode(built) == encoded
    assert decode(cls, version, kio_encode(built)) == message


def test_the_error_codes_are_the_same() -> None:
    from kio.schema.errors import ErrorCode as KioErrorCode

    for theirs in KioErrorCode:
        ours = ErrorCode(theirs.value)
        assert (ours.name, ours.retriable) == (theirs.name.upper(), theirs.retriable)
