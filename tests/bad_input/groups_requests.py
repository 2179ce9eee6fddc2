"""Requests of groups: members that are good ones, and what else is sent in their name."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any

import attrs

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.describe_groups import DescribeGroupsRequest
from tidelog.plugins.protocol_kafka.messages.find_coordinator import FindCoordinatorRequest
from tidelog.plugins.protocol_kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.plugins.protocol_kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .requests import Sent, ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from .raw_client import RawClient

SESSION_TIMEOUT_MS = 10_000
JOIN_VERSION, STATIC_VERSION = 3, 5
CONSUMER = "consumer"
_numbers = itertools.count()


def new_group() -> str:
    """A group id that no other case has."""
    return f"group-{next(_numbers)}"


@attrs.frozen
class Membership:
    """A member of a stable group."""

    group: str
    member: str
    generation: int
    instance: str | None = None


def coordinator_of(client: RawClient, group: str) -> None:
    """Ask for a group's coordinator, which is what makes the broker ready to be one, and wait until it is."""
    client.ask_well(ask(apis.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=group, key_type=0)))
    client.ask_well(ask(apis.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=[group])))


def join(**fields: Any) -> JoinGroupRequest:
    """A good request to join; `fields` say otherwise."""
    settings: dict[str, Any] = {
        "group_id": "",
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "rebalance_timeout_ms": SESSION_TIMEOUT_MS,
        "member_id": "",
        "protocol_type": CONSUMER,
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription())],
        **fields,
    }
    return JoinGroupRequest(**settings)


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer that subscribes to topics."""
    names = b"".join(struct.pack(f">h{len(topic)}s", len(topic), topic.encode()) for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def joined(client: RawClient, instance: str | None = None, *topics: str) -> Membership:
    """The only member of a new group, after its first rebalance."""
    group = new_group()
    coordinator_of(client, group)
    version = JOIN_VERSION if instance is None else STATIC_VERSION
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription(*topics))]
    request = join(group_id=group, group_instance_id=instance, protocols=protocols)
    answer = client.ask_well(ask(apis.JOIN_GROUP, version, request))
    membership = Membership(group, answer.member_id, answer.generation_id, instance)
    assignment = SyncGroupRequestAssignment(member_id=membership.member, assignment=b"all")
    client.ask_well(ask(apis.SYNC_GROUP, 3, sync(membership, assignments=[assignment])))
    return membership


def sync(membership: Membership, **fields: Any) -> SyncGroupRequest:
    """A good request of a member for its assignment; `fields` say otherwise."""
    settings: dict[str, Any] = {**identity(membership), "assignments": [], **fields}
    return SyncGroupRequest(**settings)


def identity(membership: Membership) -> dict[str, Any]:
    """The fields that say who asks."""
    return {
        "group_id": membership.group,
        "generation_id": membership.generation,
        "member_id": membership.member,
        "group_instance_id": membership.instance,
    }


def of_member(
    build: Callable[[Membership], object], api: apis.Api, version: int, instance: str | None = None
) -> Callable[[RawClient], Sent]:
    """What is sent once there is a member."""
    return lambda client: ask(api, version, build(joined(client, instance)))


def of_new_group(build: Callable[[str], object], api: apis.Api, version: int) -> Callable[[RawClient], Sent]:
    """What is sent about a group that is not there."""

    def sends(client: RawClient) -> Sent:
        group = new_group()
        coordinator_of(client, group)
        return ask(api, version, build(group))

    return sends
