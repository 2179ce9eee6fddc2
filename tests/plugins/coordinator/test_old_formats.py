"""Offsets that brokers before Kafka 0.11 committed: messages of old formats in `__consumer_offsets`."""

from __future__ import annotations

import struct
from pathlib import Path

import trio

from tests.kernel.records.message_sets import GZIP, SNAPPY, Row, plain_set, wrapper
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.testing.broker import running_broker

NOW = 1_700_000_000_000
TOPIC = "flights"
FOREVER = 10**9


def sized(text: str) -> bytes:
    """A string of the protocol."""
    return struct.pack(">h", len(text)) + text.encode()


def committed(version: int, group: str, partition: int, offset: int | None, metadata: str = "") -> Row:
    """A committed offset as a record, in the version of key and value of that time; None removes it."""
    key = struct.pack(">h", version) + sized(group) + sized(TOPIC) + struct.pack(">i", partition)
    if offset is None:
        return NOW, key, None
    times = (NOW,) if version == 0 else (NOW, 2 * NOW)
    value = struct.pack(">hq", version, offset) + sized(metadata) + struct.pack(f">{len(times)}q", *times)
    return NOW, key, value


LOG = b"".join(
    [
        plain_set([committed(0, "oldest", 0, 5), committed(0, "oldest", 1, 6)], 0),
        wrapper(plain_set([committed(1, "old", 0, 7, "note"), committed(1, "old", 1, 8)], 0, 2), 0, GZIP, 3),
        wrapper(plain_set([committed(1, "old", 1, None), committed(1, "old", 2, 9)], 1), 1, SNAPPY, 5, NOW),
        plain_set([committed(1, "oldest", 1, 60)], 1, 6),
    ]
)
END = 7


async def test_offsets_of_old_brokers_are_loaded_and_changed(tmp_path: Path) -> None:
    settings = {
        "storage": "file",
        "log.dirs": str(tmp_path),
        "offsets.topic.num.partitions": 1,
        "offsets.retention.minutes": FOREVER,
        "num.partitions": 3,
    }
    async with running_broker(settings) as broker:
        await broker.topics.ensure(TOPIC)
        await broker.coordinator.prepare_groups()
    (tmp_path / "__consumer_offsets-0" / f"{0:020}.log").write_bytes(LOG)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    for again in (False, True):
        async with running_broker(settings) as broker:
            coordinator = broker.coordinator
            while not coordinator.loading["groups"].done:  # noqa: ASYNC110 it is a figure
                await trio.sleep(0.001)
            assert coordinator.loading["groups"].records == END + again

            def offsets(group: str) -> dict[int, int]:
                found = coordinator.offsets.fetch(OffsetFetch(group, None))[TOPIC]  # noqa: B023 used at once
                return {
                    index: each.offset for index, each in found.items() if isinstance(each, CommittedOffset)
                }

            assert offsets("oldest") == {0: 5, 1: 60}
            assert offsets("old") == ({0: 70, 2: 9} if again else {0: 7, 2: 9})
            if not again:
                result = coordinator.offsets.commit(OffsetCommit("old", [OffsetToCommit(TOPIC, 0, 70)]))
                assert result is not None
