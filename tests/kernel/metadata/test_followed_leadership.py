"""Model of topics and leadership that follow an image: any deltas, grouping and crashes end in the same."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.image_followers import ImageFollowers
from tidelog.kernel.config import Config, keys
from tidelog.kernel.metadata import (
    ALL_BROKERS,
    NO_LEADER,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from tidelog.kernel.seams.events import (
    Event,
    LeadershipChanged,
    PartitionsOpened,
    TopicDeleted,
)
from tidelog.kernel.seams.metadata import MetadataContext
from tidelog.kernel.seams.storage import StorageContext, TopicPartition
from tidelog.kernel.testing import FakeClock
from tidelog.kernel.testing.tasks import ManualTasks
from tidelog.plugins.metadata_memory.store import MemoryMetadata
from tidelog.plugins.storage_memory.storage import MemoryStorage

NODE_ID = 1
NAMES = ("t", "u", "__consumer_offsets")
leaders = st.sampled_from([NODE_ID, NODE_ID, 2, NO_LEADER])
values = st.sampled_from([{}, {"flush.messages": "7"}, {"flush.messages": "9"}])


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, str, Any]:
    """What is done to a topic; of the broker's configuration the name does not matter."""
    kind = draw(
        st.sampled_from(["create", "replace", "delete", "grow", "configure", "lead", "lead", "broker"])
    )
    return kind, draw(st.sampled_from(NAMES)), draw(st.tuples(leaders, leaders, st.integers(1, 3), values))


def partition(leader_id: int, epoch: int) -> PartitionImage:
    isr = () if leader_id == NO_LEADER else (leader_id,)
    return PartitionImage(epoch, leader_id, (NODE_ID, 2), isr)


def delta_of(image: MetadataImage, step: tuple[str, str, Any], topic_id: UUID) -> MetadataDelta:
    """A change that a controller could commit, which may change several things at once."""
    kind, name, (leader, other, count, config) = step
    if kind == "broker":
        default = config.get("flush.messages")
        configs = {} if default is None else {"log.flush.interval.messages": default}
        return MetadataDelta(configs={ALL_BROKERS: configs})
    before = image.topics.get(name)
    if kind == "delete" or (before is None and kind != "create"):
        return MetadataDelta(topics={name: None})
    if before is None or kind == "replace":
        led = tuple(partition(leader if number % 2 else other, count) for number in range(count))
        return MetadataDelta.of_topics(TopicImage(name, topic_id, led, config))
    partitions = before.partitions
    if kind == "grow":
        partitions += (partition(leader, 0),) * count
    elif kind == "lead":
        partitions = tuple(
            partition(leader if number % 2 else other, each.leader_epoch + count)
            for number, each in enumerate(partitions)
        )
    changed = config if kind in ("configure", "lead") else before.config
    return MetadataDelta.of_topics(attrs.evolve(before, partitions=partitions, config=changed))


class Cluster:
    """A store that stays, and topics above it that may be started again with an empty disk."""

    def __init__(self) -> None:
        self.config = Config.from_mapping({"storage": "memory"})
        self.store = MemoryMetadata(MetadataContext(self.config, NODE_ID, FakeClock(), self._deliver))
        self.followers: ImageFollowers
        self.led: dict[TopicPartition, bool] = {}

    def _deliver(self, delta: MetadataDelta) -> None:
        self.followers.publisher.deliver(delta)

    async def start(self) -> None:
        self.led.clear()
        config = Config.from_mapping({"storage": "memory"})
        tasks, clock = ManualTasks(), FakeClock()
        storage = MemoryStorage(StorageContext(config, NODE_ID, tasks, clock))
        await storage.open()
        self.followers = ImageFollowers(config, storage, self.store, clock, tasks)
        self.followers.events.subscribe(self._on_event)
        self.followers.load()
        self.followers.dynamic_config.load(self.store.image)
        await self.followers.topics.load()

    def _on_event(self, event: Event) -> None:
        """Note what a listener knows of leadership."""
        match event:
            case PartitionsOpened(_, partitions) | LeadershipChanged(partitions):
                self.led |= {each.topic_partition: each.is_leader for each in partitions}
            case TopicDeleted(topic):
                for each in topic.partitions:
                    del self.led[each.topic_partition]
            case _:
                """Of the configuration."""

    def followed(self) -> dict[str, Any]:
        """What the parts of the broker have."""
        return {
            topic.name: (
                topic.topic_id,
                dict(topic.overrides),
                {each.log.config.flush_messages for each in topic.partitions},
                [
                    (
                        each.leadership,
                        each.log.watermarks.follows,
                        each.log.availability.append_refusal is None,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in self.followers.topics
        }

    def wanted(self) -> dict[str, Any]:
        """What they have to have by the image."""
        image = self.store.image
        default = image.config(ALL_BROKERS).get("log.flush.interval.messages")
        unset = keys.FLUSH_MESSAGES.default if default is None else int(default)
        return {
            topic.name: (
                topic.topic_id,
                dict(topic.config),
                {int(topic.config.get("flush.messages", unset))},
                [
                    (
                        (each.leader, each.leader_epoch, each.isr),
                        each.leader != NODE_ID,
                        each.leader == NODE_ID,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in image.topics.values()
        }


@settings(deadline=None)
@given(sequence=st.lists(steps(), max_size=10), data=st.data())
def test_leadership_topics_and_configuration_are_those_of_the_image(
    sequence: list[tuple[str, str, Any]], data: st.DataObject
) -> None:
    async def run() -> None:
        cluster = Cluster()
        await cluster.start()
        for number, step in enumerate(sequence):
            await cluster.store.commit(delta_of(cluster.store.image, step, UUID(int=number + 1)))
            match data.draw(st.sampled_from(["apply", "later", "later", "crash"])):
                case "apply":
                    await cluster.followers.publisher.catch_up()
                case "crash":
                    await cluster.start()
                case _:
                    """Delivered with the next one."""
        await cluster.followers.publisher.catch_up()
        assert cluster.followed() == cluster.wanted()
        assert cluster.led == {
            TopicPartition(topic.name, number): each.leader == NODE_ID
            for topic in cluster.store.image.topics.values()
            for number, each in enumerate(topic.partitions)
        }

    trio.run(run)
