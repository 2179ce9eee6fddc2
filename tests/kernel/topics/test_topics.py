"""Topics: names, creation and deletion that happen wholly or not at all, and coming back after a restart."""

from __future__ import annotations

import errno
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.image_followers import ImageFollowers
from tests.metadata_changes import put_topics, topics_of
from tests.tables import for_each
from tidelog.kernel.config import Config, keys
from tidelog.kernel.errors import (
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    InvalidTopicConfig,
    StorageError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.kernel.log import AppendWaiter, Isolation, UnifiedLog
from tidelog.kernel.log.validation import PartitionConfig
from tidelog.kernel.metadata import MetadataDelta, MetadataImage, PartitionImage, topic_image
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.metadata import MetadataContext
from tidelog.kernel.seams.storage import PartitionSpec, PartitionStore, StorageContext, TopicPartition
from tidelog.kernel.stores import close_stores
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.topic_names import check_topic_name
from tidelog.kernel.topics import Topics
from tidelog.plugins.metadata_memory.store import MemoryMetadata
from tidelog.plugins.storage_memory import plugin as storage_memory
from tidelog.plugins.storage_memory.storage import MemoryStorage

NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


class Disk:
    """What may go wrong and what may take long, for each of the steps that touch a disk."""

    def __init__(self) -> None:
        self.failing: str | None = None
        self.gates: dict[str, trio.Event] = {}
        self.steps: list[str] = []
        self._reached: dict[str, trio.Event] = defaultdict(trio.Event)

    async def step(self, name: str) -> None:
        """Wait for the gate of this step, then fail if it is to."""
        self.steps.append(name)
        self._reached[name].set()
        await trio.lowlevel.checkpoint()
        if name in self.gates:
            await self.gates[name].wait()
        if self.failing == name:
            raise NO_SPACE

    async def wait_reached(self, name: str) -> None:
        """Wait until somebody has come to this step."""
        await self._reached[name].wait()


class Registry(MemoryMetadata):
    """Metadata on such a disk."""

    def __init__(self, context: MetadataContext, disk: Disk) -> None:
        super().__init__(context)
        self._disk = disk

    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `Disk`."""
        if delta.topics:
            await self._disk.step("remove_topics" if None in delta.topics.values() else "put_topics")


class SlowStorage(MemoryStorage):
    """Partitions on such a disk; `open_now` has those that were opened and not deleted."""

    def __init__(self, context: StorageContext, disk: Disk) -> None:
        super().__init__(context)
        self.disk = disk
        self.open_now: set[TopicPartition] = set()

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """See `Disk`."""
        await self.disk.step("open_partitions")
        stores = await super().open_partitions(specs, progress)
        self.open_now |= {spec.topic_partition for spec in specs}
        return stores

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """See `Disk`."""
        await self.disk.step("delete_partitions")
        await super().delete_partitions(partitions)
        self.open_now -= {partition for partition, _ in partitions}


class TopicsHarness:
    """Topics above a storage that can be slow and fail."""

    def __init__(self, **settings: object) -> None:
        self.config = Config.from_mapping(
            {"storage": "memory", **settings}, storage_memory.tidelog_config_keys()
        )
        self.tasks = BackgroundTasks()
        self.clock = FakeClock()
        self.disk = Disk()
        node_id = self.config[keys.NODE_ID]
        context = MetadataContext(self.config, node_id, self.clock, self._deliver)
        self.metadata = Registry(context, self.disk)
        self.storage = SlowStorage(StorageContext(self.config, node_id, self.tasks, self.clock), self.disk)
        self.followers: ImageFollowers
        self.topics = self.again()

    def again(self) -> Topics:
        """Topics that know nothing yet, above the same storage."""
        self.followers = ImageFollowers(self.config, self.storage, self.metadata, self.clock, self.tasks)
        self.followers.load()
        self.topics, self.controller = self.followers.topics, self.followers.controller
        return self.topics

    def _deliver(self, delta: MetadataDelta) -> None:
        self.followers.publisher.deliver(delta)

    async def close(self) -> None:
        """Close the storage and the registry."""
        await close_stores(self.storage, self.metadata)

    def names(self) -> tuple[list[str], list[str]]:
        """Topics as clients see them and as the registry has them."""
        return sorted(topic.name for topic in self.topics), sorted(self.metadata.image.topics)


@pytest.fixture
def harness() -> TopicsHarness:
    """An empty one."""
    return TopicsHarness()


@for_each("name", ["a", "A.b_c-9", "...", "-", "_", ".a", "a" * 249, "0", "__consumer_offsets"])
def test_create_accepts_valid_names(name: str) -> None:
    check_topic_name(name)


@for_each(
    "name",
    [
        "",
        ".",
        "..",
        "a" * 250,
        "a/b",
        "../etc",
        "a b",
        "a\n",
        "\na",
        "a\0",
        "\u00e4",
        "a:b",
        "a*",
        "\u0661",
        "a\\b",
    ],
)
def test_create_refuses_invalid_names(name: str) -> None:
    with pytest.raises(InvalidTopic):
        check_topic_name(name)


@pytest.mark.parametrize(
    ("there", "new"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c"), ("..a", "._a"), ("x_y.z", "x.y.z")]
)
async def test_create_refuses_names_that_differ_in_dots_and_underscores(
    harness: TopicsHarness, there: str, new: str
) -> None:
    await harness.topics.create(TopicSpec(there))
    with pytest.raises(InvalidTopic, match=f"'{new}' collides with '{there}'"):
        await harness.topics.create(TopicSpec(new))
    await harness.topics.delete(there)
    await harness.topics.create(TopicSpec(new))


@pytest.mark.parametrize(("there", "new"), [("a.b", "a-b"), ("a.b", "ab"), ("a_b", "a__b"), ("a", "a.")])
async def test_create_accepts_names_that_differ_otherwise(
    harness: TopicsHarness, there: str, new: str
) -> None:
    await harness.topics.create(TopicSpec(there))
    await harness.topics.create(TopicSpec(new))
    assert len(harness.topics) == 2


async def test_create_of_a_new_topic() -> None:
    harness = TopicsHarness(**{"num.partitions": 3})
    topic = await harness.topics.create(TopicSpec("flights", config={"max.message.bytes": "1000"}))
    assert [partition.topic_partition for partition in topic.partitions] == [
        TopicPartition("flights", index) for index in range(3)
    ]
    assert {partition.log.topic_id for partition in topic.partitions} == {topic.topic_id}
    assert topic.config[keys.MAX_MESSAGE_BYTES] == 1000
    assert topic.partitions[2].log.config == PartitionConfig.of(topic.config)
    assert dict(topic.overrides) == {"max.message.bytes": "1000"}
    assert harness.topics.find("flights") is harness.topics.get("flights") is topic
    assert (
        harness.topics.find_by_id(topic.topic_id.bytes)
        is harness.topics.get_by_id(topic.topic_id.bytes)
        is topic
    )
    assert list(harness.topics) == [topic]
    assert list(harness.topics.partitions()) == topic.partitions
    (stored,) = topics_of(harness.metadata)
    assert (stored.name, stored.topic_id, stored.config) == (
        "flights",
        topic.topic_id,
        {"max.message.bytes": "1000"},
    )
    assert stored.partitions == (PartitionImage(0, 1, (1,), (1,)),) * 3


async def test_get_and_get_by_id_and_find_by_id_of_an_unknown_topic(harness: TopicsHarness) -> None:
    assert harness.topics.find("nope") is None
    assert harness.topics.find_by_id(bytes(16)) is None
    with pytest.raises(UnknownTopicOrPartition, match="'nope' does not exist"):
        harness.topics.get("nope")
    with pytest.raises(UnknownTopicId, match="00ff"):
        harness.topics.get_by_id(bytes.fromhex("00ff" * 8))
    with pytest.raises(UnknownTopicOrPartition):
        await harness.topics.delete("nope")


async def test_create_assigns_unique_topic_ids(harness: TopicsHarness) -> None:
    ids = {(await harness.topics.create(TopicSpec(f"topic{index}"))).topic_id for index in range(20)}
    first = await harness.topics.create(TopicSpec("again"))
    await harness.topics.delete("again")
    second = await harness.topics.create(TopicSpec("again"))
    assert len(ids | {first.topic_id, second.topic_id}) == 22
    assert harness.topics.find_by_id(first.topic_id.bytes) is None


REFUSED: dict[str, tuple[TopicSpec, type[Exception]]] = {
    "no name": (TopicSpec(""), InvalidTopic),
    "a path": (TopicSpec("a/b"), InvalidTopic),
    "there already": (TopicSpec("there"), TopicAlreadyExists),
    "the metadata log": (TopicSpec("__cluster_metadata"), InvalidRequest),
    "no partitions": (TopicSpec("new", 0), InvalidPartitions),
    "fewer than none": (TopicSpec("new", -2), InvalidPartitions),
    "too many": (TopicSpec("new", 2**31 - 1), InvalidPartitions),
    "two replicas": (TopicSpec("new", 1, 2), InvalidReplicationFactor),
    "no replica": (TopicSpec("new", 1, 0), InvalidReplicationFactor),
    "an unknown key": (TopicSpec("new", config={"max.message.byte": "1"}), InvalidTopicConfig),
    "a bad value": (TopicSpec("new", config={"max.message.bytes": "-1"}), InvalidTopicConfig),
}


@pytest.mark.parametrize(("new", "error"), REFUSED.values(), ids=REFUSED)
async def test_check_and_create_refuse_an_invalid_topic(
    harness: TopicsHarness, new: TopicSpec, error: type[Exception]
) -> None:
    await harness.topics.create(TopicSpec("there"))
    with pytest.raises(error):
        harness.controller.check_topic(new)
    with pytest.raises(error):
        await harness.topics.create(new)
    assert harness.names() == (["there"], ["there"])
    assert harness.storage.open_now == {TopicPartition("there", 0)}


async def test_create_has_the_defaults_that_were_set_while_its_storage_was_reserved(
    harness: TopicsHarness,
) -> None:
    gate = harness.disk.gates["open_partitions"] = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.topics.create, TopicSpec("flights", 2))
        await harness.disk.wait_reached("open_partitions")
        await harness.controller.alter_broker_config(None, lambda _: {"log.flush.interval.messages": "7"})
        gate.set()
    topic = harness.topics.get("flights")
    assert topic.config[keys.FLUSH_MESSAGES] == 7
    assert [partition.log.config.flush_messages for partition in topic.partitions] == [7, 7]


async def test_check_names_the_limit_of_partitions(harness: TopicsHarness) -> None:
    with pytest.raises(InvalidPartitions, match="a topic may begin with 10000 partitions at most, not 10001"):
        harness.controller.check_topic(TopicSpec("new", 10_001))
    record = harness.controller.check_topic(TopicSpec("new", 10_000))
    assert len(record.partitions) == 10_000


async def test_check_creates_nothing(harness: TopicsHarness) -> None:
    record = harness.controller.check_topic(TopicSpec("new", 7, 1, {"segment.bytes": "2000000"}))
    assert (record.name, len(record.partitions)) == ("new", 7)
    assert harness.names() == ([], [])
    assert harness.disk.steps == []


async def test_create_of_one_topic_by_many_succeeds_once(harness: TopicsHarness) -> None:
    outcomes: list[str] = []

    async def create() -> None:
        try:
            await harness.topics.create(TopicSpec("flights"))
        except TopicAlreadyExists:
            outcomes.append("exists")
        else:
            outcomes.append("created")

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(create)
    assert sorted(outcomes) == ["created"] + ["exists"] * 9
    assert harness.disk.steps.count("open_partitions") == 1


async def test_ensure_returns_the_same_topic_to_all(harness: TopicsHarness) -> None:
    found: list[object] = []

    async def ensure() -> None:
        found.append(await harness.topics.ensure("flights"))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ensure)
    assert len(set(map(id, found))) == 1
    assert await harness.topics.ensure("flights") is found[0]
    assert harness.disk.steps.count("open_partitions") == 1


async def test_create_makes_a_topic_visible_when_it_is_durable(harness: TopicsHarness) -> None:
    gate = harness.disk.gates["put_topics"] = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.topics.create, TopicSpec("flights"))
        await harness.disk.wait_reached("put_topics")
        await wait_all_tasks_blocked()
        assert harness.topics.find("flights") is None
        gate.set()
    assert harness.topics.find("flights") is not None


@pytest.mark.parametrize("step", ["open_partitions", "put_topics"])
async def test_create_that_fails_leaves_nothing(harness: TopicsHarness, step: str) -> None:
    harness.disk.failing = step
    with pytest.raises(StorageError, match=r"topic 'flights' cannot be created: .*No space left"):
        await harness.topics.create(TopicSpec("flights", 3))
    assert harness.names() == ([], [])
    assert harness.storage.open_now == set()
    harness.disk.failing = None
    await harness.topics.create(TopicSpec("flights", 3))
    assert harness.names() == (["flights"], ["flights"])


async def test_create_whose_clean_up_fails_as_well(
    harness: TopicsHarness, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_from_now_on(delta: MetadataDelta) -> None:
        harness.disk.failing = "delete_partitions"
        raise NO_SPACE

    harness.metadata.commit = fail_from_now_on  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="topic 'flights' cannot be created"):
        await harness.topics.create(TopicSpec("flights"))
    assert harness.names() == ([], [])
    assert "partitions of topic flights are left on the disk" in caplog.text


Action = Callable[[Topics], Awaitable[object]]


async def cancelled(harness: TopicsHarness, step: str, action: Action) -> None:
    """Cancel the action in the middle of that step, as when its client leaves."""
    gate = harness.disk.gates[step] = trio.Event()
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def act() -> None:
            with scope:
                await action(harness.topics)

        nursery.start_soon(act)
        await harness.disk.wait_reached(step)
        scope.cancel()
        await wait_all_tasks_blocked()
        gate.set()


@pytest.mark.parametrize("step", ["open_partitions", "put_topics"])
async def test_create_is_completed_after_a_cancellation(harness: TopicsHarness, step: str) -> None:
    await cancelled(harness, step, lambda topics: topics.create(TopicSpec("flights", 2)))
    assert harness.names() == (["flights"], ["flights"])
    assert len(harness.topics.get("flights").partitions) == 2


@pytest.mark.parametrize("step", ["remove_topics", "delete_partitions"])
async def test_delete_is_completed_after_a_cancellation(harness: TopicsHarness, step: str) -> None:
    await harness.topics.create(TopicSpec("flights", 2))
    await cancelled(harness, step, lambda topics: topics.delete("flights"))
    assert harness.names() == ([], [])
    assert harness.storage.open_now == set()


async def test_create_and_delete_cancelled_while_they_wait_change_nothing(harness: TopicsHarness) -> None:
    gate = harness.disk.gates["put_topics"] = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.topics.create, TopicSpec("first"))
        await wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await harness.topics.create(TopicSpec("second"))
        gate.set()
    assert harness.names() == (["first"], ["first"])


async def test_delete_wakes_waiters_and_ends_reading(harness: TopicsHarness) -> None:
    topic = await harness.topics.create(TopicSpec("flights", 2))
    for partition in topic.partitions:
        partition.log.append_nowait(make_batch())
    woken: list[int] = []
    for index, partition in enumerate(topic.partitions):
        partition.log.add_waiter(AppendWaiter(10**9, partial(woken.append, index)))
    await harness.topics.delete("flights")
    assert sorted(woken) == [0, 1]
    for partition in topic.partitions:
        with pytest.raises(UnknownTopicOrPartition):
            partition.log.read(0, 100, Isolation.READ_UNCOMMITTED)
        with pytest.raises(UnknownTopicOrPartition):
            partition.log.append_nowait(make_batch())


async def test_delete_removes_the_topic_before_its_files(harness: TopicsHarness) -> None:
    await harness.topics.create(TopicSpec("flights"))
    gate = harness.disk.gates["delete_partitions"] = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.topics.delete, "flights")
        await wait_all_tasks_blocked()
        assert harness.topics.find("flights") is None
        gate.set()


async def test_delete_changes_nothing_when_the_disk_fails(harness: TopicsHarness) -> None:
    topic = await harness.topics.create(TopicSpec("flights"))
    harness.disk.failing = "remove_topics"
    with pytest.raises(StorageError, match=r"topic 'flights' cannot be deleted: .*No space left"):
        await harness.topics.delete("flights")
    assert harness.names() == (["flights"], ["flights"])
    topic.partitions[0].log.append_nowait(make_batch())


async def test_delete_succeeds_when_files_cannot_be_removed(
    harness: TopicsHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """The registry has forgotten the topic: for every client, now and after a restart, it is gone."""
    await harness.topics.create(TopicSpec("flights"))
    harness.disk.failing = "delete_partitions"
    await harness.topics.delete("flights")
    assert harness.names() == ([], [])
    assert "partitions of topic flights are left on the disk: [Errno 28]" in caplog.text


async def test_delete_of_one_topic_by_many_succeeds_once(harness: TopicsHarness) -> None:
    await harness.topics.create(TopicSpec("flights"))
    unknown: list[int] = []

    async def delete() -> None:
        try:
            await harness.topics.delete("flights")
        except UnknownTopicOrPartition:
            unknown.append(1)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(delete)
    assert len(unknown) == 4


async def test_load_restores_all_topics_after_a_restart(harness: TopicsHarness) -> None:
    created = [
        await harness.topics.create(TopicSpec("flights", 100)),
        await harness.topics.create(TopicSpec("planes", 40, config={"segment.bytes": "2000000"})),
    ]
    await harness.topics.close()
    await harness.close()
    assert len(harness.topics) == 0
    progress: list[int] = []
    topics = harness.again()
    await topics.load(progress.append)
    assert progress[-1] == 140
    for before in created:
        after = topics.get_by_id(before.topic_id.bytes)
        assert (after.name, after.topic_id, after.overrides) == (
            before.name,
            before.topic_id,
            before.overrides,
        )
        assert after.config == before.config
        assert [p.topic_partition for p in after.partitions] == [p.topic_partition for p in before.partitions]


async def test_high_watermarks_that_a_thread_looks_up_are_there_after_a_close(harness: TopicsHarness) -> None:
    (partition,) = (await harness.topics.create(TopicSpec("flights", 1))).partitions
    partition.log.append_nowait(make_batch([b"x"]))
    known = harness.followers.replicas.high_watermarks()
    await harness.topics.close()
    assert known.get(partition.topic_partition) == 1
    assert known.get(TopicPartition("planes", 0)) is None


async def test_load_takes_a_partition_offline_that_finds_the_disk_full_and_serves_the_others(
    harness: TopicsHarness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.topics.create(TopicSpec("flights", 3))
    await harness.topics.close()
    await harness.close()
    refusal, load = NO_SPACE, UnifiedLog.load

    def refused_once(partition: UnifiedLog, *, clean_start: bool) -> None:
        if partition.topic_partition.partition == 1:
            raise refusal
        load(partition, clean_start=clean_start)

    monkeypatch.setattr(UnifiedLog, "load", refused_once)
    topics = harness.again()
    await topics.load()
    assert [each.log.offline is None for each in topics.get("flights").partitions] == [True, False, True]
    assert "flights-1 is offline until a restart with room: [Errno 28] No space left" in caplog.text
    await topics.close()
    await harness.close()
    refusal = OSError(errno.EIO, "the disk is broken")
    with pytest.raises(OSError, match="the disk is broken"):
        await harness.again().load()


async def test_load_of_a_topic_with_unknown_keys(
    harness: TopicsHarness, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.topics.create(TopicSpec("flights"))
    record = topics_of(harness.metadata)[0]
    config = {"of.a.plugin": "1", "segment.bytes": "nonsense", "max.message.bytes": "5000"}
    await put_topics(harness.metadata, topic_image(record.name, record.topic_id, 1, config))
    await harness.topics.close()
    await harness.close()
    topics = harness.again()
    await topics.load()
    assert topics.get("flights").config[keys.MAX_MESSAGE_BYTES] == 5000
    assert "topic flights: Unknown topic config name: of.a.plugin" in caplog.text
    assert "topic flights: segment.bytes" in caplog.text


async def test_wake_all_waiters_of_all_topics(harness: TopicsHarness) -> None:
    woken: list[str] = []
    for name in ("flights", "planes"):
        topic = await harness.topics.create(TopicSpec(name))
        topic.partitions[0].log.add_waiter(AppendWaiter(10**9, partial(woken.append, name)))
    harness.topics.wake_all_waiters()
    assert sorted(woken) == ["flights", "planes"]


async def test_close_of_a_partition_that_fails_closes_the_others(
    harness: TopicsHarness, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await harness.topics.create(TopicSpec("flights", 3))
    closed: list[int] = []

    def fail() -> None:
        raise NO_SPACE

    for index, partition in enumerate(topic.partitions):
        close = fail if index == 1 else partial(closed.append, index)
        partition.log.store.close = close  # type: ignore[method-assign]
    await harness.topics.close()
    assert sorted(closed) == [0, 2]
    warned = [(each.levelno, each.message) for each in caplog.records if each.levelno > logging.INFO]
    assert warned == [(logging.WARNING, f"flights-1 could not be closed properly: {NO_SPACE}")]


async def test_is_internal_of_internal_topics(harness: TopicsHarness) -> None:
    internal = await harness.topics.create(TopicSpec("__consumer_offsets"))
    assert internal.is_internal
    assert not (await harness.topics.create(TopicSpec("flights"))).is_internal
