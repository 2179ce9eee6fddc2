"""The guards of APIs that name groups."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.errors import BrokerError, GroupAuthorizationFailed, TopicAuthorizationFailed
from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.plugins.protocol_kafka.apis.common_fields import NOT_ASKED
from tidelog.plugins.protocol_kafka.authorization.guarding import Access, Guard, narrowed, without
from tidelog.plugins.protocol_kafka.authorization.topics import each_topic, split_topics
from tidelog.plugins.protocol_kafka.messages import find_coordinator as coordinators
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.messages.consumer_group_describe import (
        ConsumerGroupDescribedGroup,
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.delete_groups import (
        DeleteGroupsRequest,
        DeleteGroupsResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.describe_groups import (
        DescribeGroupsRequest,
        DescribeGroupsResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.find_coordinator import (
        FindCoordinatorRequest,
        FindCoordinatorResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
    from tidelog.plugins.protocol_kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

GROUP: Final = ResourceType.GROUP
PROTOCOL_SINCE: Final = 5
"""First version of SyncGroup with type and name of the protocol, which it needs."""
GROUPS_SINCE: Final = 8
"""First version of OffsetFetch with more than one group."""
KEYS_SINCE: Final = 4
"""First version of FindCoordinator with more than one key."""
HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def of_group(operation: AclOperation) -> Guard:
    """Return the guard of an API that needs an operation on the group of the request."""

    def guard(access: Access, request: Any) -> Generator[Any, Any, Any]:
        access.need(GROUP, operation, request.group_id, GroupAuthorizationFailed)
        return (yield request)

    return guard


def sync_group(access: Access, request: Any) -> Generator[Any, Any, Any]:
    """Need READ on the group; as in Kafka the missing type or name of a protocol is an error before that."""
    lacks_protocol = None in (request.protocol_type, request.protocol_name)
    if not (lacks_protocol and access.context.api_version >= PROTOCOL_SINCE):
        access.need(GROUP, AclOperation.READ, request.group_id, GroupAuthorizationFailed)
    return (yield request)


def offset_commit(access: Access, request: Any) -> Generator[Any, Any, Any]:
    """Need READ on the group, and on each topic."""
    access.need(GROUP, AclOperation.READ, request.group_id, GroupAuthorizationFailed)
    return (yield from each_topic(AclOperation.READ, "topics")(access, request))


def offset_delete(access: Access, request: Any) -> Generator[Any, Any, Any]:
    """Need DELETE on the group, and READ on each topic."""
    access.need(GROUP, AclOperation.DELETE, request.group_id, GroupAuthorizationFailed)
    names = [topic.name for topic in request.topics]
    allowed = yield from access.among(ResourceType.TOPIC, AclOperation.READ, names)
    denied = [topic for topic in request.topics if topic.name not in allowed]
    if not denied:
        return (yield request)
    # The code at the top is that of the group.
    from tidelog.plugins.protocol_kafka.messages.offset_delete import (
        OffsetDeleteResponsePartition,
        OffsetDeleteResponseTopic,
    )

    response = yield narrowed(request, topics=without(request.topics, denied))
    if not response.error_code:
        response.topics = [
            *response.topics,
            *(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=each.partition_index,
                            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in denied
            ),
        ]
    return response


def offset_fetch(
    access: Access, request: OffsetFetchRequest
) -> Generator[Any, OffsetFetchResponse, OffsetFetchResponse]:
    """Need DESCRIBE on each group, and on each topic, of which those that are not named are left out."""
    if access.context.api_version < GROUPS_SINCE:
        access.need(GROUP, AclOperation.DESCRIBE, request.group_id, GroupAuthorizationFailed)
        served, denied = yield from _describable(access, request.topics)
        response = yield narrowed(request, topics=served)
        yield from _merge_offsets(access, response, denied, everything=request.topics is None)
        return response
    from tidelog.plugins.protocol_kafka.messages.offset_fetch import OffsetFetchResponseGroup

    groups: list[Any] = []
    hidden: list[Any] = []
    denied_topics: dict[str, list[Any]] = {}
    everything = set[str]()
    for group in request.groups:
        if not access.allows(GROUP, AclOperation.DESCRIBE, group.group_id):
            hidden.append(
                OffsetFetchResponseGroup(
                    group_id=group.group_id, topics=[], error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
            )
            continue
        served, denied_topics[group.group_id] = yield from _describable(access, group.topics)
        if group.topics is None:
            everything.add(group.group_id)
        groups.append(narrowed(group, topics=served))
    response = yield narrowed(request, groups=groups)
    for answered in response.groups:
        denied = denied_topics.get(answered.group_id, [])
        yield from _merge_offsets(access, answered, denied, everything=answered.group_id in everything)
    response.groups = [*response.groups, *hidden]
    return response


def _describable(
    access: Access, topics: list[Any] | None
) -> Generator[None, Any, tuple[list[Any] | None, list[Any]]]:
    if topics is None:
        return None, []
    return (yield from split_topics(access, AclOperation.DESCRIBE, topics))


def _merge_offsets(
    access: Access, answered: Any, denied: list[Any], *, everything: bool
) -> Generator[None, Any, None]:
    """Leave out topics that may not be seen, or add the errors of those that were named."""
    if answered.error_code:
        return
    if everything:
        answered.topics, _ = yield from _describable(access, answered.topics)
        return
    answered.topics = [*answered.topics, *(_without_offsets(access, topic) for topic in denied)]


def _without_offsets(access: Access, topic: Any) -> Any:
    from tidelog.plugins.protocol_kafka.messages import offset_fetch as messages

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    indexes: list[int] = topic.partition_indexes
    if access.context.api_version < GROUPS_SINCE:
        return messages.OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                messages.OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=code
                )
                for index in indexes
            ],
        )
    return messages.OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            messages.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=code
            )
            for index in indexes
        ],
    )


_KEY_TYPES: Final = {
    coordinators.GROUP_KEY: (GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    coordinators.TRANSACTION_KEY: (
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


def find_coordinator(
    access: Access, request: FindCoordinatorRequest
) -> Generator[Any, FindCoordinatorResponse, FindCoordinatorResponse]:
    """Need DESCRIBE on each group or transactional id."""
    if request.key_type not in _KEY_TYPES:
        return (yield request)
    kind, code = _KEY_TYPES[request.key_type]
    one = access.context.api_version < KEYS_SINCE
    asked = [request.key] if one else request.coordinator_keys
    allowed = yield from access.among(kind, AclOperation.DESCRIBE, asked)
    if one:
        if request.key in allowed:
            return (yield request)
        text = f"{'Group' if kind is GROUP else 'Transactional Id'} authorization failed."
        return coordinators.FindCoordinatorResponse(
            error_code=code, error_message=text, node_id=-1, host="", port=-1, coordinators=[]
        )
    hidden = [
        coordinators.FindCoordinatorCoordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
        for key in asked
        if key not in allowed
    ]
    response = yield narrowed(request, coordinator_keys=[key for key in asked if key in allowed])
    response.coordinators = [*response.coordinators, *hidden]
    return response


def describe_groups(
    access: Access, request: DescribeGroupsRequest
) -> Generator[Any, DescribeGroupsResponse, DescribeGroupsResponse]:
    """Need DESCRIBE on each group, and report what is allowed with it."""
    from tidelog.plugins.protocol_kafka.messages.describe_groups import DescribeGroupsGroup

    allowed = yield from access.among(GROUP, AclOperation.DESCRIBE, request.groups)
    hidden = [
        DescribeGroupsGroup(
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
            group_id=group_id,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
        )
        for group_id in dict.fromkeys(request.groups)
        if group_id not in allowed
    ]
    response = yield narrowed(request, groups=[each for each in request.groups if each in allowed])
    yield from _set_operations(access, response.groups)
    response.groups = [*hidden, *response.groups]
    return response


def _set_operations(access: Access, groups: Iterable[Any]) -> Generator[None, Any, None]:
    found: list[tuple[Any, int]] = []
    for group in groups:
        if group.authorized_operations != NOT_ASKED:
            found.append((group, access.operations(GROUP, group.group_id)))
            yield
    for group, bits in found:
        group.authorized_operations = bits


def list_groups(
    access: Access, request: ListGroupsRequest
) -> Generator[Any, ListGroupsResponse, ListGroupsResponse]:
    """List all groups with DESCRIBE on the cluster, else those with DESCRIBE."""
    response = yield request
    if not access.allows_on_cluster(AclOperation.DESCRIBE, audited=False):
        names = [group.group_id for group in response.groups]
        allowed = yield from access.among(GROUP, AclOperation.DESCRIBE, names, audited=False)
        response.groups = [group for group in response.groups if group.group_id in allowed]
    return response


def delete_groups(
    access: Access, request: DeleteGroupsRequest
) -> Generator[Any, DeleteGroupsResponse, DeleteGroupsResponse]:
    """Need DELETE on each group."""
    from tidelog.plugins.protocol_kafka.messages.delete_groups import DeletableGroupResult

    names = [*dict.fromkeys(request.groups_names)]
    allowed = yield from access.among(GROUP, AclOperation.DELETE, names)
    hidden = [
        DeletableGroupResult(group_id=name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for name in names
        if name not in allowed
    ]
    response = yield narrowed(request, groups_names=[name for name in names if name in allowed])
    response.results = [*response.results, *hidden]
    return response


def consumer_group_heartbeat(
    access: Access, request: ConsumerGroupHeartbeatRequest
) -> Generator[Any, ConsumerGroupHeartbeatResponse, ConsumerGroupHeartbeatResponse]:
    """Need READ on the group, and DESCRIBE on each topic that a member subscribes to.

    Those that it names refuse it; a regular expression does not match others, at this and later heartbeats.
    """
    access.need(GROUP, AclOperation.READ, request.group_id, GroupAuthorizationFailed)
    names = set(request.subscribed_topic_names or ())
    if names:
        allowed = yield from access.among(ResourceType.TOPIC, AclOperation.DESCRIBE, names)
        if len(allowed) < len(names):
            raise TopicAuthorizationFailed("Topic authorization failed.")
    access.context.visible_topics = access.visible_topics
    return (yield request)


def consumer_group_describe(
    access: Access, request: ConsumerGroupDescribeRequest
) -> Generator[Any, ConsumerGroupDescribeResponse, ConsumerGroupDescribeResponse]:
    """Need DESCRIBE on each group, and on each topic of its assignment; report what is allowed with it."""
    allowed = yield from access.among(GROUP, AclOperation.DESCRIBE, request.group_ids)
    hidden = [
        _described_as(group_id, GroupAuthorizationFailed, None)
        for group_id in dict.fromkeys(request.group_ids)
        if group_id not in allowed
    ]
    response = yield narrowed(request, group_ids=[each for each in request.group_ids if each in allowed])
    topics: dict[str, set[str]] = {}
    for group in response.groups:
        topics[group.group_id] = yield from _topics_of(group)
    names = set[str]().union(*topics.values())
    visible = yield from access.among(ResourceType.TOPIC, AclOperation.DESCRIBE, names)
    yield from _set_operations(access, response.groups)
    described = [
        group
        if topics[group.group_id] <= visible
        else _described_as(group.group_id, TopicAuthorizationFailed, HIDDEN_TOPICS)
        for group in response.groups
    ]
    response.groups = [*hidden, *described]
    return response


def _topics_of(group: ConsumerGroupDescribedGroup) -> Generator[None, Any, set[str]]:
    """Return the names of the topics in the assignments of a group."""
    names = set[str]()
    for number, member in enumerate(group.members, 1):
        for assignment in (member.assignment, member.target_assignment):
            names.update(each.topic_name for each in assignment.topic_partitions)
        if number % ITEMS_PER_STEP == 0:
            yield
    return names


def _described_as(group_id: str, error: type[BrokerError], text: str | None) -> ConsumerGroupDescribedGroup:
    from tidelog.plugins.protocol_kafka.errors import error_code
    from tidelog.plugins.protocol_kafka.messages.consumer_group_describe import ConsumerGroupDescribedGroup

    return ConsumerGroupDescribedGroup(
        error_code=error_code(error("")),
        error_message=text,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
