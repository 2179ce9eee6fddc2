"""Which log directories are taken, and how partitions spread over them."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.plugins.storage_file.files import CLEAN_MARK, LogDirectoryScene
from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError, StorageError
from tidelog.kernel.seams.metadata import TopicRecord
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage.harness import append, read_all

META = (
    "#\n#Sat Nov 21 08:59:13 UTC 2026\n"
    "node.id={node}\ndirectory.id={directory}\nversion=1\ncluster.id={cluster}\n"
)
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY = "0HdLrwxml16eAgaHZxYmJA"


def scene_with(tmp_path: Path, tasks: BackgroundTasks, directories: list[str]) -> LogDirectoryScene:
    dirs = ",".join(str(tmp_path / name) for name in directories)
    return LogDirectoryScene(tmp_path, tasks, {"log.dirs": dirs})


async def test_identify_keeps_the_ids_of_a_directory_that_apache_kafka_formatted(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    scene = LogDirectoryScene(tmp_path, tasks)
    scene.log_dir.mkdir()
    content = META.format(node=1, directory=DIRECTORY, cluster=CLUSTER)
    (scene.log_dir / "meta.properties").write_text(content)
    await scene.open()
    assert scene.metadata.cluster_id == CLUSTER
    await scene.close()
    assert (scene.log_dir / "meta.properties").read_text() == content


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
    scene = LogDirectoryScene(tmp_path, tasks)
    scene.log_dir.mkdir()
    (scene.log_dir / "meta.properties").write_text(content)
    with pytest.raises(ConfigError, match=message):
        await scene.open()


async def test_identify_refuses_a_directory_of_another_cluster(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    scene = scene_with(tmp_path, tasks, ["a", "b"])
    await scene.open()
    await scene.close()
    content = META.format(node=1, directory=DIRECTORY, cluster=CLUSTER)
    (tmp_path / "b/meta.properties").write_text(content)
    with pytest.raises(ConfigError, match=f"says cluster.id={CLUSTER}"):
        await scene.new_storage().open()


async def test_log_directories_open_refuses_a_directory_that_cannot_be_created(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ConfigError, match=r"log directory .*data cannot be used: .*log.dirs"):
        await LogDirectoryScene(tmp_path, tasks).open()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
async def test_log_directories_open_refuses_a_directory_that_cannot_be_written(
    tmp_path: Path, tasks: BackgroundTasks, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(path: str | Path, flags: int) -> int:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(disk, "open_file", refuse)
    with pytest.raises(ConfigError, match=rf"data.*{os.strerror(number)}|{os.strerror(number)}.*data"):
        await LogDirectoryScene(tmp_path, tasks).open()


async def test_configured_paths_refuses_log_directories_named_twice(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    with pytest.raises(ConfigError, match="names a directory twice"):
        await scene_with(tmp_path, tasks, ["a", "b", "b/../a"]).open()


async def test_open_partitions_creates_new_ones_in_the_directory_with_the_fewest(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    scene = scene_with(tmp_path, tasks, ["a", "b", "c"])
    await scene.open()
    await scene.storage.open_partitions([scene.spec("x", number) for number in range(4)])
    await scene.storage.open_partitions([scene.spec("y", number) for number in range(5)])
    counts = [len(list((tmp_path / name).glob("[xy]-*"))) for name in "abc"]
    assert counts == [3, 3, 3]
    await scene.close()


async def test_open_partitions_finds_data_regardless_of_the_order_of_log_dirs(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    scene = scene_with(tmp_path, tasks, ["a", "b"])
    await scene.open()
    specs = [scene.spec("x", number) for number in range(4)]
    stores = await scene.storage.open_partitions(specs)
    contents = [append(store) for store in stores]
    await scene.metadata.put_topic(TopicRecord("x", scene.topic_ids["x"], 4))
    cluster_id = scene.metadata.cluster_id
    await scene.close()
    # In another order: the metadata log is found all the same.
    other = scene_with(tmp_path, tasks, ["b", "a"])
    await other.open()
    assert other.metadata.cluster_id == cluster_id
    assert [topic.name for topic in other.metadata.topics()] == ["x"]
    assert [read_all(store) for store in await other.storage.open_partitions(specs)] == contents
    await other.close()


async def test_choose_metadata_directory_refuses_several_metadata_logs(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    scene = scene_with(tmp_path, tasks, ["a", "b"])
    await scene.open()
    await scene.close()
    shutil.copytree(tmp_path / "a/__cluster_metadata-0", tmp_path / "b/__cluster_metadata-0")
    with pytest.raises(ConfigError, match="there are several metadata logs"):
        await scene.new_storage().open()


async def test_open_partitions_refuses_a_partition_in_two_directories(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    scene = scene_with(tmp_path, tasks, ["a", "b"])
    for name in "ab":
        (tmp_path / name / "topic-0").mkdir(parents=True)
    await scene.open()
    with pytest.raises(StorageError, match="is there twice"):
        await scene.open_store()
    await scene.close()


async def test_quarantine_stray_partitions_renames_unknown_partitions(
    scene: LogDirectoryScene, caplog: pytest.LogCaptureFixture
) -> None:
    content = append(await scene.open_store())
    await scene.reopen()
    await scene.storage.quarantine_stray_partitions()
    assert "has partitions that the metadata log does not know (1)" in caplog.text
    assert "topic-0" in caplog.text
    (stray,) = scene.log_dir.glob("*-stray")
    assert re.fullmatch(r"topic-0\.[0-9a-f]{32}-stray", stray.name)
    await scene.reopen()
    assert f"{stray} is left alone" in caplog.text
    assert (stray / "00000000000000000000.log").read_bytes() == content
    scene.forget_topic("topic")
    assert (await scene.open_store()).log_end_offset == 0


async def test_quarantine_stray_partitions_renames_those_of_another_topic_id(
    scene: LogDirectoryScene,
) -> None:
    content = append(await scene.open_store())
    scene.forget_topic("topic")
    await scene.metadata.put_topic(TopicRecord("topic", scene.spec().topic_id, 1))
    await scene.reopen()
    assert (await scene.open_store()).log_end_offset == 0
    (stray,) = scene.log_dir.glob("*-stray")
    assert (stray / "00000000000000000000.log").read_bytes() == content


async def test_quarantine_duplicates_keeps_the_directory_that_the_metadata_names(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    scene = scene_with(tmp_path, tasks, ["a", "b"])
    await scene.open()
    (store,) = await scene.storage.open_partitions([scene.spec("x")])
    content = append(store)
    await scene.metadata.put_topic(TopicRecord("x", scene.topic_ids["x"], 1))
    await scene.reopen()
    await scene.close()
    shutil.copytree(tmp_path / "a/x-0", tmp_path / "b/x-0")
    await scene.open()
    (store,) = await scene.storage.open_partitions([scene.spec("x")])
    assert read_all(store) == content
    assert (tmp_path / "a/x-0").exists()
    assert [path.name[:4] for path in (tmp_path / "b").glob("x*")] == ["x-0."]
    await scene.close()


async def test_configured_paths_warns_that_log_dir_is_ignored_if_log_dirs_is_set(
    tmp_path: Path, tasks: BackgroundTasks, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"log.dirs": str(tmp_path / "a"), "log.dir": str(tmp_path / "b")}
    scene = LogDirectoryScene(tmp_path, tasks, settings)
    await scene.open()
    assert f"log.dir={tmp_path / 'b'} is not used, since log.dirs={tmp_path / 'a'} is set" in caplog.text
    assert not (tmp_path / "b").exists()
    await scene.close()


async def test_open_partitions_refuses_a_directory_with_data_of_another_topic(
    scene: LogDirectoryScene,
) -> None:
    content = append(await scene.open_store())
    await scene.reopen()
    scene.forget_topic("topic")
    with pytest.raises(StorageError, match=r"topic-0 cannot be used: it belongs to .*Move it away"):
        await scene.open_store()
    assert (scene.partition_dir / "00000000000000000000.log").read_bytes() == content
    # The same topic still opens.
    (scene.partition_dir / "partition.metadata").unlink()
    with pytest.raises(StorageError, match=r"partition.metadata cannot be read"):
        await scene.open_store()


async def test_open_partitions_reuses_an_empty_directory_of_an_interrupted_creation(
    scene: LogDirectoryScene,
) -> None:
    await scene.open_store()
    crashed = scene.crash(scene.log_dir.parent / "crashed")
    await crashed.open()
    crashed.forget_topic("topic")
    store = await crashed.open_store()
    append(store)
    await crashed.reopen()
    assert (await crashed.open_store()).log_end_offset == 1
    await crashed.close()


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage"])
async def test_open_partitions_rewrites_damaged_partition_metadata_of_a_known_topic(
    scene: LogDirectoryScene, damage: str
) -> None:
    append(await scene.open_store())
    await scene.metadata.put_topic(TopicRecord("topic", scene.topic_ids["topic"], 1))
    path = scene.partition_dir / "partition.metadata"
    before = path.read_bytes()
    await scene.storage.close()
    path.write_bytes(b"" if damage == "empty" else b"version: 7")
    if damage == "missing":
        path.unlink()
    scene.storage = scene.new_storage()
    await scene.open()
    assert (await scene.open_store()).log_end_offset == 1
    assert path.read_bytes() == before


async def test_a_failed_opening_removes_what_it_created_and_nothing_else(scene: LogDirectoryScene) -> None:
    foreign = scene.log_dir / "topic-1"
    foreign.mkdir()
    (foreign / "precious").write_text("data")
    with pytest.raises(FileExistsError):
        await scene.storage.open_partitions([scene.spec(partition=number) for number in range(3)])
    assert [path.name for path in scene.log_dir.glob("topic-*")] == ["topic-1"]
    assert (foreign / "precious").read_text() == "data"
    # The others can still be created.
    await scene.storage.open_partitions([scene.spec(partition=0)])


async def test_open_partitions_warns_of_a_missing_partition_of_a_known_topic(
    scene: LogDirectoryScene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.metadata.put_topic(TopicRecord("topic", scene.spec().topic_id, 1))
    await scene.reopen()
    await scene.open_store()
    assert "topic-0 is not there, though its topic is known; it is created empty" in caplog.text


async def test_clean_shutdown_file_does_not_cover_logs_that_were_never_opened_after_a_crash(
    scene: LogDirectoryScene,
) -> None:
    for store in await scene.storage.open_partitions([scene.spec(partition=number) for number in range(2)]):
        append(store)
    crashed = scene.crash(scene.log_dir.parent / "crashed")
    for opened, clean_afterwards in (([0], False), ([0, 1], True)):
        await crashed.open()
        assert not crashed.storage.clean_start
        await crashed.storage.open_partitions([crashed.spec(partition=number) for number in opened])
        await crashed.storage.close()
        assert (crashed.log_dir / CLEAN_MARK).exists() == clean_afterwards
        crashed.storage = crashed.new_storage()


async def test_checkpoints_keep_what_is_not_open(scene: LogDirectoryScene) -> None:
    stores = await scene.storage.open_partitions([scene.spec(partition=number) for number in range(2)])
    for store in stores:
        append(store, records=5)
    await scene.reopen()
    (store,) = await scene.storage.open_partitions([scene.spec(partition=1)])
    append(store, records=5)
    await scene.storage.close()
    checkpoint = (scene.log_dir / "recovery-point-offset-checkpoint").read_text()
    assert checkpoint == "0\n2\ntopic 0 5\ntopic 1 10\n"
