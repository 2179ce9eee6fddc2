"""Groups as tools see them: ListGroups, DescribeGroups, ConsumerGroupDescribe, DeleteGroups, OffsetDelete."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.cluster import NO_NODE, CoordinatorKey
from tidelog.plugins.client.errors import ClientError, ErrorResponse, UnsupportedByBroker
from tidelog.plugins.client.operations.coordinators import ask_coordinator
from tidelog.plugins.client.operations.sending import Outcomes, refresh, retrying, send_request
from tidelog.plugins.protocol_kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribedGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    read_assignment,
)
from tidelog.plugins.protocol_kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.plugins.protocol_kafka.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_groups import (
    ListGroupsGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.plugins.protocol_kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tidelog.plugins.schema import CodecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.plugins.client.steps import Session, Steps

T = TypeVar("T")

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
DEAD: Final = "Dead"
"""State of a group that does not exist, before version 6 of DescribeGroups."""


@attrs.frozen
class GroupListing:
    """A group as it is listed; `state` and `type` are empty where the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str = ""
    type: str = ""


@attrs.frozen
class GroupMember:
    """A member of a group.

    Attributes:
        member_id: given by the broker or chosen by the member
        client_id: of its requests
        host: where its connection comes from
        instance_id: of a static member
        partitions: assigned to it; None where the group's protocol says that in a way of its own
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...] | None


@attrs.frozen
class GroupDescription:
    """A group with its members.

    Attributes:
        group_id: its name
        type: "classic" or "consumer"
        state: such as Stable, Empty, PreparingRebalance
        protocol_type: "consumer" for consumers
        assignor: how partitions are assigned
        coordinator: node id of the broker that coordinates it
        members: sorted by their ids
    """

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]


def list_groups(
    session: Session, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> Steps[list[GroupListing]]:
    """Return the groups of all brokers by name, those in some states and of some types only.

    Raises:
        UnsendableRequest: a broker is too old to choose by state (Kafka before 2.6) or type (before 3.8).
        ClientError: a broker did not answer: the list would not be complete.
    """
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found: dict[str, GroupListing] = {}
    brokers = (yield from retrying(session, lambda: refresh(session))).brokers
    for node in brokers:
        for group in (yield from retrying(session, partial(_groups_of, session, request, node))):
            found[group.group_id] = GroupListing(
                group.group_id, group.protocol_type, group.group_state, group.group_type
            )
    return sorted(found.values(), key=lambda group: group.group_id)


def _groups_of(session: Session, request: ListGroupsRequest, node: int) -> Steps[list[ListGroupsGroup]]:
    answer: ListGroupsResponse = yield from send_request(session, request, node=node)
    if answer.error_code:
        raise ErrorResponse(ErrorCode.of(answer.error_code), f"the groups of broker {node}")
    return answer.groups


def describe_groups(session: Session, groups: Iterable[str]) -> Steps[Outcomes[str, GroupDescription]]:
    """Return the description of each group by its name.

    The outcome of a group that does not exist is an `ErrorResponse` with GROUP_ID_NOT_FOUND, whatever the
    version of the broker.
    """
    outcomes: Outcomes[str, GroupDescription] = {}
    for group in dict.fromkeys(groups):
        try:
            outcomes[group] = yield from _describe(session, group)
        except ClientError as error:
            outcomes[group] = error
    return outcomes


def _describe(session: Session, group: str) -> Steps[GroupDescription]:
    try:
        return (yield from _describe_consumer_group(session, group))
    except UnsupportedByBroker:
        pass
    except ErrorResponse as error:
        if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            raise
    return (yield from _describe_classic_group(session, group))


def _describe_consumer_group(session: Session, group: str) -> Steps[GroupDescription]:
    def error_of(answer: ConsumerGroupDescribeResponse) -> ErrorResponse | None:
        found = _single(answer.groups, group)
        return _error(group, found.error_code, found.error_message)

    key = CoordinatorKey.group(group)
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    answer: ConsumerGroupDescribeResponse = yield from ask_coordinator(session, key, request, error_of)
    found: ConsumerGroupDescribedGroup = _single(answer.groups, group)
    return GroupDescription(
        group,
        CONSUMER,
        found.group_state,
        CONSUMER_PROTOCOL_TYPE,
        found.assignor_name,
        _coordinator(session, key),
        tuple(sorted(map(_consumer_member, found.members), key=lambda member: member.member_id)),
    )


def _describe_classic_group(session: Session, group: str) -> Steps[GroupDescription]:
    def error_of(answer: DescribeGroupsResponse) -> ErrorResponse | None:
        found = _single(answer.groups, group)
        if found.group_state == DEAD and not found.error_code:
            return ErrorResponse(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group!r}")
        return _error(group, found.error_code, found.error_message)

    key = CoordinatorKey.group(group)
    request = DescribeGroupsRequest(groups=[group])
    answer: DescribeGroupsResponse = yield from ask_coordinator(session, key, request, error_of)
    found: DescribeGroupsGroup = _single(answer.groups, group)
    members = (_classic_member(found.protocol_type, member) for member in found.members)
    return GroupDescription(
        group,
        CLASSIC,
        found.group_state,
        found.protocol_type,
        found.protocol_data,
        _coordinator(session, key),
        tuple(sorted(members, key=lambda member: member.member_id)),
    )


def _consumer_member(member: ConsumerGroupDescribeMember) -> GroupMember:
    partitions = _assigned(member.assignment)
    return GroupMember(member.member_id, member.client_id, member.client_host, member.instance_id, partitions)


def _assigned(assignment: ConsumerGroupDescribeAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    )


def _classic_member(protocol_type: str, member: DescribedGroupMember) -> GroupMember:
    partitions: tuple[TopicPartition, ...] | None = None
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        try:
            assigned = read_assignment(bytes(member.member_assignment)).assigned_partitions
        except CodecError:
            # Written by a client: what it says is no reason not to show the group.
            pass
        else:
            partitions = tuple(
                TopicPartition(topic.topic, index) for topic in assigned for index in topic.partitions
            )
    return GroupMember(
        member.member_id, member.client_id, member.client_host, member.group_instance_id, partitions
    )


def delete_groups(session: Session, groups: Iterable[str]) -> Steps[Outcomes[str, None]]:
    """Delete groups without members, with their offsets; return each outcome by name, None for success."""
    outcomes: Outcomes[str, None] = {}
    for group in dict.fromkeys(groups):
        try:
            yield from _delete(session, group)
        except ClientError as error:
            outcomes[group] = error
        else:
            outcomes[group] = None
    return outcomes


def _delete(session: Session, group: str) -> Steps[None]:
    def error_of(answer: DeleteGroupsResponse) -> ErrorResponse | None:
        found = _single(answer.results, group)
        return _error(group, found.error_code, found.error_message)

    request = DeleteGroupsRequest(groups_names=[group])
    yield from ask_coordinator(session, CoordinatorKey.group(group), request, error_of)


def delete_offsets(
    session: Session, group: str, partitions: Iterable[TopicPartition]
) -> Steps[Outcomes[TopicPartition, None]]:
    """Delete committed offsets of a group; return the outcome of each partition, None for success.

    A partition of a topic that the group is subscribed to is refused (GROUP_SUBSCRIBED_TO_TOPIC).

    Raises:
        UnsupportedByBroker: the broker does not serve OffsetDelete (Kafka before 2.4).
        ErrorResponse: the group as a whole is refused.
        ClientError: no coordinator answered.
    """
    wanted = list(dict.fromkeys(partitions))
    by_topic: defaultdict[str, list[OffsetDeleteRequestPartition]] = defaultdict(list)
    for partition in wanted:
        by_topic[partition.topic].append(OffsetDeleteRequestPartition(partition_index=partition.partition))
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[OffsetDeleteRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()],
    )
    answer: OffsetDeleteResponse = yield from ask_coordinator(
        session, CoordinatorKey.group(group), request, lambda answer: _error(group, answer.error_code, None)
    )
    codes = {
        TopicPartition(topic.name, part.partition_index): part.error_code
        for topic in answer.topics
        for part in topic.partitions
    }
    return {partition: _offset_outcome(partition, codes.get(partition)) for partition in wanted}


def _offset_outcome(partition: TopicPartition, code: int | None) -> ErrorResponse | None:
    if code is None:
        return ErrorResponse.missing(str(partition))
    return ErrorResponse(ErrorCode.of(code), str(partition)) if code else None


def _single(results: Sequence[T], group: str) -> T:
    """Return the only entry of a response about one group."""
    if len(results) != 1:
        raise ErrorResponse.missing(f"group {group!r}")
    return results[0]


def _error(group: str, code: int, message: str | None) -> ErrorResponse | None:
    return ErrorResponse(ErrorCode.of(code), f"group {group!r}", message) if code else None


def _coordinator(session: Session, key: CoordinatorKey) -> int:
    node = session.cluster.coordinator(key)
    return NO_NODE if node is None else node
