"""Groups of the classic protocol: members that are none, generations that are over, foreign protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.delete_groups import DeleteGroupsRequest
from tidelog.plugins.protocol_kafka.messages.describe_groups import DescribeGroupsRequest
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.join_group import JoinGroupRequestProtocol
from tidelog.plugins.protocol_kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.plugins.protocol_kafka.messages.list_groups import ListGroupsRequest

from .case import NOTHING, OK, Case, Differs
from .groups_requests import (
    STATIC_VERSION,
    Membership,
    identity,
    join,
    joined,
    of_member,
    of_new_group,
    subscription,
    sync,
)
from .requests import Sent, ask

if TYPE_CHECKING:
    from .case import Sends
    from .raw_client import RawClient

BAD_GROUP, NOT_FOUND, NOT_EMPTY = "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", "NON_EMPTY_GROUP"
BAD_TIMEOUT, INCONSISTENT = "INVALID_SESSION_TIMEOUT", "INCONSISTENT_GROUP_PROTOCOL"
UNKNOWN_MEMBER, BAD_GENERATION = "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"
FENCED, NEEDS_ID = "FENCED_INSTANCE_ID", "MEMBER_ID_REQUIRED"
NOBODY = "nobody-at-all"
FOREIGN: dict[str, Any] = {"member_id": NOBODY}


def _joins(version: int = STATIC_VERSION, **fields: Any) -> Sends:
    return of_new_group(lambda group: join(**{"group_id": group, **fields}), apis.JOIN_GROUP, version)


def _joins_existing(instance: str | None = None, **fields: Any) -> Sends:
    return of_member(
        lambda member: join(**{"group_id": member.group, **fields}), apis.JOIN_GROUP, 5, instance
    )


def _protocol(name: str) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=subscription())]


JOINS = (
    Case("joins a group without a name", _joins(3, group_id=""), BAD_GROUP),
    Case("joins for 5,999 ms", _joins(session_timeout_ms=5_999), BAD_TIMEOUT),
    Case("joins for half an hour and a moment", _joins(session_timeout_ms=1_800_001), BAD_TIMEOUT),
    Case("joins for a negative time", _joins(session_timeout_ms=-1), BAD_TIMEOUT),
    Case("joins for 24 days", _joins(session_timeout_ms=0x7FFFFFFF), BAD_TIMEOUT),
    Case("joins without protocols", _joins(protocols=[]), INCONSISTENT),
    Case("joins without a protocol type", _joins(protocol_type=""), INCONSISTENT),
    Case("joins as somebody in a group that is not there", _joins(**FOREIGN), UNKNOWN_MEMBER),
    Case("joins without an id", _joins(4), NEEDS_ID),
    Case("joins as somebody", _joins_existing(**FOREIGN), UNKNOWN_MEMBER),
    Case("joins consumers as a connector", _joins_existing(protocol_type="connect"), INCONSISTENT),
    Case(
        "joins with a protocol nobody else has", _joins_existing(protocols=_protocol("other")), INCONSISTENT
    ),
    Case("joins an existing group without protocols", _joins_existing(protocols=[]), INCONSISTENT),
    Case(
        "joins as a static member with a foreign id",
        _joins_existing("a", group_instance_id="a", **FOREIGN),
        FENCED,
    ),
    Case(
        "joins as an unknown static member with a foreign id",
        _joins_existing("a", group_instance_id="b", **FOREIGN),
        UNKNOWN_MEMBER,
    ),
    Case("joins as an unnamed instance", _joins(group_instance_id=""), OK),
    Case("joins as an instance with a slash", _joins(group_instance_id="a/b"), OK),
    Case("joins as an instance of 250 characters", _joins(group_instance_id="a" * 250), OK),
)


def _syncs(instance: str | None = None, version: int = 5, **fields: Any) -> Sends:
    return of_member(lambda member: sync(member, **fields), apis.SYNC_GROUP, version, instance)


SYNCS = (
    Case(
        "syncs with a group that is not there",
        of_new_group(lambda group: sync(Membership(group, NOBODY, 1)), apis.SYNC_GROUP, 3),
        UNKNOWN_MEMBER,
    ),
    Case("syncs with a group without a name", _syncs(group_id="", version=3), BAD_GROUP),
    Case("syncs as somebody", _syncs(**FOREIGN, version=3), UNKNOWN_MEMBER),
    Case("syncs with the next generation", _syncs(generation_id=2, version=3), BAD_GENERATION),
    Case("syncs with generation -1", _syncs(generation_id=-1, version=3), BAD_GENERATION),
    Case("syncs as a foreign static member", _syncs("a", **FOREIGN, version=3), FENCED),
    Case("syncs as an unknown static member", _syncs(group_instance_id="b", version=3), UNKNOWN_MEMBER),
    Case(
        "syncs as a connector",
        _syncs(protocol_type="connect", protocol_name="range"),
        INCONSISTENT,
    ),
    Case(
        "syncs with another protocol",
        _syncs(protocol_type="consumer", protocol_name="other"),
        INCONSISTENT,
    ),
    Case("syncs without telling its protocol in version 5", _syncs(), INCONSISTENT),
)


def _beats(instance: str | None = None, **fields: Any) -> Sends:
    return of_member(
        lambda member: HeartbeatRequest(**{**identity(member), **fields}), apis.HEARTBEAT, 4, instance
    )


HEARTBEATS = (
    Case(
        "beats in a group that is not there",
        of_new_group(
            lambda group: HeartbeatRequest(group_id=group, generation_id=1, member_id=NOBODY),
            apis.HEARTBEAT,
            3,
        ),
        UNKNOWN_MEMBER,
    ),
    Case("beats in a group without a name", _beats(group_id=""), BAD_GROUP),
    Case("beats as somebody", _beats(**FOREIGN), UNKNOWN_MEMBER),
    Case("beats without an id", _beats(member_id=""), UNKNOWN_MEMBER),
    Case("beats in the next generation", _beats(generation_id=2), BAD_GENERATION),
    Case("beats in generation -1", _beats(generation_id=-1), BAD_GENERATION),
    Case("beats as a foreign static member", _beats("a", **FOREIGN), FENCED),
    Case("beats as an unknown static member", _beats("a", group_instance_id="b"), UNKNOWN_MEMBER),
)


def _leaves(version: int, *members: MemberIdentity, instance: str | None = None, **fields: Any) -> Sends:
    def build(member: Membership) -> LeaveGroupRequest:
        values: dict[str, Any] = {"group_id": member.group, "members": list(members), **fields}
        return LeaveGroupRequest(**values)

    return of_member(build, apis.LEAVE_GROUP, version, instance)


LEAVES = (
    Case(
        "leaves a group that is not there",
        of_new_group(lambda group: LeaveGroupRequest(group_id=group, member_id=NOBODY), apis.LEAVE_GROUP, 2),
        UNKNOWN_MEMBER,
    ),
    Case("leaves a group without a name", _leaves(2, group_id="", member_id=NOBODY), BAD_GROUP),
    Case("leaves as somebody", _leaves(2, member_id=NOBODY), UNKNOWN_MEMBER),
    Case("leaves as somebody in version 5", _leaves(5, MemberIdentity(member_id=NOBODY)), UNKNOWN_MEMBER),
    Case(
        "leaves as an unknown instance",
        _leaves(5, MemberIdentity(member_id="", group_instance_id="b"), instance="a"),
        UNKNOWN_MEMBER,
    ),
    Case(
        "leaves as a foreign static member",
        _leaves(5, MemberIdentity(member_id=NOBODY, group_instance_id="a"), instance="a"),
        FENCED,
    ),
    Case(
        "leaves as two that are not there",
        _leaves(5, MemberIdentity(member_id=NOBODY), MemberIdentity(member_id=NOBODY)),
        f"{UNKNOWN_MEMBER},{UNKNOWN_MEMBER}",
    ),
    Case("nobody leaves", _leaves(5), OK),
)


def _describes(version: int, *groups: str) -> Sends:
    return lambda _: ask(apis.DESCRIBE_GROUPS, version, DescribeGroupsRequest(groups=list(groups)))


def _lists(version: int, **fields: Any) -> Sends:
    return lambda _: ask(apis.LIST_GROUPS, version, ListGroupsRequest(**fields))


DESCRIBED_ONCE = Differs(NOT_FOUND, "a few bytes that ask again would make hundreds of kilobytes of answer")
LOOKS = (
    Case("describes a group that is not there in version 5", _describes(5, NOBODY), OK),
    Case("describes a group that is not there", _describes(6, NOBODY), NOT_FOUND),
    Case("describes a group without a name", _describes(6, ""), NOT_FOUND),
    Case(
        "describes a group twice",
        _describes(6, NOBODY, NOBODY),
        f"{NOT_FOUND},{NOT_FOUND}",
        tidelog=DESCRIBED_ONCE,
    ),
    Case("describes no group", _describes(6), NOTHING),
    Case("lists groups in a state that is none", _lists(5, states_filter=["Sleeping"]), OK),
    Case("lists groups of a type that is none", _lists(5, types_filter=["sporty"]), OK),
)


def _deletes(*groups: str) -> Sends:
    return lambda _: ask(apis.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=list(groups)))


def _deletes_with_members(client: RawClient) -> Sent:
    return _deletes_of(joined(client))


def _deletes_of(member: Membership) -> Sent:
    return ask(apis.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[member.group]))


DELETIONS = (
    Case("deletes a group that is not there", _deletes(NOBODY), NOT_FOUND),
    Case("deletes a group that has members", _deletes_with_members, NOT_EMPTY),
    Case("deletes a group without a name", _deletes(""), NOT_FOUND),
    Case("deletes a group twice that is not there", _deletes(NOBODY, NOBODY), NOT_FOUND),
    Case("deletes no group", _deletes(), NOTHING),
)

CASES = (*JOINS, *SYNCS, *HEARTBEATS, *LEAVES, *LOOKS, *DELETIONS)
