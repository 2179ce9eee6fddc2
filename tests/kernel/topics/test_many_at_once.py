"""Many topics in one request: one change of the metadata and one sync of the directory, an error for each."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.crash.core import Core
from tests.turns import turns_of_another_task
from tidelog.kernel import disk, pace
from tidelog.kernel.errors import (
    BrokerError,
    InvalidPartitions,
    InvalidTopic,
    InvalidTopicConfig,
    StorageError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import PartitionSpec, PartitionStore
from tidelog.plugins.protocol_kafka.apis.config_changes import replaced_by
from tidelog.plugins.storage_file.storage import FileStorage

COUNT = 40
NAMES = [f"t-{number}" for number in range(COUNT)]


class Syncs:
    """Counts what is made durable: files, and directories."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        for name in ("fsync", "sync_data"):
            monkeypatch.setattr(disk, name, self._counting("files", getattr(disk, name)))
        monkeypatch.setattr(disk, "sync_directory", self._counting("directories", disk.sync_directory))

    def _counting(self, kind: str, sync: Callable[..., None]) -> Callable[..., None]:
        def counted(*arguments: object) -> None:
            self.counts[kind] += 1
            sync(*arguments)

        return counted

    def take(self) -> Counter[str]:
        """Return the counts since the last call."""
        taken, self.counts = self.counts, Counter()
        return taken


async def opened(place: Path) -> Core:
    """Topics in an empty directory."""
    core = Core(place)
    await core.open()
    return core


def kinds(results: Sequence[object]) -> list[type]:
    """The type of each error, `NoneType` for none."""
    return [type(result) for result in results]


async def test_many_topics_are_changed_with_one_batch_and_as_many_syncs_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = await opened(tmp_path)
    await core.controller.create_topics([TopicSpec("one", 1)])
    syncs = Syncs(monkeypatch)

    async def change(names: Sequence[str], prefix: str) -> list[tuple[Counter[str], int]]:
        measured: list[tuple[Counter[str], int]] = []
        for step in (
            lambda: core.controller.create_topics([TopicSpec(f"{prefix}{name}", 1) for name in names]),
            lambda: core.controller.create_partitions([(f"{prefix}{name}", 3) for name in names]),
            lambda: core.controller.alter_topic_configs(
                [(f"{prefix}{name}", replaced_by([("flush.messages", "7")])) for name in names]
            ),
            lambda: core.controller.delete_topics([f"{prefix}{name}" for name in names]),
        ):
            before = core.metadata.quorum.log_end_offset
            results: Sequence[object] = await step()
            assert not any(isinstance(result, BrokerError) for result in results)
            records = core.metadata.quorum.log_end_offset - before
            measured.append((syncs.take(), records // len(names)))
        return measured

    assert await change(NAMES, "many-") == await change(["alone"], "")
    await core.close()


async def test_each_topic_of_many_has_its_own_error(tmp_path: Path) -> None:
    core = await opened(tmp_path)
    await core.topics.create(TopicSpec("there", 2))
    created = await core.controller.create_topics(
        [
            TopicSpec("a", 1),
            TopicSpec("there", 1),
            TopicSpec("no/name"),
            TopicSpec("b", 0),
            TopicSpec("c", config={"no.key": "1"}),
            TopicSpec("d.e"),
            TopicSpec("d_e"),
            TopicSpec("a"),
            TopicSpec("z", 2),
        ]
    )
    assert [getattr(result, "name", type(result)) for result in created] == [
        "a",
        TopicAlreadyExists,
        InvalidTopic,
        InvalidPartitions,
        InvalidTopicConfig,
        "d.e",
        InvalidTopic,
        TopicAlreadyExists,
        "z",
    ]
    none = type(None)
    grown = await core.controller.create_partitions([("a", 2), ("gone", 2), ("z", 1), ("there", 3)])
    assert kinds(grown) == [none, UnknownTopicOrPartition, InvalidPartitions, none]
    altered = await core.controller.alter_topic_configs(
        [
            ("a", replaced_by([("flush.messages", "9")])),
            ("gone", replaced_by([])),
            ("z", replaced_by([("flush.messages", "x")])),
        ]
    )
    assert kinds(altered) == [none, UnknownTopicOrPartition, InvalidTopicConfig]
    deleted = await core.controller.delete_topics(["there", "gone", "d.e", "there"])
    assert kinds(deleted) == [none, UnknownTopicOrPartition, none, none]
    # The name in metrics is free again.
    assert kinds(await core.controller.create_topics([TopicSpec("d_e")])) != [InvalidTopic]
    core.abandon()
    await core.open()
    assert {topic.name: len(topic.partitions) for topic in core.topics} == {"a": 2, "d_e": 1, "z": 2}
    assert core.topics.get("a").overrides == {"flush.messages": "9"}
    await core.close()


async def test_only_topics_for_which_the_disk_refuses_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = await opened(tmp_path)
    await core.controller.create_topics([TopicSpec("grows", 1), TopicSpec("full", 1)])
    open_partitions = FileStorage.open_partitions

    async def refuse_some(
        self: FileStorage, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        if any(spec.topic_partition.topic.startswith("full") for spec in specs):
            raise OSError(errno.ENOSPC, "No space left on device")
        return await open_partitions(self, specs, progress)

    monkeypatch.setattr(FileStorage, "open_partitions", refuse_some)
    created = await core.controller.create_topics([TopicSpec("a"), TopicSpec("full-1"), TopicSpec("b")])
    assert [getattr(result, "name", type(result)) for result in created] == ["a", StorageError, "b"]
    grown = await core.controller.create_partitions([("full", 2), ("grows", 2)])
    assert kinds(grown) == [StorageError, type(None)]
    monkeypatch.undo()
    assert not isinstance((await core.controller.create_topics([TopicSpec("full-1")]))[0], BrokerError)
    core.abandon()
    await core.open()
    assert {topic.name for topic in core.topics} == {"a", "b", "full", "full-1", "grows"}
    assert [len(core.topics.get(name).partitions) for name in ("full", "grows")] == [1, 2]
    await core.close()


async def refreshed(core: Core, key: str) -> None:
    """Change a default of all topics."""
    await core.controller.alter_broker_config(
        None, replaced_by([(key, "5000"), ("min.insync.replicas", "1")])
    )


async def test_a_topic_of_many_partitions_is_configured_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = await opened(tmp_path)
    await core.create("many", 10 * ITEMS_PER_STEP)
    monkeypatch.setattr(pace, "STEP_SECONDS", 0.0)
    async with turns_of_another_task() as turns:
        await core.controller.alter_topic_configs([("many", replaced_by([("flush.messages", "7")]))])
    assert turns.count >= 5
    async with turns_of_another_task() as turns:
        await refreshed(core, "log.roll.ms")
    assert turns.count >= 5
    partitions = core.topics.get("many").partitions
    assert {each.log.config.flush_messages for each in partitions} == {7}
    await core.close()


async def test_other_tasks_run_while_many_topics_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However short a step is, other tasks run after it: each loop over topics has a step for each."""
    core = await opened(tmp_path)
    monkeypatch.setattr(pace, "STEP_SECONDS", 0.0)
    for change in (
        lambda: core.controller.create_topics([TopicSpec(name, 2) for name in NAMES]),
        lambda: core.controller.create_partitions([(name, 3) for name in NAMES]),
        lambda: core.controller.alter_topic_configs(
            [(name, replaced_by([("flush.messages", "7")])) for name in NAMES]
        ),
        lambda: core.controller.delete_topics(NAMES),
    ):
        async with turns_of_another_task() as turns:
            await change()
        assert turns.count > 3 * COUNT
    await core.close()
