"""OffsetDelete: what is deleted, and the codes of what is not."""

from __future__ import annotations

from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.plugins.protocol_kafka.messages.api import OFFSET_DELETE
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client
from .offsets import commit_codes, delete_request
from .topics import new_topic


async def test_offset_delete_deletes_the_named_offsets(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker, partitions=3)
    await broker.coordinator.prepare_groups()
    offsets = [OffsetToCommit(topic.name, index, 10 + index) for index in range(3)]
    broker.coordinator.offsets.commit(OffsetCommit("group", offsets))
    response = await client.ask(OFFSET_DELETE, 0, delete_request([0, 2, 7]))
    assert (response.error_code, commit_codes(response)) == (0, [0, 0, 0])
    left = broker.coordinator.offsets.fetch(OffsetFetch("group", None))[topic.name]
    assert {index: found.offset for index, found in left.items() if isinstance(found, CommittedOffset)} == {
        1: 11
    }
    response = await client.ask(OFFSET_DELETE, 0, delete_request([0], "nowhere"))
    assert (response.error_code, commit_codes(response)) == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])


async def test_offset_delete_error_codes_of_the_request(client: Client, broker: Broker) -> None:
    await new_topic(broker)
    for group, code in (("", ErrorCode.INVALID_GROUP_ID), ("group", ErrorCode.NOT_COORDINATOR)):
        response = await client.ask(OFFSET_DELETE, 0, delete_request([0], group=group))
        assert (response.error_code, response.topics) == (code, [])
    await broker.coordinator.prepare_groups()
    response = await client.ask(OFFSET_DELETE, 0, delete_request([0]))
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
