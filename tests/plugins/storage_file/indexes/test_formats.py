"""A topic's index format is a matter of configuration: it can be another one at every start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.config import Config
from tidelog.kernel.errors import ConfigError, InvalidTopicConfig
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.installed import with_installed_keys
from tidelog.kernel.testing.storage.harness import append, append_many, read_all, read_bytes
from tidelog.plugins.index_memory import plugin as index_memory
from tidelog.plugins.storage_file import plugin as storage_file
from tidelog.plugins.storage_file.partition_store import FilePartitionStore

SETTINGS = {"segment_bytes": 1000, "index_interval_bytes": 100}
INDEX_SUFFIXES = {".index", ".timeindex"}


class FormatHarness(LogDirectoryHarness):
    """A harness whose next start has another index format."""

    def choose(self, index_format: str) -> None:
        """What `log.index.format` says from the next start on."""
        keys = with_installed_keys(storage_file.tidelog_config_keys())
        settings = {"log.dirs": str(self.log_dir), "log.index.format": index_format}
        self.config = Config.from_mapping(settings, keys)
        self.index_formats = {each.name: each for each in index_memory.tidelog_index_formats()}

    def suffixes(self) -> set[str]:
        """Suffixes of the index files that are there."""
        return {path.suffix for path in self.partition_dir.iterdir()} & INDEX_SUFFIXES


def formats_harness(place: Path, tasks: BackgroundTasks, index_format: str) -> FormatHarness:
    harness = FormatHarness(place, tasks)
    harness.choose(index_format)
    harness.storage = harness.new_storage()
    return harness


def check(store: PartitionStore, batches: list[bytes]) -> None:
    """Every batch is found by its offset and by its time."""
    assert read_all(store) == b"".join(batches)
    for batch in batches:
        header = parse_header(batch)
        assert read_bytes(store, header.base_offset, 1) == batch
        assert store.batch_at_timestamp(header.max_timestamp) == batch
    assert store.batch_of_max_timestamp() == batches[-1]


@pytest.mark.parametrize("clean", [True, False])
async def test_index_format_changes_from_start_to_start_and_nothing_is_lost(
    tmp_path: Path, tasks: BackgroundTasks, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    harness = formats_harness(tmp_path, tasks, "sparse")
    await harness.open()
    batches: list[bytes] = []
    timestamp = 0
    for index_format in ("sparse", "memory", "memory", "sparse", "memory", "sparse", "sparse"):
        store = await harness.open_store(**SETTINGS)
        if batches:
            check(store, batches)
        for _ in range(12):
            timestamp += 1000
            batches.append(append(store, 150, timestamp=timestamp))
        check(store, batches)
        if clean:
            await harness.close()
        else:
            harness.abandon()
        harness.choose(index_format)
        await harness.open_again()
    store = await harness.open_store(**SETTINGS)
    check(store, batches)
    assert harness.suffixes() == INDEX_SUFFIXES
    assert "its segment is checked" not in caplog.text
    await harness.close()


async def test_foreign_suffixes_are_removed_when_the_index_format_changes(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness = formats_harness(tmp_path, tasks, "sparse")
    await harness.open()
    append_many(await harness.open_store(**SETTINGS), 20, 150)
    harness.choose("memory")
    await harness.reopen()
    store = await harness.open_store(**SETTINGS)
    assert harness.suffixes() == set()
    append_many(store, 20, 150, step_ms=1000)
    assert harness.suffixes() == set()
    await harness.close()


async def test_check_and_check_topic_refuse_an_index_format_that_no_plugin_offers(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness = formats_harness(tmp_path, tasks, "spares")
    with pytest.raises(ConfigError, match=r"log\.index\.format = 'spares': no plugin .* memory, sparse"):
        await harness.open()
    harness = formats_harness(tmp_path / "topic", tasks, "memory")
    await harness.open()
    harness.storage.check_topic(harness.config.default_topic_config | {"index.format": "sparse"})
    with pytest.raises(InvalidTopicConfig, match=r"index\.format = 'btree': no plugin"):
        harness.storage.check_topic(harness.config.default_topic_config | {"index.format": "btree"})
    await harness.close()


async def test_check_topic_refuses_an_unknown_index_format_at_create_and_alter_config(tmp_path: Path) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path / "data")}
    async with running_broker(settings) as broker:
        with pytest.raises(InvalidTopicConfig, match="no plugin"):
            await broker.topics.create(TopicSpec("t", config={"index.format": "btree"}))
        await broker.topics.create(TopicSpec("t", config={"index.format": "memory"}))
        with pytest.raises(InvalidTopicConfig, match="no plugin"):
            await broker.topics.alter_config("t", lambda old: {**old, "index.format": "btree"})
        await broker.topics.alter_config("t", lambda old: {**old, "index.format": "sparse"})
        assert broker.topics.get("t").overrides == {"index.format": "sparse"}


async def test_index_formats_of_returns_sparse_if_the_plugin_of_the_format_is_missing(
    tmp_path: Path, tasks: BackgroundTasks, caplog: pytest.LogCaptureFixture
) -> None:
    harness = formats_harness(tmp_path, tasks, "sparse")
    await harness.open()
    store = await harness.open_store(**SETTINGS, index_format="memory")
    batches = append_many(store, 20, 150, step_ms=1000)
    assert harness.suffixes() == set()
    harness.index_formats = {}
    await harness.reopen()
    store = await harness.open_store(**SETTINGS, index_format="memory")
    assert "index.format = 'memory': no plugin offers such an index format; there are sparse" in caplog.text
    check(store, batches)
    assert harness.suffixes() == INDEX_SUFFIXES
    await harness.close()


@pytest.mark.parametrize("damage", ["cut", "flip"])
async def test_index_format_in_memory_finds_damage_behind_a_clean_stop(
    tmp_path: Path, tasks: BackgroundTasks, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    harness = formats_harness(tmp_path, tasks, "memory")
    await harness.open()
    batches = append_many(await harness.open_store(**SETTINGS), 7, 150, step_ms=1000)
    await harness.close()
    log = harness.log_files()[-1]
    content = log.read_bytes()
    last = len(batches[-1])
    changed = content[:-3] if damage == "cut" else content[: -last + 16] + b"\7" + content[-last + 17 :]
    log.write_bytes(changed)
    await harness.open_again()
    check(await harness.open_store(**SETTINGS), batches[:-1])
    assert "its segment is checked" in caplog.text
    await harness.close()


async def test_index_format_in_memory_leaves_nothing_to_check_behind_a_clean_stop(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    """Not even if the broker is killed before its next flush."""
    harness = formats_harness(tmp_path, tasks, "memory")
    await harness.open()
    append_many(await harness.open_store(**SETTINGS), 20, 150)
    await harness.reopen()
    store = await harness.open_store(**SETTINGS)
    assert isinstance(store, FilePartitionStore)
    assert len(store.segments()) > 2
    assert store.recovery_point == store.log_end_offset == 20
    await harness.close()


async def test_index_format_in_memory_has_segments_that_end_where_the_next_one_begins(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    """Offsets between two segments may be missing, since compaction took them."""
    harness = formats_harness(tmp_path, tasks, "memory")
    await harness.open()
    store = await harness.open_store(**SETTINGS)
    batches = [append(store, 150, gap=3) for _ in range(12)]
    await harness.reopen()
    store = await harness.open_store(**SETTINGS)
    segments = store.segments()
    assert len(segments) == 3
    assert [view.base_offset for view in segments[1:]] == [view.next_offset for view in segments[:-1]]
    for offset in range(store.log_end_offset):
        batch = next(batch for batch in batches if parse_header(batch).last_offset >= offset)
        assert read_bytes(store, offset, 1) == batch
    await harness.close()
