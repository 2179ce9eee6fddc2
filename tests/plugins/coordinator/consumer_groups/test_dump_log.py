"""Apache Kafka's own tool reads the records of consumer groups that we write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import trio

from tests.peers import find_kafka
from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat, HeartbeatAnswer
from tidelog.kernel.seams.coordination.groups import GroupProtocol, Joined, JoinRequest
from tidelog.kernel.testing.broker import running_broker

TOOL = "org.apache.kafka.tools.DumpLogSegments"
SUBSCRIPTION = bytes.fromhex("0001 00000001 0001 74 ffffffff 00000000")
RECORD = re.compile(r"key: (\{.*?\}) payload: (\S+)$", re.MULTILINE)


async def write_groups(log_dir: Path) -> None:
    """A group with a member of each kind, one of which leaves."""
    settings = {"storage": "file", "log.dirs": str(log_dir), "offsets.topic.num.partitions": 1}
    async with running_broker(settings) as broker:
        await broker.topics.ensure("t")
        coordinator = broker.coordinator
        await coordinator.prepare_groups()
        join = ConsumerGroupHeartbeat(
            "g", "a", 0, rebalance_timeout_ms=1_000, topic_names=frozenset("t"), owned={}, topic_regex="t.*"
        )
        answer = coordinator.consumer_groups.heartbeat(join)
        assert not isinstance(answer, HeartbeatAnswer)
        await answer
        protocols = [GroupProtocol("range", SUBSCRIPTION)]
        joined = coordinator.groups.join(JoinRequest("g", "old", "consumer", protocols, 10_000, 20_000))
        assert not isinstance(joined, Joined)
        await joined
        leave = ConsumerGroupHeartbeat("g", "a", -1)
        answer = coordinator.consumer_groups.heartbeat(leave)
        assert not isinstance(answer, HeartbeatAnswer)
        await answer


def dumped(log_dir: Path) -> list[tuple[int, Any]]:
    """The type of each record, and what its value says; None for a tombstone."""
    log = log_dir / "__consumer_offsets-0" / f"{0:020}.log"
    done = find_kafka().run_tool(TOOL, ["--offsets-decoder", "--files", str(log)])
    assert done.returncode == 0, done.stderr
    return [
        (int(json.loads(key)["type"]), None if payload == "<DELETE>" else json.loads(payload)["data"])
        for key, payload in RECORD.findall(done.stdout)
    ]


async def test_dump_log_segments_reads_every_type_of_consumer_group_record(tmp_path: Path) -> None:
    await write_groups(tmp_path / "data")
    records = await trio.to_thread.run_sync(dumped, tmp_path / "data")
    written = {kind for kind, value in records if value is not None}
    removed = {kind for kind, value in records if value is None}
    assert written >= {3, 5, 6, 7, 8, 16}
    assert removed >= {3, 5, 6, 7, 8, 16}
    first = {kind: value for kind, value in reversed(records) if value is not None}
    assert first[3]["epoch"] == 1
    assert first[5]["subscribedTopicNames"] == ["t"]
    assert first[6]["assignmentEpoch"] == 1
    assert first[8]["assignedPartitions"][0]["assignmentEpochs"] == [1]
    assert first[16]["topics"] == ["t"]
    told = [value["classicMemberMetadata"] for kind, value in records if kind == 5 and value]
    assert [classic and classic["sessionTimeoutMs"] for classic in told] == [None, 10_000]
