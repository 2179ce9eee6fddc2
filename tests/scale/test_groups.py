"""500 groups with members and 50,000 committed offsets: nothing is lost when the broker is killed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.bad_input.groups_requests import Membership, identity, joined
from tests.bad_input.raw_client import RawClient
from tests.bad_input.requests import ask
from tests.deadlines import DEADLINE_S
from tests.peers import TidelogServer, free_port
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.list_groups import ListGroupsRequest
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS, PARTITIONS = 500, 100
TOPIC = "measurements"
MAX_RESIDENT_MB = 200


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TidelogServer]:
    """A broker that can be killed and started again at the same address."""
    settings = {"group.initial.rebalance.delay.ms": "0", "node.id": "1"}
    server = TidelogServer(tmp_path, settings, requested_port=free_port())
    server.start(DEADLINE_S)
    yield server
    server.stop(DEADLINE_S)


def test_groups_and_offsets_outlive_a_kill(broker: TidelogServer) -> None:
    client = RawClient(broker.bootstrap)
    client.create(TOPIC, partitions=PARTITIONS)
    members = [joined(client, f"instance-{number}") for number in range(GROUPS)]
    for number, member in enumerate(members):
        client.ask_well(ask(apis.OFFSET_COMMIT, 8, _commit(member, number)))
    assert _resident_mb(broker) < MAX_RESIDENT_MB
    client.close()
    broker.kill()
    broker.start(DEADLINE_S)
    assert _resident_mb(broker) < MAX_RESIDENT_MB
    again = RawClient(broker.bootstrap, "other")
    for number, member in enumerate(members):
        again.ask_well(ask(apis.HEARTBEAT, 4, HeartbeatRequest(**identity(member))))
        assert _fetched(again, member.group) == [*range(number, number + PARTITIONS)]
    listed = again.ask_well(ask(apis.LIST_GROUPS, 4, ListGroupsRequest(states_filter=["Stable"])))
    assert {group.group_id for group in listed.groups} == {member.group for member in members}
    again.close()


def _commit(member: Membership, first: int) -> OffsetCommitRequest:
    """Offsets that tell the group and the partition."""
    offsets = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=first + index, committed_metadata="m"
        )
        for index in range(PARTITIONS)
    ]
    return OffsetCommitRequest(
        group_id=member.group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member,
        group_instance_id=member.instance,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)],
    )


def _fetched(client: RawClient, group: str) -> list[int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (topic,) = client.ask_well(ask(apis.OFFSET_FETCH, 8, request)).groups[0].topics
    offsets = {partition.partition_index: partition.committed_offset for partition in topic.partitions}
    return [offsets[index] for index in sorted(offsets)]


def _resident_mb(broker: TidelogServer) -> float:
    status = Path(f"/proc/{broker.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
