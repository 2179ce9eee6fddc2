"""Apache Kafka's own tool reads the offsets that we wrote, by Kafka's own schemas."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio

from tests.peers import KafkaDistribution, find_kafka
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetToCommit
from tidelog.kernel.testing.broker import running_broker

TOOL = "org.apache.kafka.tools.DumpLogSegments"
FAULT = re.compile(r"mismatch|corrupt|invalid|isvalid: false|Could not decode|Exception", re.IGNORECASE)


@pytest.fixture(scope="session")
def kafka() -> KafkaDistribution:
    """Apache Kafka's tools."""
    return find_kafka()


async def test_offsets_in_all_their_forms(tmp_path: Path, kafka: KafkaDistribution) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path), "offsets.topic.num.partitions": 1}
    async with running_broker(settings) as broker:
        topic = await broker.topics.ensure("flights")
        await broker.coordinator.prepare_groups()
        offsets = broker.coordinator.offsets
        offsets.commit(OffsetCommit("plain", [OffsetToCommit("flights", 0, 41, 7, "half way")]))
        named = OffsetToCommit("flights", 0, 42, topic_id=topic.topic_id.bytes)
        offsets.commit(OffsetCommit("by-id", [named]))
        offsets.commit(OffsetCommit("expiring", [OffsetToCommit("flights", 0, 43)], retention_time_ms=60_000))
        offsets.commit_pending(OffsetCommit("pending", [OffsetToCommit("flights", 0, 44)]), 9, 0)
        offsets.delete("plain", [("flights", 0)])
    files = sorted((tmp_path / "__consumer_offsets-0").glob("*.log"))
    arguments = ["--offsets-decoder", "--files", ",".join(map(str, files))]
    done = await trio.to_thread.run_sync(lambda: kafka.run_tool(TOOL, arguments))
    assert done.returncode == 0, done.stderr
    assert not FAULT.search(done.stdout + done.stderr)
    payloads = re.findall(r"key: (\{.*?\}) payload: ?(.*)", done.stdout)
    groups = [re.search(r'"group":"([^"]*)"', key) for key, _ in payloads]
    assert [found and found[1] for found in groups] == ["plain", "by-id", "expiring", "pending", "plain"]
    versions = [re.search(r'"version":"?(\d)', value) for _, value in payloads]
    assert [found and found[1] for found in versions] == ["4", "4", "1", "4", None]
    for _, value in payloads[:4]:
        assert '"offset":4' in value
    assert '"leaderEpoch":7' in payloads[0][1]
    assert '"metadata":"half way"' in payloads[0][1]
    assert "isTransactional: true" in done.stdout
