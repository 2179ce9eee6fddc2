"""OffsetCommit: every version's rules, and the codes of what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.kernel import pace
from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.coordination.offsets import CommittedOffset, OffsetFetch
from tidelog.kernel.testing import FakeClock
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import OFFSET_COMMIT
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of
from .offsets import IDS_SINCE, commit_codes, commit_request
from .topics import new_topic

RETENTION_VERSIONS = (2, 3, 4)


@pytest.mark.parametrize("version", versions_of(OFFSET_COMMIT))
async def test_offset_commit_in_every_version(
    client: Client, broker: Broker, clock: FakeClock, version: int
) -> None:
    topic = await new_topic(broker)
    await broker.coordinator.prepare_groups()
    fields: dict[str, Any] = {"retention_time_ms": 5} if version in RETENTION_VERSIONS else {}
    if version == 1:
        fields["commit_timestamp"] = 12345
    response = await client.ask(
        OFFSET_COMMIT, version, commit_request({0: 7}, topic, metadata="so far", **fields)
    )
    assert commit_codes(response) == [0]
    (answer,) = response.topics
    if version >= IDS_SINCE:
        assert (answer.name, answer.topic_id) == ("", topic.topic_id.bytes)
    else:
        assert answer.name == topic.name
    found = broker.coordinator.offsets.fetch(OffsetFetch("group", None))[topic.name][0]
    assert found == CommittedOffset(
        7,
        metadata="so far",
        commit_timestamp_ms=12345 if version == 1 else clock.now_ms,
        expire_timestamp_ms=clock.now_ms + 5 if version in RETENTION_VERSIONS else -1,
        topic_id=topic.topic_id.bytes,
    )


@pytest.mark.parametrize("version", versions_of(OFFSET_COMMIT))
async def test_offset_commit_refuses_by_partition(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker)
    await broker.coordinator.prepare_groups()
    response = await client.ask(OFFSET_COMMIT, version, commit_request({0: 1, 99: 2, -1: 3}, topic))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit_codes(response) == [0, unknown, unknown]
    response = await client.ask(OFFSET_COMMIT, version, commit_request({0: 1, 1: 2}, "nowhere"))
    assert commit_codes(response) == [ErrorCode.UNKNOWN_TOPIC_ID if version >= IDS_SINCE else unknown] * 2
    response = await client.ask(OFFSET_COMMIT, version, commit_request({0: 1}, topic, metadata="x" * 4097))
    assert commit_codes(response) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


@pytest.mark.parametrize("version", versions_of(OFFSET_COMMIT, 1))
async def test_offset_commit_with_a_generation_of_an_unknown_group(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    await broker.coordinator.prepare_groups()
    request = commit_request({0: 1}, topic, generation_id_or_member_epoch=3, member_id="member")
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert commit_codes(await client.ask(OFFSET_COMMIT, version, request)) == [code]


async def test_offset_commit_before_any_find_coordinator_request(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    response = await client.ask(OFFSET_COMMIT, 8, commit_request({0: 1}, topic))
    assert commit_codes(response) == [ErrorCode.NOT_COORDINATOR]


async def test_offset_commit_without_offsets(client: Client) -> None:
    request = commit_request({}, "nowhere")
    request.topics.clear()
    assert (await client.ask(OFFSET_COMMIT, 8, request)).topics == []


async def test_offset_commit_refuses_more_than_a_batch(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker, partitions=1)
    await broker.coordinator.prepare_groups()
    await broker.topics.alter_config(
        "__consumer_offsets", lambda config: {**config, "max.message.bytes": "500"}
    )
    response = await client.ask(OFFSET_COMMIT, 8, commit_request({0: 1}, topic, metadata="x" * 500))
    assert commit_codes(response) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]


async def test_offset_commit_is_acknowledged_after_the_flush(
    client: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "STEP_SECONDS", 3600.0)  # however busy the machine is, no step is long
    topic = await new_topic(broker)
    await broker.coordinator.prepare_groups()
    assert isinstance(client.start(OFFSET_COMMIT, 8, commit_request({0: 0}, topic)), list)
    await broker.topics.alter_config("__consumer_offsets", lambda config: {**config, "flush.messages": "1"})
    step = client.start(OFFSET_COMMIT, 8, commit_request({0: 1}, topic))
    assert not isinstance(step, list)
    assert commit_codes(await client.finish(OFFSET_COMMIT, 8, step)) == [0]


async def test_offset_commit_without_a_coordinator() -> None:
    async with running_broker({"plugins.blocked": "coordinator"}) as broker:
        topic = await new_topic(broker)
        response = await Client(broker).ask(OFFSET_COMMIT, 8, commit_request({0: 1}, topic))
        assert commit_codes(response) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


async def test_offset_commit_when_the_disk_fails(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    await broker.coordinator.prepare_groups()
    for partition in broker.topics.get("__consumer_offsets").partitions:
        partition.log.take_offline()
    response = await client.ask(OFFSET_COMMIT, 8, commit_request({0: 1}, topic))
    assert commit_codes(response) == [ErrorCode.NOT_COORDINATOR]
