"""Groups in a broker with files: what a restart finds, and what Apache Kafka's own tool reads of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import trio

from tests.peers import find_kafka
from tests.plugins.protocol_kafka.apis.client import Client
from tests.plugins.protocol_kafka.apis.groups import beat, join, join_request, leave, stable, sync
from tidelog.kernel.broker import Broker
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_GROUPS
from tidelog.plugins.protocol_kafka.messages.describe_groups import DescribeGroupsGroup, DescribeGroupsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

TOOL = "org.apache.kafka.tools.DumpLogSegments"
DECODED = re.compile(r"key: (\{.*?\}\}) payload: (\{.*\}|<null>)")


def settings(folder: Path) -> dict[str, object]:
    """A durable broker whose groups begin with their first member."""
    return {
        "storage": "file",
        "log.dirs": str(folder),
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 2,
    }


async def describe(broker: Broker, *group_ids: str) -> list[DescribeGroupsGroup]:
    """The groups, once they have been read back."""
    while True:
        request = DescribeGroupsRequest(groups=list(group_ids))
        groups: list[DescribeGroupsGroup] = (await Client(broker).ask(DESCRIBE_GROUPS, 6, request)).groups
        if not any(group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS for group in groups):
            return groups
        await trio.sleep(0.01)


def dump(folder: Path) -> list[tuple[Any, Any]]:
    """Keys and values of the records of groups, as the tool decodes them."""
    logs = [path for path in folder.rglob("__consumer_offsets-*/*.log") if path.stat().st_size]
    files = ",".join(map(str, logs))
    done = find_kafka().run_tool(TOOL, ["--offsets-decoder", "--print-data-log", "--files", files])
    assert done.returncode == 0, done.stderr
    return [(json.loads(key), json.loads(value)) for key, value in DECODED.findall(done.stdout)]


async def test_groups_outlive_a_restart(tmp_path: Path) -> None:
    async with running_broker(settings(tmp_path)) as broker:
        await broker.coordinator.prepare_groups()
        client = Client(broker)
        member = await stable(client, "kept")
        gone = await stable(client, "left")
        await leave(client, 5, gone.member_id, group_id="left")
    async with running_broker(settings(tmp_path)) as broker:
        kept, left = await describe(broker, "kept", "left")
        assert (kept.group_state, kept.protocol_data) == ("Stable", "range")
        assert [each.member_assignment for each in kept.members] == [b"share"]
        assert (left.group_state, left.protocol_type, left.members) == ("Empty", "consumer", [])
        client = Client(broker)
        assert await beat(client, 4, member.member_id, member.generation_id, "kept") == 0
        assert (await sync(client, 5, member, group_id="kept")).assignment == b"share"
        again = await join(client, 9, join_request(member.member_id, group_id="kept"))
        assert again.generation_id == member.generation_id + 1


async def test_generation_change_records_can_be_read_by_dump_log_segments(tmp_path: Path) -> None:
    async with running_broker(settings(tmp_path)) as broker:
        await broker.coordinator.prepare_groups()
        client = Client(broker)
        member = await stable(client, "group")
        await leave(client, 5, member.member_id, group_id="group")
    decoded = await trio.to_thread.run_sync(dump, tmp_path)
    assert [key for key, _ in decoded] == [{"type": "2", "data": {"group": "group"}}] * 2
    first, last = (payload["data"] for _, payload in decoded)
    assert (first["generation"], first["protocol"], first["leader"]) == (1, "range", member.member_id)
    assert [(each["memberId"], each["sessionTimeout"]) for each in first["members"]] == [
        (member.member_id, 10_000)
    ]
    assert (last["generation"], last["protocol"], last["leader"], last["members"]) == (2, None, None, [])
