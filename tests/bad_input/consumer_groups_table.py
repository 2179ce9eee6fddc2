"""Groups of the consumer protocol: epochs that are over, assignors and patterns that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)

from .case import NOTHING, OK, Case
from .groups_requests import coordinator_of, join, joined, new_group
from .requests import Sent, ask

if TYPE_CHECKING:
    from .case import Sends
    from .raw_client import RawClient

BAD_REQUEST, UNKNOWN_MEMBER = "INVALID_REQUEST", "UNKNOWN_MEMBER_ID"
NOT_FOUND, BAD_GROUP, FENCED = "GROUP_ID_NOT_FOUND", "INVALID_GROUP_ID", "FENCED_MEMBER_EPOCH"
NOBODY = "nobody-at-all"
NEWEST = 1
JOINS, LEAVES, LEAVES_STATIC = 0, -1, -2


def _beat(client: RawClient, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    settings: dict[str, Any] = {
        "member_id": str(uuid4()),
        "member_epoch": JOINS,
        "rebalance_timeout_ms": 5000,
        "subscribed_topic_names": [client.topic],
        "topic_partitions": [],
        **fields,
    }
    return ConsumerGroupHeartbeatRequest(**settings)


def _beats(version: int = NEWEST, **fields: Any) -> Sends:
    """To a group that is not there."""

    def build(client: RawClient) -> Sent:
        group = new_group()
        coordinator_of(client, group)
        return ask(apis.CONSUMER_GROUP_HEARTBEAT, version, _beat(client, **{"group_id": group, **fields}))

    return build


def _beats_again(first: dict[str, Any] | None = None, **fields: Any) -> Sends:
    """To a group that has a member; `fields` are what it says next."""

    def build(client: RawClient) -> list[Sent]:
        group, member = new_group(), str(uuid4())
        coordinator_of(client, group)
        joins = _beat(client, group_id=group, member_id=member, **(first or {}))
        settings: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": 1, **fields}
        return [
            ask(apis.CONSUMER_GROUP_HEARTBEAT, NEWEST, joins),
            ask(apis.CONSUMER_GROUP_HEARTBEAT, NEWEST, _beat(client, **settings)),
        ]

    return build


def _joins_classically(client: RawClient) -> list[Sent]:
    group = new_group()
    coordinator_of(client, group)
    joins = _beat(client, group_id=group)
    return [
        ask(apis.CONSUMER_GROUP_HEARTBEAT, NEWEST, joins),
        ask(apis.JOIN_GROUP, 5, join(group_id=group, protocol_type="connect")),
    ]


def _joins_a_connect_group(client: RawClient) -> Sent:
    return ask(apis.CONSUMER_GROUP_HEARTBEAT, NEWEST, _beat(client, group_id=joined(client).group))


BEATS = (
    Case("beats for a group without a name", _beats(group_id=""), BAD_REQUEST),
    Case("beats for a group of a blank", _beats(group_id=" "), BAD_REQUEST),
    Case("beats without a member id", _beats(member_id=""), BAD_REQUEST),
    Case("beats in epoch -5", _beats(member_epoch=-5), BAD_REQUEST),
    Case("beats in epoch 5 of no group", _beats(member_epoch=5), NOT_FOUND),
    Case("leaves a group that is not there", _beats(member_epoch=LEAVES), NOT_FOUND),
    Case("joins without a rebalance timeout", _beats(rebalance_timeout_ms=-1), BAD_REQUEST),
    Case("joins with a negative rebalance timeout", _beats(rebalance_timeout_ms=-5), OK),
    Case("joins without a subscription", _beats(subscribed_topic_names=None), BAD_REQUEST),
    Case("joins owning unknown partitions", _beats(topic_partitions=None), BAD_REQUEST),
    Case(
        "joins owning something",
        _beats(
            topic_partitions=[
                ConsumerGroupHeartbeatTopicPartitions(topic_id=bytes(15) + b"c", partitions=[0])
            ]
        ),
        BAD_REQUEST,
    ),
    Case("joins with an empty instance", _beats(instance_id=""), BAD_REQUEST),
    Case("joins with an empty rack", _beats(rack_id=""), BAD_REQUEST),
    Case("joins with an assignor that is none", _beats(server_assignor="magic"), "UNSUPPORTED_ASSIGNOR"),
    Case("joins with an empty assignor", _beats(server_assignor=""), "UNSUPPORTED_ASSIGNOR"),
    Case(
        "joins with a pattern that is none",
        _beats(subscribed_topic_names=[], subscribed_topic_regex="(unclosed"),
        "INVALID_REGULAR_EXPRESSION",
    ),
    Case("leaves as an instance without a name", _beats(member_epoch=LEAVES_STATIC), BAD_REQUEST),
    Case("beats as somebody", _beats_again(member_id=str(uuid4())), UNKNOWN_MEMBER),
    Case("beats in an epoch to come", _beats_again(member_epoch=9), FENCED),
    Case(
        "joins as an instance that is there",
        _beats_again({"instance_id": "a"}, member_id=str(uuid4()), member_epoch=JOINS, instance_id="a"),
        "UNRELEASED_INSTANCE_ID",
    ),
    Case(
        "beats as a foreign instance",
        _beats_again({"instance_id": "a"}, member_id=str(uuid4()), instance_id="a"),
        "FENCED_INSTANCE_ID",
    ),
    Case(
        "beats as an unknown instance",
        _beats_again({"instance_id": "a"}, instance_id="b"),
        UNKNOWN_MEMBER,
    ),
    Case("joins consumers as a connector", _joins_classically, "INCONSISTENT_GROUP_PROTOCOL"),
    Case("joins members that are none", _joins_a_connect_group, NOT_FOUND),
)


def _describes(*groups: str) -> Sends:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)
    return lambda _: ask(apis.CONSUMER_GROUP_DESCRIBE, 1, request)


def _describes_classic(client: RawClient) -> Sent:
    return _describes(joined(client).group)(client)  # type: ignore[return-value]


DESCRIPTIONS = (
    Case("describes a consumer group that is not there", _describes(NOBODY), NOT_FOUND),
    Case("describes a consumer group without a name", _describes(""), BAD_GROUP),
    Case("describes a classic group as one of consumers", _describes_classic, NOT_FOUND),
    Case("describes no consumer group", _describes(), NOTHING),
)

CASES = (*BEATS, *DESCRIPTIONS)
