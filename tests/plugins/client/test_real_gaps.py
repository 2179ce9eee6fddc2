"""A bounded read ends though no record is left below its bound, at tidelog and at Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.deadlines import DEADLINE_S
from tests.hands.directory import HandedDirectory, Layout
from tests.plugins.client.driven import trio_driven
from tests.plugins.client.test_real_brokers import new_topic, there
from tidelog.plugins.client import FetchLimits, NewRecord, TopicPartition

FIRST_HAND = Layout(1, dynamic_quorum=False, tidelog_first=True)


@pytest.mark.parametrize(
    "turn", [pytest.param(2, id="tidelog"), pytest.param(1, id="kafka", marks=pytest.mark.long)]
)
async def test_read_ends_at_an_empty_segment_after_a_gap(tmp_path: Path, turn: int) -> None:
    """Compaction leaves such a log when it removes the last records before an active segment."""
    directory = HandedDirectory(tmp_path, FIRST_HAND)
    try:
        await trio.to_thread.run_sync(directory.start, 0)
        async with trio_driven(directory.bootstrap) as client:
            partition = TopicPartition(await new_topic(client), 0)
            await client.call("produce", partition, [NewRecord(b"first"), NewRecord(b"second")])
        await trio.to_thread.run_sync(directory.tidelog.stop)
        (directory.log_dirs[0] / f"{partition.topic}-0" / f"{90:020}.log").touch()
        await trio.to_thread.run_sync(directory.start, turn)
        async with trio_driven(directory.bootstrap) as client:
            await there(client, [partition])
            with trio.fail_after(DEADLINE_S):
                for stop in (None, 90, 40):
                    for limits in (FetchLimits(), FetchLimits(read_committed=True)):
                        found = await client.read(partition, 0, stop, limits)
                        assert [record.value for record in found] == [b"first", b"second"]
            assert (await client.call("list_offsets", [partition]))[partition].offset == 90
    finally:
        await trio.to_thread.run_sync(directory.close)
