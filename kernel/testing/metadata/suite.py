"""Conformance of metadata stores: topics, configuration, quotas, credentials, ids, log directories."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, Awaitable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from uuid import UUID, uuid4

import pytest
import trio

from tidelog.kernel.errors import InvalidUpdateVersion, StorageError
from tidelog.kernel.seams.client_quotas import QuotaChange
from tidelog.kernel.seams.features import GROUP_VERSION, HIGHEST_LEVELS, TRANSACTION_VERSION
from tidelog.kernel.seams.metadata import BrokerRegistration, TopicRecord
from tidelog.kernel.seams.scram import CredentialKey, ScramCredential
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.metadata.scene import MetadataScene

CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")
WALK_STEPS = 120


async def _refuses(change: Awaitable[None]) -> bool:
    """Whether the store refuses to store what an empty change is about, as `MetadataStoreBase` does."""
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
    async def scene(self, tmp_path: Path) -> AsyncGenerator[MetadataScene]:
        """Open a fresh store."""
        tasks = BackgroundTasks()
        async with tasks.running():
            scene = MetadataScene(self.plugin, tmp_path, tasks, dict(self.settings))
            await scene.open()
            try:
                yield scene
            finally:
                await scene.storage.close()

    async def test_topics_are_put_replaced_and_removed(self, scene: MetadataScene) -> None:
        assert list(scene.store.topics()) == []
        first = TopicRecord("first", uuid4(), 3, {"retention.ms": "1000", "cleanup.policy": "compact"})
        await scene.store.put_topic(first)
        await scene.store.put_topic(TopicRecord("second", uuid4(), 1))
        changed = TopicRecord("first", first.topic_id, 5, {})
        await scene.store.put_topic(changed)
        await scene.store.remove_topic("second")
        await scene.store.remove_topic("never there")
        assert list(scene.store.topics()) == [changed]
        await scene.reopen()
        assert list(scene.store.topics()) == [changed]

    async def test_put_topic_with_another_id_replaces_the_topic(self, scene: MetadataScene) -> None:
        await scene.store.put_topic(TopicRecord("t", uuid4(), 3, {"retention.ms": "1000"}))
        other = TopicRecord("t", uuid4(), 1)
        await scene.store.put_topic(other)
        await scene.reopen()
        assert list(scene.store.topics()) == [other]

    async def test_put_topic_keeps_leader_epochs_or_has_none(self, scene: MetadataScene) -> None:
        record = TopicRecord("t", uuid4(), 3, leader_epochs=(4, 0, 7))
        await scene.store.put_topic(record)
        (found,) = scene.store.topics()
        assert found.leader_epochs in ((), record.leader_epochs)
        await scene.reopen()
        (found,) = scene.store.topics()
        # A start may lead the partitions in new epochs, never in old ones.
        assert not found.leader_epochs or all(
            after >= before for after, before in zip(found.leader_epochs, record.leader_epochs, strict=True)
        )

    async def test_what_topics_returned_does_not_change(self, scene: MetadataScene) -> None:
        record = TopicRecord("t", uuid4(), 1, {"retention.ms": "1"})
        await scene.store.put_topic(record)
        before = list(scene.store.topics())
        await scene.store.put_topic(TopicRecord("t", record.topic_id, 2, {"retention.ms": "2"}))
        assert before == [record]

    async def test_changes_at_the_same_time_are_all_made(self, scene: MetadataScene) -> None:
        records = {name: TopicRecord(name, uuid4(), 1) for name in "abcdefgh"}
        async with trio.open_nursery() as nursery:
            for record in records.values():
                nursery.start_soon(scene.store.put_topic, record)
            for name in "xyz":
                nursery.start_soon(scene.store.put_broker_config, None, {name: "1"})
        assert {topic.name: topic for topic in scene.store.topics()} == records
        config = dict(scene.store.broker_config(None))
        assert config in [{name: "1"} for name in "xyz"]
        await scene.reopen()
        assert {topic.name: topic for topic in scene.store.topics()} == records
        assert dict(scene.store.broker_config(None)) == config

    async def test_a_cancelled_change_is_made_or_not(self, scene: MetadataScene) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await scene.store.put_topic(TopicRecord("t", uuid4(), 3, {"retention.ms": "1"}))
        there = list(scene.store.topics())
        assert len(there) <= 1
        await scene.reopen()
        assert list(scene.store.topics()) == there

    async def test_cluster_id_stays(self, scene: MetadataScene) -> None:
        cluster_id = scene.store.cluster_id
        assert CLUSTER_ID.fullmatch(cluster_id)
        await scene.reopen()
        assert scene.store.cluster_id == cluster_id

    async def test_allocate_producer_ids_returns_each_once(self, scene: MetadataScene) -> None:
        given: list[int] = []
        for count in (1, 1000, 1, 5):
            block = await scene.store.allocate_producer_ids(count)
            assert len(block) == count
            given += block
            await scene.reopen()
        assert len(set(given)) == len(given)
        assert min(given) >= 0

    async def test_broker_config_of_a_broker_and_of_all(self, scene: MetadataScene) -> None:
        assert not scene.store.broker_config(1)
        await scene.store.put_broker_config(1, {"a": "1", "b": ""})
        await scene.store.put_broker_config(None, {"a": "2"})
        await scene.store.put_broker_config(1, {"b": "", "c": "3"})
        await scene.reopen()
        assert dict(scene.store.broker_config(1)) == {"b": "", "c": "3"}
        assert dict(scene.store.broker_config(None)) == {"a": "2"}
        await scene.store.put_broker_config(None, {})
        assert not scene.store.broker_config(None)

    async def test_alter_client_quotas_sets_and_removes_quotas(self, scene: MetadataScene) -> None:
        assert not scene.store.client_quotas()
        if await _refuses(scene.store.alter_client_quotas([])):
            return
        alice, default = frozenset({("user", "alice"), ("client-id", None)}), frozenset({("ip", None)})
        await scene.store.alter_client_quotas(
            [
                QuotaChange(alice, "producer_byte_rate", 1000.5),
                QuotaChange(alice, "consumer_byte_rate", 2.0),
                QuotaChange(default, "connection_creation_rate", 7.0),
                QuotaChange(default, "never there", None),
            ]
        )
        await scene.store.alter_client_quotas(
            [
                QuotaChange(alice, "consumer_byte_rate", None),
                QuotaChange(default, "connection_creation_rate", 8),
            ]
        )
        await scene.reopen()
        assert scene.store.client_quotas() == {
            alice: {"producer_byte_rate": 1000.5},
            default: {"connection_creation_rate": 8.0},
        }
        await scene.store.alter_client_quotas([QuotaChange(alice, "producer_byte_rate", None)])
        assert list(scene.store.client_quotas()) == [default]

    async def test_alter_client_quotas_with_a_change_twice_has_the_last(self, scene: MetadataScene) -> None:
        if await _refuses(scene.store.alter_client_quotas([])):
            return
        entity = frozenset({("user", "alice")})
        changes = [QuotaChange(entity, "producer_byte_rate", value) for value in (1.0, None, 1.0, 2.0, None)]
        for count, expected in ((4, {entity: {"producer_byte_rate": 2.0}}), (5, {})):
            await scene.store.alter_client_quotas(changes[:count])
            await scene.reopen()
            assert scene.store.client_quotas() == expected

    async def test_alter_scram_credentials_sets_and_deletes_them(self, scene: MetadataScene) -> None:
        assert not scene.store.scram_credentials()
        if await _refuses(scene.store.alter_scram_credentials({})):
            return
        first, second = CredentialKey("alice", 1), CredentialKey("alice", 2)
        credential = ScramCredential(b"salt", b"stored", b"server", 4096)
        await scene.store.alter_scram_credentials({first: credential, second: credential})
        changed = ScramCredential(b"", b"\0\xff", b"server", 8192)
        await scene.store.alter_scram_credentials({first: changed, second: None, CredentialKey("b", 1): None})
        await scene.reopen()
        assert scene.store.scram_credentials() == {first: changed}

    async def test_put_resource_config_of_groups_and_client_metrics(self, scene: MetadataScene) -> None:
        store = scene.store
        if await _refuses(store.put_resource_config("group", "g", {})):
            return
        await store.put_resource_config("group", "g", {"a": "1", "b": ""})
        await store.put_resource_config("client-metrics", "g", {"a": "2"})
        await store.put_resource_config("group", "h", {"a": "3"})
        await store.put_resource_config("group", "g", {"b": "", "c": "4"})
        await store.put_resource_config("group", "h", {})
        await scene.reopen()
        store = scene.store
        assert store.resource_config("group", "g") == {"b": "", "c": "4"}
        assert store.resource_config("client-metrics", "g") == {"a": "2"}
        assert (store.configured_resources("group"), store.configured_resources("client-metrics")) == (
            ["g"],
            ["g"],
        )
        assert not store.resource_config("group", "h")

    async def test_register_broker_at_each_start(self, scene: MetadataScene) -> None:
        for port in (9092, 19092):
            registration = BrokerRegistration({"PLAINTEXT": ("localhost", port)}, "rack")
            await scene.store.register_broker(registration)
            epoch = scene.store.broker_epoch
            await scene.store.put_topic(TopicRecord(f"t{port}", uuid4(), 1))
            assert scene.store.broker_epoch == epoch
            await scene.reopen()
        assert len(scene.store.topics()) == 2

    async def test_feature_levels_are_durable_or_refused(self, scene: MetadataScene) -> None:
        highest = dict(HIGHEST_LEVELS)
        assert scene.store.features.levels.items() >= highest.items()
        epoch = scene.store.features.epoch
        assert epoch >= 0
        lowered = {GROUP_VERSION: 0, TRANSACTION_VERSION: 1}
        try:
            scene.store.features.check(lowered)
        except InvalidUpdateVersion:
            with pytest.raises(InvalidUpdateVersion):
                await scene.store.features.put(lowered)
        else:
            await scene.store.features.put(lowered)
            assert scene.store.features.epoch > epoch
            highest |= lowered
        await scene.reopen()
        found = scene.store.features.levels
        assert {name: found.get(name, 0) for name in highest} == highest
        assert scene.store.features.epoch >= epoch

    async def test_assign_directory_is_recorded_or_ignored(self, scene: MetadataScene) -> None:
        await scene.store.put_topic(TopicRecord("t", uuid4(), 2))
        directory_id, partition = uuid4().bytes, TopicPartition("t", 1)
        await scene.store.assign_directory(partition, directory_id)
        assert scene.store.assigned_directory(partition) in (None, directory_id)
        for unknown in (TopicPartition("t", 2), TopicPartition("u", 0)):
            await scene.store.assign_directory(unknown, directory_id)
            assert scene.store.assigned_directory(unknown) is None

    async def test_failed_directories_and_partitions_leave_the_topics(self, scene: MetadataScene) -> None:
        record = TopicRecord("t", uuid4(), 2)
        await scene.store.put_topic(record)
        await scene.store.register_broker(BrokerRegistration({"PLAINTEXT": ("localhost", 9092)}, None))
        scene.store.drop_directory(uuid4().bytes)
        await scene.store.fail_directory(uuid4().bytes, [TopicPartition("t", 0), TopicPartition("u", 0)])
        await scene.store.fail_partitions([TopicPartition("t", 1)])
        assert list(scene.store.topics()) == [record]
        await scene.reopen()
        assert list(scene.store.topics()) == [record]

    async def test_a_store_without_directories_opens_or_is_refused(self, scene: MetadataScene) -> None:
        other, _ = scene.new_store()
        if scene.backend.durable:
            return
        other.open(None)
        await other.activate()
        await other.put_topic(TopicRecord("other", uuid4(), 1))
        assert list(scene.store.topics()) == []
        await other.close(clean=True)

    @pytest.mark.parametrize("seed", range(3))
    async def test_any_sequence_of_changes_is_what_a_dictionary_has(
        self, scene: MetadataScene, seed: int
    ) -> None:
        choose, model = random.Random(seed), _Model(scene)
        for _ in range(WALK_STEPS):
            if choose.random() < 0.05:
                await scene.reopen()
            else:
                await model.step(scene, choose)
            model.check(scene)


class _Model:
    """What a store should have after some changes; a new one may set something for all brokers."""

    def __init__(self, scene: MetadataScene) -> None:
        self._topics: dict[str, TopicRecord] = {}
        self._configs: dict[int | None, Mapping[str, str]] = {None: dict(scene.store.broker_config(None))}

    async def step(self, scene: MetadataScene, choose: random.Random) -> None:
        """Make a change at random."""
        name, config = choose.choice("abc"), _some_config(choose)
        there = self._topics.get(name)
        match choose.randrange(4):
            case 0:
                await scene.store.remove_topic(name)
                self._topics.pop(name, None)
            case 1:
                node_id = choose.choice((None, 1))
                await scene.store.put_broker_config(node_id, config)
                self._configs[node_id] = config
            case 2 if there is not None:
                partitions = there.partitions + choose.randrange(3)
                await self._put(scene, TopicRecord(name, there.topic_id, partitions, config))
            case _:
                topic_id = UUID(int=choose.getrandbits(120) + 2)
                await self._put(scene, TopicRecord(name, topic_id, choose.randint(1, 4), config))

    async def _put(self, scene: MetadataScene, record: TopicRecord) -> None:
        await scene.store.put_topic(record)
        self._topics[record.name] = record

    def check(self, scene: MetadataScene) -> None:
        """Compare everything."""
        assert {topic.name: topic for topic in scene.store.topics()} == self._topics
        for node_id in (None, 1):
            assert dict(scene.store.broker_config(node_id)) == dict(self._configs.get(node_id, {}))


def _some_config(choose: random.Random) -> dict[str, str]:
    return {
        key: str(choose.randrange(3)) for key in ("retention.ms", "segment.bytes") if choose.random() < 0.5
    }
