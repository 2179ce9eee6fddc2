"""Topics that change while they are open: configuration and partitions, and what a restart finds of it."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
import trio

from tests.crash.core import Core
from tidelog.kernel.config import keys
from tidelog.kernel.errors import InvalidTopicConfig, StorageError
from tidelog.kernel.log import Isolation, UnifiedLog
from tidelog.kernel.metadata import MetadataDelta
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.apis.config_changes import replaced_by
from tidelog.plugins.storage_file.log_config import LogConfig
from tidelog.plugins.storage_file.partition_store import FilePartitionStore

SETTINGS = [("flush.messages", "1"), ("segment.bytes", "2000000")]


def store_config(partition: UnifiedLog) -> LogConfig:
    """What the store of a partition goes by."""
    assert isinstance(partition.store, FilePartitionStore)
    return partition.store.config


async def test_alter_config_takes_effect_immediately_and_after_a_restart(tmp_path: Path) -> None:
    core = Core(tmp_path)
    await core.open()
    topic = await core.create("orders", 2)
    await core.topics.alter_config("orders", replaced_by(SETTINGS))
    assert topic.overrides == dict(SETTINGS)
    assert [store_config(partition.log).segment_bytes for partition in topic.partitions] == [2000000] * 2
    assert topic.partitions[0].log.append_nowait(make_batch([b"x"])).flush_due
    core.abandon()
    await core.open()
    assert core.topics.get("orders").overrides == dict(SETTINGS)
    assert core.topics.get("orders").partitions[1].log.config.flush_messages == 1
    await core.close()


async def test_alter_config_of_concurrent_changes(tmp_path: Path) -> None:
    core = Core(tmp_path)
    await core.open()
    topic = await core.create("orders", 1)

    async def change(name: str, value: str) -> None:
        await core.topics.alter_config("orders", lambda before: {**before, name: value})

    async with trio.open_nursery() as nursery:
        for name, value in SETTINGS:
            nursery.start_soon(change, name, value)
    assert topic.overrides == dict(SETTINGS)
    await core.close()


async def test_alter_config_changes_nothing_when_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = Core(tmp_path)
    await core.open()
    topic = await core.create("orders", 1)
    before = topic.config

    async def full(delta: MetadataDelta) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(core.metadata, "commit", full)
    with pytest.raises(StorageError, match="No space left"):
        await core.topics.alter_config("orders", replaced_by(SETTINGS))
    assert topic.overrides == {}
    assert topic.config is before
    with pytest.raises(StorageError, match="No space left"):
        await core.topics.grow("orders", 3)
    assert len(topic.partitions) == 1
    monkeypatch.undo()
    await core.topics.grow("orders", 3)
    assert len(topic.partitions) == 3
    await core.close()


async def test_alter_config_with_unknown_keys_of_another_broker(tmp_path: Path) -> None:
    core = Core(tmp_path)
    await core.open()
    topic = await core.create("orders", 1)
    kept = {"no.such.key": "1"}
    stored = attrs.evolve(core.metadata.image.topics["orders"], config=kept)
    await core.metadata.commit(MetadataDelta.of_topics(stored))
    await core.publisher.catch_up()

    def more(before: Mapping[str, str]) -> dict[str, str]:
        return {**before, "flush.ms": "5"}

    await core.topics.alter_config("orders", more)
    assert topic.overrides == {**kept, "flush.ms": "5"}
    assert topic.config[keys.FLUSH_MS] == 5
    with pytest.raises(InvalidTopicConfig, match=r"no\.such\.key"):
        await core.topics.alter_config("orders", replaced_by([("no.such.key", "2")]))
    await core.close()


async def test_create_and_alter_config_refuse_settings_that_exclude_each_other() -> None:
    least, largest = "min.compaction.lag.ms", "max.compaction.lag.ms"
    async with running_broker({f"log.cleaner.{largest}": 5}) as broker:
        with pytest.raises(InvalidTopicConfig, match=r"^conflict topic config setting"):
            await broker.topics.create(TopicSpec("orders", 1, config={least: "6"}))
        before = {least: "6", largest: "7"}
        topic = await broker.topics.create(TopicSpec("orders", 1, config=before))
        for wrong in ({least: "6", largest: "3"}, {least: "8", largest: "7"}, {least: "6"}):
            with pytest.raises(InvalidTopicConfig, match=r"^conflict topic config setting"):
                await broker.topics.alter_config("orders", replaced_by([*wrong.items()]))
            assert topic.overrides == before
        await broker.topics.alter_config("orders", replaced_by([(least, "5")]))
        assert topic.overrides == {least: "5"}


async def test_alter_config_ends_the_adoption_of_a_topic(tmp_path: Path) -> None:
    core = Core(tmp_path)
    await core.open()
    topic = await core.create("orders", 1)
    topic.adopted = True
    seen: list[bool] = []
    for settings in ([], SETTINGS):
        await core.topics.alter_config("orders", replaced_by(settings))
        seen.append(topic.adopted)
    assert seen == [True, False]
    await core.close()


async def test_create_partitions_survives_a_restart(tmp_path: Path) -> None:
    core = Core(tmp_path)
    await core.open()
    await core.create("orders", 1)
    await core.topics.grow("orders", 3)
    core.topics.get("orders").partitions[2].log.append_nowait(make_batch([b"x"]))
    core.abandon()
    await core.open()
    ends = [partition.log.log_end_offset for partition in core.topics.get("orders").partitions]
    assert ends == [0, 0, 1]
    await core.close()


async def test_delete_records_before_survives_a_restart(tmp_path: Path) -> None:
    core = Core(tmp_path)
    await core.open()
    topic: Topic = await core.create("orders", 1)
    (partition,) = topic.partitions
    for _ in range(20):
        partition.log.append_nowait(make_batch([b"x" * 500]))
    before = len(partition.log.store.segments())
    partition.log.delete_records_before(16)
    assert 16 not in [segment.base_offset for segment in partition.log.store.segments()]
    core.tasks.run_jobs()
    assert len(partition.log.store.segments()) < before
    await core.close()
    await core.open()
    (again,) = core.topics.get("orders").partitions
    assert again.log.log_start_offset == 16
    assert again.log.read(16, 10_000, Isolation.READ_UNCOMMITTED, wait=True).size > 0
    await core.close()
