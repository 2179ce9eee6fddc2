"""Which log directories are taken, and how partitions spread over them."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.metadata_changes import put_topics, topics_of
from tests.plugins.storage_file.files import CLEAN_MARK, LogDirectoryHarness
from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError, StorageError
from tidelog.kernel.metadata import topic_image
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage.harness import append, read_all

META = (
    "#\n#Sat Nov 21 08:59:13 UTC 2026\n"
    "node.id={node}\ndirectory.id={directory}\nversion=1\ncluster.id={cluster}\n"
)
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY = "0HdLrwxml16eAgaHZxYmJA"


def harness_with(tmp_path: Path, tasks: BackgroundTasks, directories: list[str]) -> LogDirectoryHarness:
    dirs = ",".join(str(tmp_path / name) for name in directories)
    return LogDirectoryHarness(tmp_path, tasks, {"log.dirs": dirs})


async def test_identify_keeps_the_ids_of_a_directory_that_apache_kafka_formatted(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness = LogDirectoryHarness(tmp_path, tasks)
    harness.log_dir.mkdir()
    content = META.format(node=1, directory=DIRECTORY, cluster=CLUSTER)
    (harness.log_dir / "meta.properties").write_text(content)
    await harness.open()
    assert harness.metadata.image.cluster_id == CLUSTER
    await harness.close()
    assert (harness.log_dir / "meta.properties").read_text() == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (META.format(node=2, directory=DIRECTORY, cluster=CLUSTER), "says node.id=2, but this broker's is 1"),
        ("version=1\nnode.id=one\n", "meta.properties cannot be used"),
        ("version=2\nnode.id=1\n", "its version is '2'"),
        ("garbage", "has no '='"),
        ("", "its version is None"),
    ],
)
async def test_identify_refuses_meta_properties_of_another_node_or_that_are_invalid(
    tmp_path: Path, tasks: BackgroundTasks, content: str, message: str
) -> None:
    harness = LogDirectoryHarness(tmp_path, tasks)
    harness.log_dir.mkdir()
    (harness.log_dir / "meta.properties").write_text(content)
    with pytest.raises(ConfigError, match=message):
        await harness.open()


async def test_identify_refuses_a_directory_of_another_cluster(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness = harness_with(tmp_path, tasks, ["a", "b"])
    await harness.open()
    await harness.close()
    content = META.format(node=1, directory=DIRECTORY, cluster=CLUSTER)
    (tmp_path / "b/meta.properties").write_text(content)
    with pytest.raises(ConfigError, match=f"says cluster.id={CLUSTER}"):
        await harness.open_again()


async def test_log_directories_open_refuses_a_directory_that_cannot_be_created(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ConfigError, match=r"log directory .*data cannot be used: .*log.dirs"):
        await LogDirectoryHarness(tmp_path, tasks).open()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
async def test_log_directories_open_refuses_a_directory_that_cannot_be_written(
    tmp_path: Path, tasks: BackgroundTasks, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(path: str | Path, flags: int) -> int:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(disk, "open_file", refuse)
    with pytest.raises(ConfigError, match=rf"data.*{os.strerror(number)}|{os.strerror(number)}.*data"):
        await LogDirectoryHarness(tmp_path, tasks).open()


async def test_configured_paths_refuses_log_directories_named_twice(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    with pytest.raises(ConfigError, match="names a directory twice"):
        await harness_with(tmp_path, tasks, ["a", "b", "b/../a"]).open()


async def test_open_partitions_creates_new_ones_in_the_directory_with_the_fewest(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness = harness_with(tmp_path, tasks, ["a", "b", "c"])
    await harness.open()
    await harness.storage.open_partitions([harness.spec("x", number) for number in range(4)])
    await harness.storage.open_partitions([harness.spec("y", number) for number in range(5)])
    counts = [len(list((tmp_path / name).glob("[xy]-*"))) for name in "abc"]
    assert counts == [3, 3, 3]
    await harness.close()


async def test_open_partitions_finds_data_regardless_of_the_order_of_log_dirs(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness = harness_with(tmp_path, tasks, ["a", "b"])
    await harness.open()
    specs = [harness.spec("x", number) for number in range(4)]
    stores = await harness.storage.open_partitions(specs)
    contents = [append(store) for store in stores]
    await put_topics(harness.metadata, topic_image("x", harness.topic_ids["x"], 4))
    cluster_id = harness.metadata.image.cluster_id
    await harness.close()
    # In another order: the metadata log is found all the same.
    other = harness_with(tmp_path, tasks, ["b", "a"])
    await other.open()
    assert other.metadata.image.cluster_id == cluster_id
    assert [topic.name for topic in topics_of(other.metadata)] == ["x"]
    assert [read_all(store) for store in await other.storage.open_partitions(specs)] == contents
    await other.close()


async def test_choose_metadata_directory_refuses_several_metadata_logs(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness = harness_with(tmp_path, tasks, ["a", "b"])
    await harness.open()
    await harness.close()
    shutil.copytree(tmp_path / "a/__cluster_metadata-0", tmp_path / "b/__cluster_metadata-0")
    with pytest.raises(ConfigError, match="there are several metadata logs"):
        await harness.open_again()


async def test_open_partitions_refuses_a_partition_in_two_directories(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness = harness_with(tmp_path, tasks, ["a", "b"])
    for name in "ab":
        (tmp_path / name / "topic-0").mkdir(parents=True)
    await harness.open()
    with pytest.raises(StorageError, match="is there twice"):
        await harness.open_store()
    await harness.close()


async def test_quarantine_stray_partitions_renames_unknown_partitions(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    content = append(await harness.open_store())
    await harness.reopen()
    await harness.storage.quarantine_stray_partitions()
    assert "has partitions that the metadata log does not know (1)" in caplog.text
    assert "topic-0" in caplog.text
    (stray,) = harness.log_dir.glob("*-stray")
    assert re.fullmatch(r"topic-0\.[0-9a-f]{32}-stray", stray.name)
    await harness.reopen()
    assert f"{stray} is left alone" in caplog.text
    assert (stray / "00000000000000000000.log").read_bytes() == content
    harness.forget_topic("topic")
    assert (await harness.open_store()).log_end_offset == 0


async def test_quarantine_stray_partitions_renames_those_of_another_topic_id(
    harness: LogDirectoryHarness,
) -> None:
    content = append(await harness.open_store())
    harness.forget_topic("topic")
    await put_topics(harness.metadata, topic_image("topic", harness.spec().topic_id, 1))
    await harness.reopen()
    assert (await harness.open_store()).log_end_offset == 0
    (stray,) = harness.log_dir.glob("*-stray")
    assert (stray / "00000000000000000000.log").read_bytes() == content


async def test_quarantine_duplicates_keeps_the_directory_that_the_metadata_names(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness = harness_with(tmp_path, tasks, ["a", "b"])
    await harness.open()
    (store,) = await harness.storage.open_partitions([harness.spec("x")])
    content = append(store)
    await put_topics(harness.metadata, topic_image("x", harness.topic_ids["x"], 1))
    await harness.reopen()
    await harness.close()
    shutil.copytree(tmp_path / "a/x-0", tmp_path / "b/x-0")
    await harness.open()
    (store,) = await harness.storage.open_partitions([harness.spec("x")])
    assert read_all(store) == content
    assert (tmp_path / "a/x-0").exists()
    assert [path.name[:4] for path in (tmp_path / "b").glob("x*")] == ["x-0."]
    await harness.close()


async def test_configured_paths_warns_that_log_dir_is_ignored_if_log_dirs_is_set(
    tmp_path: Path, tasks: BackgroundTasks, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"log.dirs": str(tmp_path / "a"), "log.dir": str(tmp_path / "b")}
    harness = LogDirectoryHarness(tmp_path, tasks, settings)
    await harness.open()
    assert f"log.dir={tmp_path / 'b'} is not used, since log.dirs={tmp_path / 'a'} is set" in caplog.text
    assert not (tmp_path / "b").exists()
    await harness.close()


async def test_open_partitions_refuses_a_directory_with_data_of_another_topic(
    harness: LogDirectoryHarness,
) -> None:
    content = append(await harness.open_store())
    await harness.reopen()
    harness.forget_topic("topic")
    with pytest.raises(StorageError, match=r"topic-0 cannot be used: it belongs to .*Move it away"):
        await harness.open_store()
    assert (harness.partition_dir / "00000000000000000000.log").read_bytes() == content
    # The same topic still opens.
    (harness.partition_dir / "partition.metadata").unlink()
    with pytest.raises(StorageError, match=r"partition.metadata cannot be read"):
        await harness.open_store()


async def test_open_partitions_reuses_an_empty_directory_of_an_interrupted_creation(
    harness: LogDirectoryHarness,
) -> None:
    await harness.open_store()
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    await crashed.open()
    crashed.forget_topic("topic")
    store = await crashed.open_store()
    append(store)
    await crashed.reopen()
    assert (await crashed.open_store()).log_end_offset == 1
    await crashed.close()


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage"])
async def test_open_partitions_rewrites_damaged_partition_metadata_of_a_known_topic(
    harness: LogDirectoryHarness, damage: str
) -> None:
    append(await harness.open_store())
    await put_topics(harness.metadata, topic_image("topic", harness.topic_ids["topic"], 1))
    path = harness.partition_dir / "partition.metadata"
    before = path.read_bytes()
    await harness.close()
    path.write_bytes(b"" if damage == "empty" else b"version: 7")
    if damage == "missing":
        path.unlink()
    await harness.open_again()
    assert (await harness.open_store()).log_end_offset == 1
    assert path.read_bytes() == before


async def test_a_failed_opening_removes_what_it_created_and_nothing_else(
    harness: LogDirectoryHarness,
) -> None:
    foreign = harness.log_dir / "topic-1"
    foreign.mkdir()
    (foreign / "precious").write_text("data")
    with pytest.raises(FileExistsError):
        await harness.storage.open_partitions([harness.spec(partition=number) for number in range(3)])
    assert [path.name for path in harness.log_dir.glob("topic-*")] == ["topic-1"]
    assert (foreign / "precious").read_text() == "data"
    # The others can still be created.
    await harness.storage.open_partitions([harness.spec(partition=0)])


async def test_open_partitions_warns_of_a_missing_partition_of_a_known_topic(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    await put_topics(harness.metadata, topic_image("topic", harness.spec().topic_id, 1))
    await harness.reopen()
    await harness.open_store()
    assert "topic-0 is not there, though its topic is known; it is created empty" in caplog.text


async def test_clean_shutdown_file_does_not_cover_logs_that_were_never_opened_after_a_crash(
    harness: LogDirectoryHarness,
) -> None:
    for store in await harness.storage.open_partitions(
        [harness.spec(partition=number) for number in range(2)]
    ):
        append(store)
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    for opened, clean_afterwards in (([0], False), ([0, 1], True)):
        await crashed.open()
        assert not crashed.storage.clean_start
        await crashed.storage.open_partitions([crashed.spec(partition=number) for number in opened])
        await crashed.close()
        assert (crashed.log_dir / CLEAN_MARK).exists() == clean_afterwards
        crashed.storage = crashed.new_storage()


async def test_checkpoints_keep_what_is_not_open(harness: LogDirectoryHarness) -> None:
    stores = await harness.storage.open_partitions([harness.spec(partition=number) for number in range(2)])
    for store in stores:
        append(store, records=5)
    await harness.reopen()
    (store,) = await harness.storage.open_partitions([harness.spec(partition=1)])
    append(store, records=5)
    await harness.close()
    checkpoint = (harness.log_dir / "recovery-point-offset-checkpoint").read_text()
    assert checkpoint == "0\n2\ntopic 0 5\ntopic 1 10\n"
