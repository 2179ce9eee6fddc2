"""UpdateFeatures, and what ApiVersions and the consumer protocol make of the levels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    UPDATE_FEATURES,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.plugins.protocol_kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.update_features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

from .client import Client, versions_of

GROUP, TRANSACTION = "group.version", "transaction.version"
METADATA, ELR, KRAFT = "metadata.version", "eligible.leader.replicas.version", "kraft.version"
SHARE, STREAMS = "share.version", "streams.version"
NEW = {METADATA: 33, ELR: 1, GROUP: 1, TRANSACTION: 2, KRAFT: 1, SHARE: 2, STREAMS: 1}
"""Levels of a directory that this broker formatted."""

Change = tuple[str, int, int]


async def update(
    client: Client, *changes: Change, version: int = 2, validate_only: bool = False
) -> UpdateFeaturesResponse:
    """Request levels; version 0 has no upgrade types but a flag for downgrades."""
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, allow_downgrade=kind != UPGRADE)
            if version == 0
            else FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in changes
        ],
        validate_only=validate_only,
    )
    answer: UpdateFeaturesResponse = await client.ask(UPDATE_FEATURES, version, request)
    return answer


async def announced(client: Client, version: int = 4) -> ApiVersionsResponse:
    """ApiVersions response."""
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    answer: ApiVersionsResponse = await client.ask(API_VERSIONS, version, request)
    return answer


async def levels(client: Client) -> dict[str, int]:
    """Finalized levels as ApiVersions returns them."""
    finalized = (await announced(client)).finalized_features
    assert all(feature.min_version_level == feature.max_version_level for feature in finalized)
    return {feature.name: feature.max_version_level for feature in finalized}


def in_files(tmp_path: Path) -> dict[str, object]:
    """Settings of a broker with a metadata log."""
    return {"storage": "file", "log.dirs": str(tmp_path / "data")}


async def test_api_versions_has_the_levels_of_the_data_directory(tmp_path: Path) -> None:
    async with running_broker(in_files(tmp_path)) as broker:
        client = Client(broker)
        assert await levels(client) == NEW
        answer = await announced(client)
        assert {
            feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features
        } == {name: (17 if name == METADATA else 0, highest) for name, highest in NEW.items()}
        of_old_clients = (await announced(client, 3)).supported_features
        assert [feature.name for feature in of_old_clients] == [METADATA]


@pytest.mark.parametrize("version", versions_of(UPDATE_FEATURES))
async def test_update_features_changes_levels_durably(tmp_path: Path, version: int) -> None:
    changes = ((GROUP, 0, SAFE_DOWNGRADE), (TRANSACTION, 1, SAFE_DOWNGRADE))
    async with running_broker(in_files(tmp_path)) as broker:
        client = Client(broker)
        epoch = (await announced(client)).finalized_features_epoch
        answer = await update(client, *changes, version=version)
        assert (answer.error_code, answer.error_message) == (0, None)
        named = [] if version >= 2 else [GROUP, TRANSACTION]
        assert [result.feature for result in answer.results] == named
        assert (await announced(client)).finalized_features_epoch > epoch
    async with running_broker(in_files(tmp_path)) as broker:
        client = Client(broker)
        lowered = {**NEW, TRANSACTION: 1}
        del lowered[GROUP]
        assert await levels(client) == lowered
        assert (await update(client, (GROUP, 1, UPGRADE), (TRANSACTION, 2, UPGRADE))).error_code == 0
        assert await levels(client) == NEW


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([("no.such.feature", 1, UPGRADE)], "no.such.feature to level 1: this broker does not support"),
        ([(SHARE, 3, UPGRADE)], "supports the levels 0 to 2"),
        ([(GROUP, 2, UPGRADE)], "supports the levels 0 to 1"),
        ([(GROUP, -1, UNSAFE_DOWNGRADE)], "supports the levels 0 to 1"),
        ([(GROUP, 0, UPGRADE)], "it is at level 1, and a downgrade needs"),
        ([(GROUP, 0, 0)], "no such upgrade type"),
        ([(GROUP, 0, 4)], "no such upgrade type"),
        ([(TRANSACTION, 1, SAFE_DOWNGRADE), (GROUP, 7, UPGRADE)], "group.version to level 7"),
        ([(METADATA, 29, SAFE_DOWNGRADE)], "cannot be downgraded from 33 to 29: the records of level 33"),
        ([(METADATA, 22, UNSAFE_DOWNGRADE)], "the records of level 33"),
        ([(METADATA, 34, UPGRADE)], "supports the levels 17 to 33"),
        ([(METADATA, 16, SAFE_DOWNGRADE)], "supports the levels 17 to 33"),
        ([(KRAFT, 0, SAFE_DOWNGRADE)], "kraft.version cannot be downgraded from 1"),
    ],
)
async def test_update_features_refuses_all_when_one_is_invalid(
    tmp_path: Path, changes: Sequence[Change], reason: str
) -> None:
    async with running_broker(in_files(tmp_path)) as broker:
        client = Client(broker)
        answer = await update(client, *changes)
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert reason in (answer.error_message or "")
        assert await levels(client) == NEW


async def test_update_features_that_only_validates_changes_nothing(tmp_path: Path) -> None:
    async with running_broker(in_files(tmp_path)) as broker:
        client = Client(broker)
        before = await announced(client)
        assert (await update(client, (GROUP, 0, SAFE_DOWNGRADE), validate_only=True)).error_code == 0
        refused = await update(client, (GROUP, 9, UPGRADE), validate_only=True)
        assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert await announced(client) == before


async def test_update_features_takes_the_last_of_repeated_ones(client: Client) -> None:
    answer = await update(client, (GROUP, 1, UPGRADE), (GROUP, 0, SAFE_DOWNGRADE))
    assert answer.error_code == 0
    assert await levels(client) == {TRANSACTION: 2}


async def test_update_features_upgrade_that_is_none_is_refused(client: Client) -> None:
    await update(client, (TRANSACTION, 0, SAFE_DOWNGRADE))
    answer = await update(client, (TRANSACTION, 1, SAFE_DOWNGRADE))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "it is at level 0, which is no downgrade" in (answer.error_message or "")


async def test_group_version_0_disables_the_consumer_protocol(client: Client, broker: Broker) -> None:
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    describe = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    await broker.coordinator.prepare_groups()
    await update(client, (GROUP, 0, SAFE_DOWNGRADE))
    refused = await client.ask(CONSUMER_GROUP_HEARTBEAT, 0, heartbeat)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "group.version 1" in refused.error_message
    (group,) = (await client.ask(CONSUMER_GROUP_DESCRIBE, 0, describe)).groups
    assert group.error_code == ErrorCode.UNSUPPORTED_VERSION
    await update(client, (GROUP, 1, UPGRADE))
    assert (await client.ask(CONSUMER_GROUP_HEARTBEAT, 0, heartbeat)).error_code == 0
    (group,) = (await client.ask(CONSUMER_GROUP_DESCRIBE, 0, describe)).groups
    assert group.error_code == 0
