"""What the log of groups means when it is read back: the same to this broker as to Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.deadlines import DEADLINE_S, repeat_while_refused
from tests.peers import KafkaServer, TidelogServer
from tests.plugins.metadata_kraft.hands import QUIET, Client, kafka_on, tidelog_on
from tidelog.kernel.broker import Broker
from tidelog.kernel.log import AppendOrigin
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.coordinator.classic_groups.records import (
    GenerationChange,
    GroupMetadataValue,
)
from tidelog.plugins.coordinator.offsets.records import OffsetChange
from tidelog.plugins.coordinator.runtime import StateRecord
from tidelog.plugins.coordinator.runtime.batches import encode_batch

TOPIC: Final = "flights"
INTERNAL: Final = "__consumer_offsets"
EMPTY_GROUP: Final = GroupMetadataValue(
    protocol_type="consumer",
    generation=1,
    protocol=None,
    leader=None,
    current_state_timestamp=5,
    members=[],
)

Step: TypeAlias = tuple[
    Literal["commit", "remove", "group", "group gone", "committed", "aborted"], int | None, int
]
"""What is in the log, the producer whose transaction it is in, and the offset."""

# Producers are letters; each group has ids of its own for them.
A, B = 0, 1
HISTORIES: Final[dict[str, Sequence[Step]]] = {
    "plain": [("commit", None, 1), ("commit", None, 2)],
    "removed": [("commit", None, 1), ("remove", None, 0)],
    "removed-and-again": [("commit", None, 1), ("remove", None, 0), ("commit", None, 2)],
    "committed": [("commit", A, 5), ("committed", A, 0)],
    "aborted": [("commit", None, 1), ("commit", A, 5), ("aborted", A, 0)],
    "open": [("commit", None, 1), ("commit", A, 5)],
    "later-plain-wins": [("commit", A, 5), ("commit", None, 7), ("committed", A, 0)],
    "earlier-plain-loses": [("commit", None, 7), ("commit", A, 5), ("committed", A, 0)],
    "later-record-wins": [("commit", A, 5), ("commit", B, 6), ("committed", B, 0), ("committed", A, 0)],
    "removed-while-pending": [("commit", A, 5), ("remove", None, 0), ("committed", A, 0)],
    "pending-after-removal": [
        ("commit", None, 1), ("remove", None, 0), ("commit", A, 5), ("committed", A, 0)
    ],
    "removed-in-a-transaction": [("commit", None, 1), ("remove", A, 0), ("committed", A, 0)],
    "removed-in-an-aborted-transaction": [("commit", None, 1), ("remove", A, 0), ("aborted", A, 0)],
    "removed-in-an-open-transaction": [("commit", None, 1), ("remove", A, 0)],
    "again-after-a-transaction-removed-it": [
        ("commit", None, 1), ("remove", A, 0), ("committed", A, 0), ("commit", None, 2)
    ],
    "again-while-a-transaction-removes-it": [("commit", None, 1), ("remove", A, 0), ("commit", None, 2)],
    "others-pending-removed-in-a-transaction": [
        ("commit", A, 5), ("remove", B, 0), ("committed", B, 0), ("committed", A, 0)
    ],
    "own-pending-removed": [("commit", A, 5), ("remove", A, 0), ("committed", A, 0)],
    "own-pending-replaced": [("commit", A, 5), ("remove", A, 0), ("commit", A, 6), ("committed", A, 0)],
    "group-gone-while-pending": [
        ("group", None, 0), ("commit", A, 5), ("group gone", None, 0), ("committed", A, 0)
    ],
    "group-gone-and-offsets": [
        ("group", None, 0), ("commit", None, 5), ("remove", None, 0), ("group gone", None, 0)
    ],
    "again-after-the-group-is-gone": [
        ("commit", None, 5), ("remove", None, 0), ("group gone", None, 0), ("commit", None, 6)
    ],
    "pending-after-the-group-is-gone": [
        ("group", None, 0), ("commit", None, 5), ("group gone", None, 0), ("commit", A, 6),
        ("committed", A, 0),
    ],
    "simple-group-gone": [("commit", None, 5), ("remove", None, 0), ("group gone", None, 0)],
    "group-in-an-aborted-transaction": [("group", A, 0), ("commit", None, 3), ("aborted", A, 0)],
    "group-gone-in-an-aborted-transaction": [("group", None, 0), ("group gone", A, 0), ("aborted", A, 0)],
}  # fmt: skip


def record_of(group: str, what: str, offset: int) -> StateRecord:
    """The record of a step."""
    if what.startswith("group"):
        return GenerationChange(group, EMPTY_GROUP if what == "group" else None).to_record()
    committed = CommittedOffset(offset, -1, "", 2**41) if what == "commit" else None
    return OffsetChange(group, (TOPIC, 0), committed).to_record()


def play(broker: Broker, group: str, number: int, steps: Iterable[Step]) -> None:
    """Write a history into the log."""
    for what, producer, offset in steps:
        producer_id = 1000 + 2 * number + (producer or 0)
        topic = broker.topics.find(INTERNAL)
        assert topic is not None
        (partition,) = topic.partitions
        if what in ("committed", "aborted"):
            partition.log.append_marker(producer_id, 0, 0, commit=what == "committed")
        else:
            identity = None if producer is None else (producer_id, 0)
            batch = encode_batch([record_of(group, what, offset)], broker.clock(), producer=identity)
            partition.log.append_nowait(
                batch, in_transaction=identity is not None, origin=AppendOrigin.COORDINATOR
            )


async def write_histories(data: Path) -> None:
    """A data directory with all histories in the one partition of the log."""
    settings = {"storage": "file", "log.dirs": str(data), "node.id": 1, "offsets.topic.num.partitions": 1}
    async with running_broker(settings) as broker:
        await broker.topics.ensure(TOPIC)
        await broker.coordinator.prepare_groups()
        for number, (group, steps) in enumerate(HISTORIES.items()):
            play(broker, group, number, steps)
        broker.coordinator.offsets.commit(OffsetCommit("deleted", [OffsetToCommit(TOPIC, 0, 1)]))
        assert await broker.coordinator.groups.delete(["deleted"]) == [None]
        expiring = [OffsetToCommit(TOPIC, 0, 1)]
        broker.coordinator.offsets.commit(OffsetCommit("expired", expiring, retention_time_ms=0))
        await broker.coordinator.expire()
        assert "expired" not in {group.group_id for group in broker.coordinator.groups.list()}


def committed_on(bootstrap: str, group: str) -> int:
    """The offset of a group, whatever is pending."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_uncommitted"}
    consumer = Consumer({**settings, **QUIET})
    (found,) = repeat_while_refused(
        lambda: consumer.committed([TopicPartition(TOPIC, 0)], timeout=5.0), KafkaException
    )
    consumer.close()
    return int(found.offset)


def seen_on(server: KafkaServer | TidelogServer) -> tuple[dict[str, int], dict[str, str]]:
    """Every group's offset, and the states of the groups that are listed."""
    server.start()
    try:
        client = Client(server.bootstrap)
        offsets = {group: committed_on(server.bootstrap, group) for group in HISTORIES}
        listed = repeat_while_refused(
            lambda: cast("Any", client.admin).list_consumer_groups().result(DEADLINE_S), KafkaException
        )
        return offsets, {group.group_id: group.state.name for group in listed.valid}
    finally:
        server.stop()


@pytest.mark.long
def test_group_replay_of_every_history_gives_the_same_offsets_and_groups_as_kafka(tmp_path: Path) -> None:
    data = tmp_path / "data"
    trio.run(write_histories, data)
    ours = seen_on(tidelog_on(data, tmp_path / "tidelog"))
    kafkas = seen_on(kafka_on(data, tmp_path / "kafka"))
    assert ours[0] == kafkas[0]
    assert not {"deleted", "expired"} & kafkas[1].keys()
    assert ours[1] == kafkas[1]
    assert (ours[0]["plain"], ours[0]["again-while-a-transaction-removes-it"]) == (2, 2)


OFFSET_KEY, _value = OffsetChange("g", (TOPIC, 0), CommittedOffset(1)).to_record()
OFFSET_VALUE: Final = _value or b""
GARBAGE: Final[dict[str, tuple[StateRecord, str]]] = {
    "a key without a type": (StateRecord(b"\0", b""), "key 00"),
    "a key that is cut off": (StateRecord(OFFSET_KEY[:-1], b"\0\4"), "of type 1, group 'g'"),
    "a key with more behind it": (StateRecord(OFFSET_KEY + b"x", None), "of type 1, group 'g'"),
    "a group longer than its key": (StateRecord(b"\0\1\0\x99abc", b"\0\4"), "key 000100996162"),
    "a value without a version": (StateRecord(OFFSET_KEY, b""), "of type 1, group 'g'"),
    "a newer value": (StateRecord(OFFSET_KEY, b"\0\7" + bytes(30)), "of type 1, group 'g'"),
    "a value that is cut off": (StateRecord(OFFSET_KEY, OFFSET_VALUE[:-1]), "of type 1, group 'g'"),
    "a group that is not UTF-8": (
        StateRecord(b"\0\1\0\1\xff\0\1t\0\0\0\0", OFFSET_VALUE), "group '\N{REPLACEMENT CHARACTER}'"
    ),
    "a topic that is not UTF-8": (
        StateRecord(b"\0\1\0\1g\0\1\xff\0\0\0\0", None), "of type 1, group 'g'"
    ),
    "a classic group": (StateRecord(b"\0\2\0\1g", b"\0\3\0"), "of type 2, group 'g'"),
    "a member": (StateRecord(b"\0\5\0\1g\0\1m", b"\0\0\xff"), "of type 5, group 'g'"),
}  # fmt: skip


@pytest.mark.parametrize("producer", [None, (7, 0)], ids=["plain", "in a transaction"])
@pytest.mark.parametrize(("garbage", "named"), GARBAGE.values(), ids=GARBAGE.keys())
async def test_group_replay_logs_an_unreadable_record_and_loses_nothing_else(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    garbage: StateRecord,
    named: str,
    producer: tuple[int, int] | None,
) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path), "offsets.topic.num.partitions": 1}
    async with running_broker(settings) as broker:
        await broker.topics.ensure(TOPIC)
        await broker.coordinator.prepare_groups()
        offsets = broker.coordinator.offsets
        offsets.commit(OffsetCommit("g", [OffsetToCommit(TOPIC, 0, 1)]))
        topic = broker.topics.find(INTERNAL)
        assert topic is not None
        batch = encode_batch([garbage], broker.clock(), producer=producer)
        bad = topic.partitions[0].log.append_nowait(
            batch, in_transaction=producer is not None, origin=AppendOrigin.COORDINATOR
        )
        offsets.commit(OffsetCommit("h", [OffsetToCommit(TOPIC, 0, 2)]))
    caplog.clear()
    async with running_broker(settings) as broker:
        while not broker.coordinator.loading["groups"].done:  # noqa: ASYNC110 nobody is told, it is a figure
            await trio.sleep(0.001)
        for group, offset in (("g", 1), ("h", 2)):
            found = broker.coordinator.offsets.fetch(OffsetFetch(group, None))[TOPIC][0]
            assert isinstance(found, CommittedOffset)
            assert found.offset == offset
        assert {group.group_id for group in broker.coordinator.groups.list()} == {"g", "h"}
    (told,) = (record.getMessage() for record in caplog.records if record.levelname == "ERROR")
    assert f"offset {bad.base_offset} of {INTERNAL}-0 cannot be read" in told
    assert named in told


@pytest.mark.parametrize("producer", [None, (7, 0)], ids=["plain", "in a transaction"])
async def test_records_of_groups_of_other_kinds_stay_and_are_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, producer: tuple[int, int] | None
) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path), "offsets.topic.num.partitions": 1}
    kinds = (9, *range(10, 16), *range(17, 24), 0x7FFF)
    records = [
        StateRecord(kind.to_bytes(2) + rest, value)
        for kind in kinds
        for rest, value in ((b"", None), (b"\0\1g", b"\0\0\0\0\0\1\0"), (b"\xff", b""))
    ]
    async with running_broker(settings) as broker:
        await broker.topics.ensure(TOPIC)
        await broker.coordinator.prepare_groups()
        topic = broker.topics.find(INTERNAL)
        assert topic is not None
        batch = encode_batch(records, broker.clock(), producer=producer)
        topic.partitions[0].log.append_nowait(
            batch, in_transaction=producer is not None, origin=AppendOrigin.COORDINATOR
        )
        broker.coordinator.offsets.commit(OffsetCommit("g", [OffsetToCommit(TOPIC, 0, 1)]))
        end = topic.partitions[0].log.log_end_offset
    caplog.clear()
    async with running_broker(settings) as broker:
        while not broker.coordinator.loading["groups"].done:  # noqa: ASYNC110 nobody is told, it is a figure
            await trio.sleep(0.001)
        assert {group.group_id for group in broker.coordinator.groups.list()} == {"g"}
        topic = broker.topics.find(INTERNAL)
        assert topic is not None
        assert topic.partitions[0].log.log_end_offset == end
    unknown = [record.getMessage() for record in caplog.records if "records of type" in record.getMessage()]
    assert len(unknown) == len(kinds)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
