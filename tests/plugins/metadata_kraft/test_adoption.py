"""Partitions whose metadata log is lost are adopted from their directories."""

from __future__ import annotations

import shutil
from uuid import uuid4

import pytest

from tests.plugins.metadata_kraft.scenes import metadata_dir, metadata_of
from tests.plugins.storage_file.files import LogDirectoryScene
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.metadata import TopicRecord
from tidelog.kernel.seams.storage import PartitionSpec, TopicPartition
from tidelog.kernel.testing.storage.harness import append, read_all


async def lose_metadata(scene: LogDirectoryScene) -> None:
    """Two topics with data, closed; then the metadata log is gone."""
    specs = [scene.spec("orders", 0), scene.spec("orders", 2), scene.spec("a-b", 0)]
    for store in await scene.storage.open_partitions(specs):
        append(store)
    (scene.log_dir / "orders-0/leader-epoch-checkpoint").write_text("0\n1\n6 0\n")
    await scene.storage.close()
    shutil.rmtree(metadata_dir(scene))
    scene.storage = scene.new_storage()


async def test_adoption_creates_topics_from_directories(
    scene: LogDirectoryScene, caplog: pytest.LogCaptureFixture
) -> None:
    await lose_metadata(scene)
    await scene.open()
    orders, other = sorted(metadata_of(scene).topics(), key=lambda topic: topic.partitions, reverse=True)
    assert orders == TopicRecord("orders", scene.topic_ids["orders"], 3, {}, adopted=True)
    assert other == TopicRecord("a-b", scene.topic_ids["a-b"], 1, {}, adopted=True)
    # Above the epochs that the directories tell of, and led anew by this start.
    assert orders.leader_epochs == (8, 1, 1)
    assert "orders (3 partitions)" in caplog.text
    assert f"delete its line from {scene.log_dir / 'adopted-topics'}" in caplog.text
    spec = scene.spec("orders", 0)
    (store,) = await scene.storage.open_partitions([spec])
    assert len(read_all(store)) > 0
    await scene.reopen()
    assert all(topic.adopted for topic in metadata_of(scene).topics())
    assert caplog.text.count("there was no metadata log") == 1


async def test_adoption_ends_with_a_change_of_the_configuration(scene: LogDirectoryScene) -> None:
    await lose_metadata(scene)
    await scene.open()
    orders = TopicRecord("orders", scene.topic_ids["orders"], 4, {})
    await metadata_of(scene).put_topic(orders)
    assert {topic.name for topic in metadata_of(scene).topics() if topic.adopted} == {"orders", "a-b"}
    await metadata_of(scene).put_topic(TopicRecord("orders", orders.topic_id, 4, {"retention.ms": "-1"}))
    await scene.reopen()
    assert {topic.name for topic in metadata_of(scene).topics() if topic.adopted} == {"a-b"}
    await metadata_of(scene).remove_topic("a-b")
    assert not (scene.log_dir / "adopted-topics").exists()


async def test_adoption_ends_when_its_line_is_deleted(scene: LogDirectoryScene) -> None:
    await lose_metadata(scene)
    await scene.open()
    await scene.storage.close()
    path = scene.log_dir / "adopted-topics"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("orders ")]
    path.write_text("\n".join(["0", "1", *lines[2:], ""]))
    scene.storage = scene.new_storage()
    await scene.open()
    assert {topic.name for topic in metadata_of(scene).topics() if topic.adopted} == {"a-b"}


@pytest.mark.parametrize("content", ["", "1\n0\n", "0\n2\norders AAAAAAAAAAAAAAAAAAAAAQ\n", "0\n1\norders\n"])
async def test_adoption_refuses_a_malformed_file(scene: LogDirectoryScene, content: str) -> None:
    await scene.storage.close()
    (scene.log_dir / "adopted-topics").write_text(content)
    with pytest.raises(ConfigError, match="adopted-topics cannot be used"):
        await scene.new_storage().open()


async def test_adoption_assigns_ids_to_directories_without_one(scene: LogDirectoryScene) -> None:
    await lose_metadata(scene)
    for path in scene.log_dir.glob("*/partition.metadata"):
        path.unlink()
    await scene.open()
    (topic,) = [topic for topic in metadata_of(scene).topics() if topic.name == "orders"]
    specs = [
        PartitionSpec(TopicPartition("orders", number), topic.topic_id, scene.spec().config)
        for number in range(topic.partitions)
    ]
    stores = await scene.storage.open_partitions(specs)
    assert [store.log_end_offset for store in stores] == [1, 0, 1]


async def test_adoption_refuses_directories_of_different_topics(scene: LogDirectoryScene) -> None:
    await lose_metadata(scene)
    shutil.copy(scene.log_dir / "a-b-0/partition.metadata", scene.log_dir / "orders-2/partition.metadata")
    with pytest.raises(ConfigError, match="the directories of topic orders belong to different topics"):
        await scene.open()


async def test_adoption_needs_an_empty_metadata_log(
    scene: LogDirectoryScene, caplog: pytest.LogCaptureFixture
) -> None:
    (scene.log_dir / "stranger-0").mkdir()
    await metadata_of(scene).put_topic(TopicRecord("t", uuid4(), 1))
    await scene.reopen()
    assert [topic.name for topic in metadata_of(scene).topics()] == ["t"]
    await scene.storage.quarantine_stray_partitions()
    assert "the metadata log does not know (1)" in caplog.text
    assert [path.name[:11] for path in scene.log_dir.glob("*-stray")] == ["stranger-0."]


async def test_remove_topic_before_a_crash_deletes_the_partition_directory_on_open(
    scene: LogDirectoryScene,
) -> None:
    append(await scene.open_store())
    await metadata_of(scene).put_topic(TopicRecord("topic", scene.topic_ids["topic"], 1))
    await metadata_of(scene).remove_topic("topic")
    crashed = scene.crash(scene.log_dir.parent / "crashed")
    await crashed.open()
    assert not crashed.partition_dir.exists()
    await crashed.close()
