"""Conformance of metadata stores: topics, configuration, quotas, credentials, ids, log directories."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from uuid import UUID, uuid4

import pytest
import trio

from tidelog.kernel.errors import InvalidUpdateVersion, StorageError
from tidelog.kernel.metadata import (
    ALL_BROKERS,
    ConfigOwner,
    MetadataDelta,
    TopicImage,
    topic_image,
)
from tidelog.kernel.metadata.acls import AclEntry
from tidelog.kernel.metadata.client_quotas import QuotaEntity
from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage
from tidelog.kernel.metadata.scram import CredentialKey, ScramCredential
from tidelog.kernel.seams.features import GROUP_VERSION, HIGHEST_LEVELS, TRANSACTION_VERSION
from tidelog.kernel.seams.metadata import BrokerRegistration
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.loop_turns import holds_the_loop
from tidelog.kernel.testing.metadata.harness import MetadataHarness, described

CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")
WALK_STEPS = 120


async def _refuses(change: Awaitable[None]) -> bool:
    """Whether the store has nothing of the kind that a change is about, as `MetadataStoreBase` by default."""
    try:
        await change
    except StorageError:
        return True
    return False


@pytest.mark.trio
class MetadataConformance:
    """Everything that the kernel relies on; `plugin` is the module with the hook of the store to prove.

    `settings` are configuration keys to set for it, beside `log.dirs`.
    """

    plugin: ClassVar[ModuleType]
    settings: ClassVar[dict[str, object]] = {}

    def __init_subclass__(cls, plugin: ModuleType | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if plugin is not None:
            cls.plugin = plugin

    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncGenerator[MetadataHarness]:
        """Open a fresh store."""
        tasks = BackgroundTasks()
        async with tasks.running():
            harness = MetadataHarness(self.plugin, tmp_path, tasks, dict(self.settings))
            await harness.open()
            try:
                yield harness
            finally:
                await harness.close()

    async def test_topics_are_put_replaced_and_removed(self, harness: MetadataHarness) -> None:
        assert harness.topics() == []
        first = topic_image("first", uuid4(), 3, {"retention.ms": "1000", "cleanup.policy": "compact"})
        await harness.put_topics(first)
        await harness.put_topics(topic_image("second", uuid4(), 1))
        changed = topic_image("first", first.topic_id, 5, {})
        await harness.put_topics(changed)
        await harness.remove_topics("second")
        await harness.remove_topics("never there")
        assert harness.topics() == [described(changed)]
        await harness.reopen()
        assert harness.topics() == [described(changed)]

    async def test_put_topic_with_another_id_replaces_the_topic(self, harness: MetadataHarness) -> None:
        await harness.put_topics(topic_image("t", uuid4(), 3, {"retention.ms": "1000"}))
        other = topic_image("t", uuid4(), 1)
        await harness.put_topics(other)
        await harness.reopen()
        assert harness.topics() == [described(other)]

    async def test_commit_keeps_leader_epochs_or_has_none(self, harness: MetadataHarness) -> None:
        record = topic_image("t", uuid4(), 3, leader_epochs=(4, 0, 7))
        await harness.put_topics(record)
        await harness.reopen()
        epochs = [partition.leader_epoch for partition in harness.store.image.topics["t"].partitions]
        # A start may lead the partitions in new epochs, never in old ones.
        assert epochs == [0, 0, 0] or all(
            after >= before.leader_epoch for after, before in zip(epochs, record.partitions, strict=True)
        )

    async def test_an_image_does_not_change(self, harness: MetadataHarness) -> None:
        record = topic_image("t", uuid4(), 1, {"retention.ms": "1"})
        await harness.put_topics(record)
        image = harness.store.image
        before = image.topics["t"]
        await harness.put_topics(topic_image("t", record.topic_id, 2, {"retention.ms": "2"}))
        assert image.topics["t"] is before
        assert before.config == {"retention.ms": "1"}

    async def test_changes_at_the_same_time_are_all_made(self, harness: MetadataHarness) -> None:
        records = {name: topic_image(name, uuid4(), 1) for name in "abcdefgh"}
        async with trio.open_nursery() as nursery:
            for record in records.values():
                nursery.start_soon(harness.put_topics, record)
            for name in "xyz":
                nursery.start_soon(harness.put_broker_config, None, {name: "1"})
        assert sorted(harness.topics()) == sorted(map(described, records.values()))
        config = harness.broker_config(None)
        assert config in [{name: "1"} for name in "xyz"]
        await harness.reopen()
        assert sorted(harness.topics()) == sorted(map(described, records.values()))
        assert harness.broker_config(None) == config

    async def test_no_change_blocks_the_event_loop(self, harness: MetadataHarness) -> None:
        assert not await holds_the_loop(lambda: harness.put_topics(topic_image("first", uuid4(), 1)))

    async def test_a_cancelled_change_is_made_or_not(self, harness: MetadataHarness) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await harness.put_topics(topic_image("t", uuid4(), 3, {"retention.ms": "1"}))
        there = harness.topics()
        assert len(there) <= 1
        await harness.reopen()
        assert harness.topics() == there

    async def test_cluster_id_stays(self, harness: MetadataHarness) -> None:
        cluster_id = harness.store.image.cluster_id
        assert CLUSTER_ID.fullmatch(cluster_id)
        await harness.reopen()
        assert harness.store.image.cluster_id == cluster_id

    async def test_next_producer_id_never_falls(self, harness: MetadataHarness) -> None:
        first = harness.store.image.next_producer_id
        assert first >= 0
        for count in (1, 1000, 1, 5):
            await harness.store.commit(MetadataDelta(next_producer_id=first + count))
            first += count
            assert harness.store.image.next_producer_id == first
            await harness.reopen()
            assert harness.store.image.next_producer_id == first

    async def test_broker_config_of_a_broker_and_of_all(self, harness: MetadataHarness) -> None:
        assert not harness.broker_config(1)
        await harness.put_broker_config(1, {"a": "1", "b": ""})
        await harness.put_broker_config(None, {"a": "2"})
        await harness.put_broker_config(1, {"b": "", "c": "3"})
        await harness.reopen()
        assert harness.broker_config(1) == {"b": "", "c": "3"}
        assert harness.broker_config(None) == {"a": "2"}
        await harness.put_broker_config(None, {})
        assert not harness.broker_config(None)

    async def test_commit_sets_and_removes_quotas(self, harness: MetadataHarness) -> None:
        assert not harness.store.image.quotas
        alice: QuotaEntity = frozenset({("user", "alice"), ("client-id", None)})
        default: QuotaEntity = frozenset({("ip", None)})
        rates = {"producer_byte_rate": 1000.5, "consumer_byte_rate": 2.0}
        first = MetadataDelta(quotas={alice: rates, default: {"connection_creation_rate": 7.0}})
        if await _refuses(harness.store.commit(first)):
            assert not harness.store.image.quotas
            return
        after = {alice: {"producer_byte_rate": 1000.5}, default: {"connection_creation_rate": 8.0}}
        await harness.store.commit(MetadataDelta(quotas=after))
        await harness.reopen()
        assert dict(harness.store.image.quotas) == after
        await harness.store.commit(MetadataDelta(quotas={alice: {}, frozenset({("ip", "never")}): {}}))
        await harness.reopen()
        assert list(harness.store.image.quotas) == [default]

    async def test_commit_sets_and_deletes_credentials(self, harness: MetadataHarness) -> None:
        assert not harness.store.image.credentials
        first, second = CredentialKey("alice", 1), CredentialKey("alice", 2)
        credential = ScramCredential(b"salt", b"stored", b"server", 4096)
        if await _refuses(
            harness.store.commit(MetadataDelta(credentials={first: credential, second: credential}))
        ):
            return
        changed = ScramCredential(b"", b"\0\xff", b"server", 8192)
        await harness.store.commit(
            MetadataDelta(credentials={first: changed, second: None, CredentialKey("b", 1): None})
        )
        assert dict(harness.store.image.credentials) == {first: changed}
        await harness.reopen()
        assert dict(harness.store.image.credentials) == {first: changed}

    async def test_commit_sets_and_deletes_acls(self, harness: MetadataHarness) -> None:
        assert not harness.store.image.acls
        first, second = bytes(15) + b"\1", bytes(15) + b"\2"
        entry = AclEntry(2, "flights", 3, "User:alice", "*", 3, 3)
        if await _refuses(harness.store.commit(MetadataDelta(acls={first: entry, second: entry}))):
            assert not harness.store.image.acls
            return
        changed = entry._replace(resource_name="", pattern_type=4, permission_type=2)
        await harness.store.commit(MetadataDelta(acls={first: changed, second: None, bytes(16): None}))
        assert dict(harness.store.image.acls) == {first: changed}
        await harness.reopen()
        assert dict(harness.store.image.acls) == {first: changed}

    async def test_commit_sets_and_deletes_delegation_tokens(self, harness: MetadataHarness) -> None:
        assert not harness.store.image.tokens
        token = DelegationTokenImage("User:alice", "User:root", ("User:bob", "User:bob"), 1, 2**62, 3)
        if await _refuses(harness.store.commit(MetadataDelta(tokens={"first": token, "second": token}))):
            assert not harness.store.image.tokens
            return
        changed = token._replace(expires_ms=-4, renewers=())
        await harness.store.commit(MetadataDelta(tokens={"first": changed, "second": None, "never": None}))
        assert dict(harness.store.image.tokens) == {"first": changed}
        await harness.reopen()
        assert dict(harness.store.image.tokens) == {"first": changed}

    async def test_commit_configures_groups_and_client_metrics(self, harness: MetadataHarness) -> None:
        g, h, metrics = (
            ConfigOwner("group", "g"),
            ConfigOwner("group", "h"),
            ConfigOwner("client-metrics", "g"),
        )
        changes: Sequence[Mapping[ConfigOwner, Mapping[str, str]]] = (
            {g: {"a": "1", "b": ""}, metrics: {"a": "2"}},
            {h: {"a": "3"}},
            {g: {"b": "", "c": "4"}},
            {h: {}},
        )
        for configs in changes:
            await harness.store.commit(MetadataDelta(configs=configs))
        await harness.reopen()
        image = harness.store.image
        assert image.config(g) == {"b": "", "c": "4"}
        assert image.config(metrics) == {"a": "2"}
        assert [key for key in image.configs if key.scope != "broker"] == [g, metrics]

    async def test_commit_of_several_kinds_is_one_change(self, harness: MetadataHarness) -> None:
        delivered: list[MetadataDelta] = harness.delivered
        delivered.clear()
        before = harness.store.image
        topics = {"t": topic_image("t", uuid4(), 1)}
        delta = MetadataDelta(topics=topics, configs={ALL_BROKERS: {"a": "1"}}, next_producer_id=2000)
        await harness.store.commit(delta)
        (made,) = delivered
        assert made.apply(before).topics == harness.store.image.topics
        assert (made.configs, made.next_producer_id) == (delta.configs, 2000)

    async def test_register_broker_at_each_start(self, harness: MetadataHarness) -> None:
        for port in (9092, 19092):
            registration = BrokerRegistration({"PLAINTEXT": ("localhost", port)}, "rack")
            await harness.store.register_broker(registration)
            epoch = harness.store.broker_epoch
            await harness.put_topics(topic_image(f"t{port}", uuid4(), 1))
            assert harness.store.broker_epoch == epoch
            await harness.reopen()
        assert len(harness.topics()) == 2

    async def test_feature_levels_are_durable_or_refused(self, harness: MetadataHarness) -> None:
        highest = dict(HIGHEST_LEVELS)
        assert harness.store.image.features.items() >= highest.items()
        epoch = harness.store.image.features_epoch
        assert epoch >= 0
        lowered = {GROUP_VERSION: 0, TRANSACTION_VERSION: 1}
        try:
            harness.store.check_levels(lowered)
        except InvalidUpdateVersion:
            with pytest.raises(StorageError):
                await harness.store.commit(MetadataDelta(features=lowered))
        else:
            await harness.store.commit(MetadataDelta(features=lowered))
            assert harness.store.image.features_epoch > epoch
            highest |= lowered
        await harness.reopen()
        found = harness.store.image.features
        assert {name: found.get(name, 0) for name in highest} == highest
        assert harness.store.image.features_epoch >= epoch

    async def test_assign_directory_is_recorded_or_ignored(self, harness: MetadataHarness) -> None:
        await harness.put_topics(topic_image("t", uuid4(), 2))
        directory_id, partition = uuid4().bytes, TopicPartition("t", 1)
        before = harness.store.image.partition(partition)
        await harness.store.assign_directory(partition, directory_id)
        found = harness.store.image.partition(partition)
        assert before is not None
        assert found in (before, before._replace(directory=directory_id))
        for unknown in (TopicPartition("t", 2), TopicPartition("u", 0)):
            await harness.store.assign_directory(unknown, directory_id)
            assert harness.store.image.partition(unknown) is None

    async def test_failed_directories_and_partitions_leave_the_topics(self, harness: MetadataHarness) -> None:
        record = topic_image("t", uuid4(), 2)
        await harness.put_topics(record)
        await harness.store.register_broker(BrokerRegistration({"PLAINTEXT": ("localhost", 9092)}, None))
        await harness.store.fail_directory(uuid4().bytes, [TopicPartition("t", 0), TopicPartition("u", 0)])
        await harness.store.fail_partitions([TopicPartition("t", 1)])
        assert harness.topics() == [described(record)]
        await harness.reopen()
        assert harness.topics() == [described(record)]

    async def test_a_store_without_directories_opens_or_is_refused(self, harness: MetadataHarness) -> None:
        other, _ = harness.new_store()
        if harness.backend.durable:
            return
        other.open(None)
        await other.activate()
        await other.commit(MetadataDelta.of_topics(topic_image("other", uuid4(), 1)))
        assert harness.topics() == []
        await other.close(clean=True)

    @pytest.mark.parametrize("seed", range(3))
    async def test_any_sequence_of_changes_is_what_a_dictionary_has(
        self, harness: MetadataHarness, seed: int
    ) -> None:
        choose, model = random.Random(seed), _Model(harness)
        for _ in range(WALK_STEPS):
            if choose.random() < 0.05:
                await harness.reopen()
            else:
                await model.step(harness, choose)
            model.check(harness)


class _Model:
    """What a store should have after some changes; a new one may set something for all brokers."""

    def __init__(self, harness: MetadataHarness) -> None:
        self._topics: dict[str, TopicImage] = {}
        self._configs: dict[int | None, Mapping[str, str]] = {None: harness.broker_config(None)}

    async def step(self, harness: MetadataHarness, choose: random.Random) -> None:
        """Make a change at random."""
        name, config = choose.choice("abc"), _some_config(choose)
        there = self._topics.get(name)
        match choose.randrange(4):
            case 0:
                await harness.remove_topics(name)
                self._topics.pop(name, None)
            case 1:
                node_id = choose.choice((None, 1))
                await harness.put_broker_config(node_id, config)
                self._configs[node_id] = config
            case 2 if there is not None:
                partitions = len(there.partitions) + choose.randrange(3)
                await self._put(harness, topic_image(name, there.topic_id, partitions, config))
            case _:
                topic_id = UUID(int=choose.getrandbits(120) + 2)
                await self._put(harness, topic_image(name, topic_id, choose.randint(1, 4), config))

    async def _put(self, harness: MetadataHarness, record: TopicImage) -> None:
        await harness.put_topics(record)
        self._topics[record.name] = record

    def check(self, harness: MetadataHarness) -> None:
        """Compare everything."""
        assert {topic[0]: topic for topic in harness.topics()} == {
            name: described(topic) for name, topic in self._topics.items()
        }
        for node_id in (None, 1):
            assert harness.broker_config(node_id) == dict(self._configs.get(node_id, {}))


def _some_config(choose: random.Random) -> dict[str, str]:
    return {
        key: str(choose.randrange(3)) for key in ("retention.ms", "segment.bytes") if choose.random() < 0.5
    }
