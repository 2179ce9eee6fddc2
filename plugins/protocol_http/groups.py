"""Groups and what they have committed: listing, describing and deleting them, and their offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.errors import BrokerError, GroupIdNotFound, UnknownTopicOrPartition
from tidelog.kernel.pace import Pace, run_in_steps
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.plugins.protocol_http import json_text
from tidelog.plugins.protocol_http.messages import HttpProblem, HttpResponse
from tidelog.plugins.protocol_http.problems import problem_of

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.consumer_groups import DescribedConsumerGroup
    from tidelog.plugins.protocol_http.call import Call
    from tidelog.plugins.protocol_http.reading import Partition

MAX_OFFSETS: Final = 1000
"""Most offsets in one commit."""
MAX_MEMBERS: Final = 1000
"""Most members that the description of a group lists."""


async def list_groups(call: Call) -> HttpResponse:
    """Return the groups that the client may describe."""
    groups: list[dict[str, str]] = []
    pace = Pace()
    for group in call.broker.coordinator.groups.list():
        if await call.allows(ResourceType.GROUP, AclOperation.DESCRIBE, group.group_id, audited=False):
            groups.append(
                {
                    "group_id": group.group_id,
                    "state": group.state,
                    "type": group.group_type,
                    "protocol_type": group.protocol_type,
                }
            )
        await pace.turn()
    return HttpResponse(200, json_text.encode(groups))


async def describe_group(call: Call) -> HttpResponse:
    """Return a group with its members, of either protocol."""
    group_id, coordinator = call.path["group"], call.broker.coordinator
    await call.need_on_group(AclOperation.DESCRIBE, group_id)
    try:
        described = coordinator.consumer_groups.describe(group_id)
    except GroupIdNotFound:
        classic = coordinator.groups.describe(group_id)
        members: Sequence[Mapping[str, object]] = [
            {"member_id": each.member_id, "client_id": each.client_id, "client_host": each.client_host}
            for each in classic.members[:MAX_MEMBERS]
        ]
        body: dict[str, object] = {
            "state": classic.state,
            "type": "classic",
            "assignor": classic.protocol_name,
        }
    else:
        members = await _consumers(described)
        body = {"state": described.state, "type": "consumer", "assignor": described.assignor}
    return HttpResponse(200, json_text.encode({"group_id": group_id, **body, "members": members}))


async def _consumers(group: DescribedConsumerGroup) -> list[Mapping[str, object]]:
    pace = Pace()
    members: list[Mapping[str, object]] = []
    for each in group.members[:MAX_MEMBERS]:
        assignment = [
            {"topic": topic.topic_name, "partitions": list(topic.partitions)} for topic in each.assignment
        ]
        members.append(
            {
                "member_id": each.member_id,
                "client_id": each.client_id,
                "client_host": each.client_host,
                "assignment": assignment,
            }
        )
        await pace.turn()
    return members


async def delete_group(call: Call) -> HttpResponse:
    """Delete a group without members, and its offsets."""
    group_id = call.path["group"]
    await call.need_on_group(AclOperation.DELETE, group_id)
    (error,) = await call.broker.coordinator.groups.delete([group_id])
    if error is not None:
        raise error
    return HttpResponse(204)


async def group_offsets(call: Call) -> HttpResponse:
    """Return what a group has committed, and how far behind the end of each partition that is."""
    group_id = call.path["group"]
    await call.need_on_group(AclOperation.DESCRIBE, group_id)
    fetched = await run_in_steps(call.broker.coordinator.offsets.fetch_in_steps(OffsetFetch(group_id, None)))
    offsets: list[Mapping[str, object]] = []
    pace = Pace()
    for topic, partitions in fetched.items():
        if not await call.allows(ResourceType.TOPIC, AclOperation.DESCRIBE, topic, audited=False):
            continue
        for partition, committed in partitions.items():
            if isinstance(committed, CommittedOffset):
                offsets.append(_offset(call, topic, partition, committed))
            await pace.turn()
    return HttpResponse(200, json_text.encode({"offsets": offsets}))


def _offset(call: Call, topic: str, partition: int, committed: CommittedOffset) -> Mapping[str, object]:
    found = call.broker.replicas.find(topic, partition)
    end = None if found is None else found.log.high_watermark
    return {
        "topic": topic,
        "partition": partition,
        "offset": committed.offset,
        "metadata": committed.metadata,
        "end_offset": end,
        "lag": None if end is None else max(end - committed.offset, 0),
    }


async def commit_offsets(call: Call) -> HttpResponse:
    """Commit offsets for a group without members; the offset is that of the next record to read."""
    group_id = call.path["group"]
    await call.need_on_group(AclOperation.READ, group_id)
    asked = offsets_in(json_text.decode_object(call.request.body))
    for topic in {topic for topic, _ in asked}:
        await call.need_on_topic(AclOperation.READ, topic)
    await commit(call, OffsetCommit(group_id, to_commit(call, asked)))
    return HttpResponse(204)


def offsets_in(body: Mapping[str, Any]) -> dict[Partition, int]:
    """Return the offsets that a body names.

    Raises:
        HttpProblem: it names none, or too many.
    """
    elements = body.get("offsets")
    if not json_text.is_array(elements) or not 0 < len(elements) <= MAX_OFFSETS:
        raise HttpProblem(422, f"offsets is an array of 1 to {MAX_OFFSETS} objects")
    found: dict[Partition, int] = {}
    for element in elements:
        topic, partition = partition_in(element)
        offset = element.get("offset")
        if type(offset) is not int or not 0 <= offset < 2**63:
            raise HttpProblem(422, "an offset is a number that is not negative")
        found[topic, partition] = offset
    return found


def partition_in(element: Any) -> Partition:
    """Return the topic and the partition that an object of a body names.

    Raises:
        HttpProblem: it names none.
    """
    found = element if json_text.is_object(element) else {}
    topic, partition = found.get("topic"), found.get("partition")
    if not isinstance(topic, str) or type(partition) is not int or not 0 <= partition < 2**31:
        raise HttpProblem(
            422, "each partition is an object with a topic, a string, and a partition, a number"
        )
    return topic, partition


def to_commit(call: Call, offsets: Mapping[Partition, int]) -> list[OffsetToCommit]:
    """Return offsets as the coordinator takes them.

    Raises:
        UnknownTopicOrPartition: one of the partitions does not exist.
    """
    for topic, partition in offsets:
        if partition >= len(call.broker.topics.get(topic).partitions):
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {partition}")
    return [OffsetToCommit(topic, partition, offset) for (topic, partition), offset in offsets.items()]


async def commit(call: Call, asked: OffsetCommit) -> None:
    """Commit offsets, and wait until they are durable.

    Raises:
        BrokerError: one of them is refused.
        HttpProblem: what groups need cannot be created.
    """
    coordinator = call.broker.coordinator
    try:
        await coordinator.prepare_groups()
    except BrokerError as error:
        problem = problem_of(error)
        raise HttpProblem(503, f"what groups need cannot be created: {error}", problem.code) from error
    outcome = coordinator.offsets.commit(asked)
    for refused in outcome.errors:
        if refused is not None:
            raise refused
    if outcome.wait is not None:
        await outcome.wait()
