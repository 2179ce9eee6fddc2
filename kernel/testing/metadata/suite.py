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
from tidelog.kernel.testing.metadata.harness import MetadataHarness

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
        assert list(harness.store.topics()) == []
        first = TopicRecord("first", uuid4(), 3, {"retention.ms": "1000", "cleanup.policy": "compact"})
        await harness.store.put_topics(first)
        await harness.store.put_topics(TopicRecord("second", uuid4(), 1))
        changed = TopicRecord("first", first.topic_id, 5, {})
        await harness.store.put_topics(changed)
        await harness.store.remove_topics("second")
        await harness.store.remove_topics("never there")
        assert list(harness.store.topics()) == [changed]
        await harness.reopen()
        assert list(harness.store.topics()) == [changed]

    async def test_put_topic_with_another_id_replaces_the_topic(self, harness: MetadataHarness) -> None:
        await harness.store.put_topics(TopicRecord("t", uuid4(), 3, {"retention.ms": "1000"}))
        other = TopicRecord("t", uuid4(), 1)
        await harness.store.put_topics(other)
        await harness.reopen()
        assert list(harness.store.topics()) == [other]

    async def test_put_topic_keeps_leader_epochs_or_has_none(self, harness: MetadataHarness) -> None:
        record = TopicRecord("t", uuid4(), 3, leader_epochs=(4, 0, 7))
        await harness.store.put_topics(record)
        (found,) = harness.store.topics()
        assert found.leader_epochs in ((), record.leader_epochs)
        await harness.reopen()
        (found,) = harness.store.topics()
        # A start may lead the partitions in new epochs, never in old ones.
        assert not found.leader_epochs or all(
            after >= before for after, before in zip(found.leader_epochs, record.leader_epochs, strict=True)
        )

    async def test_what_topics_returned_does_not_change(self, harness: MetadataHarness) -> None:
        record = TopicRecord("t", uuid4(), 1, {"retention.ms": "1"})
        await harness.store.put_topics(record)
        before = list(harness.store.topics())
        await harness.store.put_topics(TopicRecord("t", record.topic_id, 2, {"retention.ms": "2"}))
        assert before == [record]

    async def test_changes_at_the_same_time_are_all_made(self, harness: MetadataHarness) -> None:
        records = {name: TopicRecord(name, uuid4(), 1) for name in "abcdefgh"}
        async with trio.open_nursery() as nursery:
            for record in records.values():
                nursery.start_soon(harness.store.put_topics, record)
            for name in "xyz":
                nursery.start_soon(harness.store.put_broker_config, None, {name: "1"})
        assert {topic.name: topic for topic in harness.store.topics()} == records
        config = dict(harness.store.broker_config(None))
        assert config in [{name: "1"} for name in "xyz"]
        await harness.reopen()
        assert {topic.name: topic for topic in harness.store.topics()} == records
        assert dict(harness.store.broker_config(None)) == config

    async def test_a_cancelled_change_is_made_or_not(self, harness: MetadataHarness) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await harness.store.put_topics(TopicRecord("t", uuid4(), 3, {"retention.ms": "1"}))
        there = list(harness.store.topics())
        assert len(there) <= 1
        await harness.reopen()
        assert list(harness.store.topics()) == there

    async def test_cluster_id_stays(self, harness: MetadataHarness) -> None:
        cluster_id = harness.store.cluster_id
        assert CLUSTER_ID.fullmatch(cluster_id)
        await harness.reopen()
        assert harness.store.cluster_id == cluster_id

    async def test_allocate_producer_ids_returns_each_once(self, harness: MetadataHarness) -> None:
        given: list[int] = []
        for count in (1, 1000, 1, 5):
            block = await harness.store.allocate_producer_ids(count)
            assert len(block) == count
            given += block
            await harness.reopen()
        assert len(set(given)) == len(given)
        assert min(given) >= 0

    async def test_broker_config_of_a_broker_and_of_all(self, harness: MetadataHarness) -> None:
        assert not harness.store.broker_config(1)
        await harness.store.put_broker_config(1, {"a": "1", "b": ""})
        await harness.store.put_broker_config(None, {"a": "2"})
        await harness.store.put_broker_config(1, {"b": "", "c": "3"})
        await harness.reopen()
        assert dict(harness.store.broker_config(1)) == {"b": "", "c": "3"}
        assert dict(harness.store.broker_config(None)) == {"a": "2"}
        await harness.store.put_broker_config(None, {})
        assert not harness.store.broker_config(None)

    async def test_alter_client_quotas_sets_and_removes_quotas(self, harness: MetadataHarness) -> None:
        assert not harness.store.client_quotas()
        if await _refuses(harness.store.alter_client_quotas([])):
            return
        alice, default = frozenset({("user", "alice"), ("client-id", None)}), frozenset({("ip", None)})
        await harness.store.alter_client_quotas(
            [
                QuotaChange(alice, "producer_byte_rate", 1000.5),
                QuotaChange(alice, "consumer_byte_rate", 2.0),
                QuotaChange(default, "connection_creation_rate", 7.0),
                QuotaChange(default, "never there", None),
            ]
        )
        await harness.store.alter_client_quotas(
            [
                QuotaChange(alice, "consumer_byte_rate", None),
                QuotaChange(default, "connection_creation_rate", 8),
            ]
        )
        await harness.reopen()
        assert harness.store.client_quotas() == {
            alice: {"producer_byte_rate": 1000.5},
            default: {"connection_creation_rate": 8.0},
        }
        await harness.store.alter_client_quotas([QuotaChange(alice, "producer_byte_rate", None)])
        assert list(harness.store.client_quotas()) == [default]

    async def test_alter_client_quotas_with_a_change_twice_has_the_last(
        self, harness: MetadataHarness
    ) -> None:
        if await _refuses(harness.store.alter_client_quotas([])):
            return
        entity = frozenset({("user", "alice")})
        changes = [QuotaChange(entity, "producer_byte_rate", value) for value in (1.0, None, 1.0, 2.0, None)]
        for count, expected in ((4, {entity: {"producer_byte_rate": 2.0}}), (5, {})):
            await harness.store.alter_client_quotas(changes[:count])
            await harness.reopen()
            assert harness.store.client_quotas() == expected

    async def test_alter_scram_credentials_sets_and_deletes_them(self, harness: MetadataHarness) -> None:
        assert not harness.store.scram_credentials()
        if await _refuses(harness.store.alter_scram_credentials({})):
            return
        first, second = CredentialKey("alice", 1), CredentialKey("alice", 2)
        credential = ScramCredential(b"salt", b"stored", b"server", 4096)
        await harness.store.alter_scram_credentials({first: credential, second: credential})
        changed = ScramCredential(b"", b"\0\xff", b"server", 8192)
        await harness.store.alter_scram_credentials(
            {first: changed, second: None, CredentialKey("b", 1): None}
        )
        await harness.reopen()
        assert harness.store.scram_credentials() == {first: changed}

    async def test_put_resource_config_of_groups_and_client_metrics(self, harness: MetadataHarness) -> None:
        store = harness.store
        if await _refuses(store.put_resource_configs("group", {"g": {}})):
            return
        await store.put_resource_configs("group", {"g": {"a": "1", "b": ""}})
        await store.put_resource_configs("client-metrics", {"g": {"a": "2"}})
        await store.put_resource_configs("group", {"h": {"a": "3"}})
        await store.put_resource_configs("group", {"g": {"b": "", "c": "4"}})
        await store.put_resource_configs("group", {"h": {}})
        await harness.reopen()
        store = harness.store
        assert store.resource_config("group", "g") == {"b": "", "c": "4"}
        assert store.resource_config("client-metrics", "g") == {"a": "2"}
        assert (store.configured_resources("group"), store.configured_resources("client-metrics")) == (
            ["g"],
            ["g"],
        )
        assert not store.resource_config("group", "h")

    async def test_register_broker_at_each_start(self, harness: MetadataHarness) -> None:
        for port in (9092, 19092):
            registration = BrokerRegistration({"PLAINTEXT": ("localhost", port)}, "rack")
            await harness.store.register_broker(registration)
            epoch = harness.store.broker_epoch
            await harness.store.put_topics(TopicRecord(f"t{port}", uuid4(), 1))
            assert harness.store.broker_epoch == epoch
            await harness.reopen()
        assert len(harness.store.topics()) == 2

    async def test_feature_levels_are_durable_or_refused(self, harness: MetadataHarness) -> None:
        highest = dict(HIGHEST_LEVELS)
        assert harness.store.features.levels.items() >= highest.items()
        epoch = harness.store.features.epoch
        assert epoch >= 0
        lowered = {GROUP_VERSION: 0, TRANSACTION_VERSION: 1}
        try:
            harness.store.features.check(lowered)
        except InvalidUpdateVersion:
            with pytest.raises(InvalidUpdateVersion):
                await harness.store.features.put(lowered)
        else:
            await harness.store.features.put(lowered)
            assert harness.store.features.epoch > epoch
            highest |= lowered
        await harness.reopen()
        found = harness.store.features.levels
        assert {name: found.get(name, 0) for name in highest} == highest
        assert harness.store.features.epoch >= epoch

    async def test_assign_directory_is_recorded_or_ignored(self, harness: MetadataHarness) -> None:
        await harness.store.put_topics(TopicRecord("t", uuid4(), 2))
        directory_id, partition = uuid4().bytes, TopicPartition("t", 1)
        await harness.store.assign_directory(partition, directory_id)
        assert harness.store.assigned_directory(partition) in (None, directory_id)
        for unknown in (TopicPartition("t", 2), TopicPartition("u", 0)):
            await harness.store.assign_directory(unknown, directory_id)
            assert harness.store.assigned_directory(unknown) is None

    async def test_failed_directories_and_partitions_leave_the_topics(self, harness: MetadataHarness) -> None:
        record = TopicRecord("t", uuid4(), 2)
        await harness.store.put_topics(record)
        await harness.store.register_broker(BrokerRegistration({"PLAINTEXT": ("localhost", 9092)}, None))
        await harness.store.fail_directory(uuid4().bytes, [TopicPartition("t", 0), TopicPartition("u", 0)])
        await harness.store.fail_partitions([TopicPartition("t", 1)])
        assert list(harness.store.topics()) == [record]
        await harness.reopen()
        assert list(harness.store.topics()) == [record]

    async def test_a_store_without_directories_opens_or_is_refused(self, harness: MetadataHarness) -> None:
        other, _ = harness.new_store()
        if harness.backend.durable:
            return
        other.open(None)
        await other.activate()
        await other.put_topics(TopicRecord("other", uuid4(), 1))
        assert list(harness.store.topics()) == []
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
        self._topics: dict[str, TopicRecord] = {}
        self._configs: dict[int | None, Mapping[str, str]] = {None: dict(harness.store.broker_config(None))}

    async def step(self, harness: MetadataHarness, choose: random.Random) -> None:
        """Make a change at random."""
        name, config = choose.choice("abc"), _some_config(choose)
        there = self._topics.get(name)
        match choose.randrange(4):
            case 0:
                await harness.store.remove_topics(name)
                self._topics.pop(name, None)
            case 1:
                node_id = choose.choice((None, 1))
                await harness.store.put_broker_config(node_id, config)
                self._configs[node_id] = config
            case 2 if there is not None:
                partitions = there.partitions + choose.randrange(3)
                await self._put(harness, TopicRecord(name, there.topic_id, partitions, config))
            case _:
                topic_id = UUID(int=choose.getrandbits(120) + 2)
                await self._put(harness, TopicRecord(name, topic_id, choose.randint(1, 4), config))

    async def _put(self, harness: MetadataHarness, record: TopicRecord) -> None:
        await harness.store.put_topics(record)
        self._topics[record.name] = record

    def check(self, harness: MetadataHarness) -> None:
        """Compare everything."""
        assert {topic.name: topic for topic in harness.store.topics()} == self._topics
        for node_id in (None, 1):
            assert dict(harness.store.broker_config(node_id)) == dict(self._configs.get(node_id, {}))


def _some_config(choose: random.Random) -> dict[str, str]:
    return {
        key: str(choose.randrange(3)) for key in ("retention.ms", "segment.bytes") if choose.random() < 0.5
    }
