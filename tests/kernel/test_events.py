"""Events of a broker: which there are, in which order, and listeners that fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tidelog.kernel.errors import StorageError
from tidelog.kernel.events import BrokerEvents
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.events import (
    BrokerConfigChanged,
    Event,
    LeadershipChanged,
    PartitionMoved,
    PartitionsOffline,
    PartitionsOpened,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import new_broker, running_broker

CHANGED = BrokerConfigChanged()


def described(event: Event) -> str:
    """What a test compares."""
    match event:
        case TopicCreated(topic) | TopicDeleted(topic) | TopicConfigChanged(topic):
            return f"{type(event).__name__} {topic.name}"
        case PartitionsOpened(_, partitions):
            return f"PartitionsOpened {' '.join(str(each.topic_partition) for each in partitions)}"
        case PartitionsOffline(partitions, reason):
            return f"PartitionsOffline {' '.join(str(each.topic_partition) for each in partitions)}: {reason}"
        case LeadershipChanged(partitions):
            return f"LeadershipChanged {' '.join(str(each.topic_partition) for each in partitions)}"
        case PartitionMoved(partition, path):
            return f"PartitionMoved {partition.topic_partition}: {path}"
        case BrokerConfigChanged():
            return "BrokerConfigChanged"


def test_publish_calls_listeners_in_the_order_of_subscribe() -> None:
    events, heard = BrokerEvents(), list[int]()
    events.publish(CHANGED)
    events.subscribe(lambda event: heard.append(1))
    events.subscribe(lambda event: heard.append(2))
    events.publish(CHANGED)
    assert heard == [1, 2]


def test_a_listener_that_fails_stops_neither_the_others_nor_the_publisher(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events, heard = BrokerEvents(), list[Event]()

    def fail(event: Event) -> None:
        raise RuntimeError("no luck")

    events.subscribe(fail)
    events.subscribe(heard.append)
    for _ in range(2):
        events.publish(CHANGED)
    assert heard == [CHANGED, CHANGED]
    assert caplog.text.count("RuntimeError: no luck") == 2


def test_publish_inside_a_listener_is_delivered_after_the_current_event() -> None:
    events, heard = BrokerEvents(), list[str]()
    offline = PartitionsOffline((), "a disk failed")

    def cause(event: Event) -> None:
        if event is CHANGED:
            events.publish(offline)

    events.subscribe(cause)
    events.subscribe(lambda event: heard.append(type(event).__name__))
    events.publish(CHANGED)
    assert heard == ["BrokerConfigChanged", "PartitionsOffline"]


async def test_topics_and_partitions_publish_what_happens_to_them() -> None:
    async with running_broker() as broker:
        heard: list[str] = []
        broker.events.subscribe(lambda event: heard.append(described(event)))
        await broker.topics.create(TopicSpec("t", 2))
        await broker.topics.grow("t", 4)
        await broker.topics.alter_config("t", lambda before: {"flush.ms": "1000"})
        await broker.topics.alter_config("t", lambda before: {"flush.ms": "1000"})
        await broker.controller.alter_broker_config(None, lambda before: {"log.flush.interval.ms": "5"})
        await broker.topics.delete("t")
    assert heard == [
        "TopicCreated t",
        "PartitionsOpened t-0 t-1",
        "PartitionsOpened t-2 t-3",
        "TopicConfigChanged t",
        "BrokerConfigChanged",
        "TopicDeleted t",
    ]


async def test_topics_publish_partitions_that_were_opened_at_the_start(tmp_path: Path) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path / "data")}
    async with running_broker(settings) as broker:
        await broker.topics.create(TopicSpec("t", 2))
    broker, heard = new_broker(settings), list[str]()
    broker.events.subscribe(lambda event: heard.append(described(event)))
    async with broker.running():
        assert heard == ["BrokerConfigChanged", "PartitionsOpened t-0 t-1"]


async def test_publish_to_a_failing_listener_does_not_stop_an_append(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_broker() as broker:
        (partition,) = (await broker.topics.create(TopicSpec("t", 1))).partitions

        def append_and_fail(event: Event) -> None:
            raise RuntimeError("no luck")

        broker.events.subscribe(append_and_fail)
        other = await broker.topics.create(TopicSpec("u", 1))
        assert partition.log.append_nowait(make_batch([b"value"])).base_offset == 0
        assert other.partitions[0].log.append_nowait(make_batch([b"value"])).base_offset == 0
        broker.replicas.take_offline([TopicPartition("t", 0)], "a disk failed")
        with pytest.raises(StorageError, match="t-0 is offline: a disk failed"):
            partition.log.append_as_leader(make_batch([b"value"]))
        await trio.lowlevel.checkpoint()
    assert "an event listener failed" in caplog.text
