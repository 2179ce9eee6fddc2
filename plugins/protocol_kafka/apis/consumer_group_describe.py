"""ConsumerGroupDescribe (API 69): describe groups of the consumer protocol."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import each_in_steps
from tidelog.kernel.seams.coordination.consumer_groups import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedPartitions,
)
from tidelog.plugins.protocol_kafka.apis.common_fields import GROUP_OPERATIONS, NOT_ASKED
from tidelog.plugins.protocol_kafka.apis.consumer_group_heartbeat import check_consumer_protocol
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.consumer_group_describe import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribedGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeTopicPartitions,
)


@in_steps
def handle(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Generator[None, None, ConsumerGroupDescribeResponse]:
    """Describe each group independently, in steps, and once if it is repeated: it may have many members."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups: list[ConsumerGroupDescribedGroup] = []
    for group_id in dict.fromkeys(request.group_ids):
        groups.append((yield from _describe(context, group_id, operations)))
        yield
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(
    context: RequestContext, group_id: str, operations: int
) -> Generator[None, None, ConsumerGroupDescribedGroup]:
    try:
        check_consumer_protocol(context)
        group = context.broker.coordinator.consumer_groups.describe(group_id)
    except BrokerError as error:
        return ConsumerGroupDescribedGroup(
            error_code=error_code(error),
            error_message=context.error_message(error),
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=[],
        )
    return (yield from _described(group, operations))


def _described(
    group: DescribedConsumerGroup, operations: int
) -> Generator[None, None, ConsumerGroupDescribedGroup]:
    return ConsumerGroupDescribedGroup(
        error_code=0,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=(yield from each_in_steps(group.members, _member)),
        authorized_operations=operations,
    )


def _member(member: DescribedConsumer) -> ConsumerGroupDescribeMember:
    return ConsumerGroupDescribeMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        # Null in the schema alone: Apache Kafka answers "" of a member that has none.
        subscribed_topic_regex=member.topic_regex or "",
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(topics: Sequence[DescribedPartitions]) -> ConsumerGroupDescribeAssignment:
    return ConsumerGroupDescribeAssignment(
        topic_partitions=[
            ConsumerGroupDescribeTopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.topic_name, partitions=list(topic.partitions)
            )
            for topic in topics
        ]
    )
