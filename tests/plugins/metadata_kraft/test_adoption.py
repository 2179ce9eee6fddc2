"""Partitions whose metadata log is lost are adopted from their directories."""

from __future__ import annotations

import shutil
from uuid import uuid4

import pytest

from tests.metadata_changes import put_topics, remove_topics, topics_of
from tests.plugins.metadata_kraft.metadata_log import metadata_dir, metadata_of
from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.metadata import topic_image
from tidelog.kernel.seams.storage import PartitionSpec, TopicPartition
from tidelog.kernel.testing.metadata.harness import described
from tidelog.kernel.testing.storage.harness import append, read_all


async def lose_metadata(harness: LogDirectoryHarness) -> None:
    """Two topics with data, closed; then the metadata log is gone."""
    specs = [harness.spec("orders", 0), harness.spec("orders", 2), harness.spec("a-b", 0)]
    for store in await harness.storage.open_partitions(specs):
        append(store)
    (harness.log_dir / "orders-0/leader-epoch-checkpoint").write_text("0\n1\n6 0\n")
    await harness.close()
    shutil.rmtree(metadata_dir(harness))
    harness.storage = harness.new_storage()


async def test_adoption_creates_topics_from_directories(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    await lose_metadata(harness)
    await harness.open()
    orders, other = sorted(topics_of(metadata_of(harness)), key=lambda topic: topic.name, reverse=True)
    assert described(orders) == ("orders", harness.topic_ids["orders"], 3, {}, True)
    assert described(other) == ("a-b", harness.topic_ids["a-b"], 1, {}, True)
    # Above the epochs that the directories tell of, and led anew by this start.
    assert [partition.leader_epoch for partition in orders.partitions] == [8, 1, 1]
    assert "orders (3 partitions)" in caplog.text
    assert f"delete its line from {harness.log_dir / 'adopted-topics'}" in caplog.text
    spec = harness.spec("orders", 0)
    (store,) = await harness.storage.open_partitions([spec])
    assert len(read_all(store)) > 0
    await harness.reopen()
    assert all(topic.adopted for topic in topics_of(metadata_of(harness)))
    assert caplog.text.count("there was no metadata log") == 1


async def test_adoption_ends_with_a_change_of_the_configuration(harness: LogDirectoryHarness) -> None:
    await lose_metadata(harness)
    await harness.open()
    orders = topic_image("orders", harness.topic_ids["orders"], 4, {})
    await put_topics(metadata_of(harness), orders)
    assert {topic.name for topic in topics_of(metadata_of(harness)) if topic.adopted} == {"orders", "a-b"}
    await put_topics(metadata_of(harness), topic_image("orders", orders.topic_id, 4, {"retention.ms": "-1"}))
    await harness.reopen()
    assert {topic.name for topic in topics_of(metadata_of(harness)) if topic.adopted} == {"a-b"}
    await remove_topics(metadata_of(harness), "a-b")
    assert not (harness.log_dir / "adopted-topics").exists()


async def test_adoption_ends_when_its_line_is_deleted(harness: LogDirectoryHarness) -> None:
    await lose_metadata(harness)
    await harness.open()
    await harness.close()
    path = harness.log_dir / "adopted-topics"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("orders ")]
    path.write_text("\n".join(["0", "1", *lines[2:], ""]))
    await harness.open_again()
    assert {topic.name for topic in topics_of(metadata_of(harness)) if topic.adopted} == {"a-b"}


@pytest.mark.parametrize("content", ["", "1\n0\n", "0\n2\norders AAAAAAAAAAAAAAAAAAAAAQ\n", "0\n1\norders\n"])
async def test_adoption_refuses_a_malformed_file(harness: LogDirectoryHarness, content: str) -> None:
    await harness.close()
    (harness.log_dir / "adopted-topics").write_text(content)
    with pytest.raises(ConfigError, match="adopted-topics cannot be used"):
        await harness.open_again()


async def test_adoption_assigns_ids_to_directories_without_one(harness: LogDirectoryHarness) -> None:
    await lose_metadata(harness)
    for path in harness.log_dir.glob("*/partition.metadata"):
        path.unlink()
    await harness.open()
    (topic,) = [topic for topic in topics_of(metadata_of(harness)) if topic.name == "orders"]
    specs = [
        PartitionSpec(TopicPartition("orders", number), topic.topic_id, harness.spec().config)
        for number in range(len(topic.partitions))
    ]
    stores = await harness.storage.open_partitions(specs)
    assert [store.log_end_offset for store in stores] == [1, 0, 1]


async def test_adoption_refuses_directories_of_different_topics(harness: LogDirectoryHarness) -> None:
    await lose_metadata(harness)
    shutil.copy(harness.log_dir / "a-b-0/partition.metadata", harness.log_dir / "orders-2/partition.metadata")
    with pytest.raises(ConfigError, match="the directories of topic orders belong to different topics"):
        await harness.open()


async def test_adoption_needs_an_empty_metadata_log(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    (harness.log_dir / "stranger-0").mkdir()
    await put_topics(metadata_of(harness), topic_image("t", uuid4(), 1))
    await harness.reopen()
    assert [topic.name for topic in topics_of(metadata_of(harness))] == ["t"]
    await harness.storage.quarantine_stray_partitions()
    assert "the metadata log does not know (1)" in caplog.text
    assert [path.name[:11] for path in harness.log_dir.glob("*-stray")] == ["stranger-0."]


async def test_remove_topic_before_a_crash_deletes_the_partition_directory_on_open(
    harness: LogDirectoryHarness,
) -> None:
    append(await harness.open_store())
    await put_topics(metadata_of(harness), topic_image("topic", harness.topic_ids["topic"], 1))
    await remove_topics(metadata_of(harness), "topic")
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    await crashed.open()
    assert not crashed.partition_dir.exists()
    await crashed.close()
