"""Offset checkpoints and the clean shutdown file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.seams.storage import PartitionStore, TopicPartition
from tidelog.kernel.testing.storage.harness import append_many, base_offsets
from tidelog.plugins.storage_file.directories.checkpoints import (
    consume_clean_shutdown_file,
    read_checkpoint,
    write_checkpoint,
    write_clean_shutdown_file,
)
from tidelog.plugins.storage_file.testing import DataFate, NameFate, PowerCut, Recorder

OFFSETS = {
    TopicPartition("orders", 1): 105640,
    TopicPartition("orders", 0): 2**63 - 1,
    TopicPartition("a-b", 7): 0,
}


def test_write_checkpoint_uses_the_text_format_of_apache_kafka(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_checkpoint(path, OFFSETS)
    assert path.read_text() == "0\n3\na-b 7 0\norders 0 9223372036854775807\norders 1 105640\n"
    assert read_checkpoint(path) == OFFSETS
    write_checkpoint(path, {})
    assert path.read_text() == "0\n0\n"
    assert read_checkpoint(path) == {}
    assert [other.name for other in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("content", [None, b""])
def test_read_checkpoint_of_a_missing_or_empty_file_returns_no_offsets(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "checkpoint"
    if content is not None:
        path.write_bytes(content)
    assert read_checkpoint(path) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"0",
        b"1\n0\n",
        b"0\n2\norders 0 1\n",
        b"0\n1\norders 0 1\norders 1 1\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 x\n",
        b"0\n1\norders 0 -1\n",
        b"0\nx\n",
        b"\0" * 100,
        b"\xff\xfe",
    ],
)
def test_read_checkpoint_ignores_a_damaged_file_and_logs_it(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    assert read_checkpoint(path) == {}
    assert str(path) in caplog.text


def test_write_clean_shutdown_file_uses_the_format_of_apache_kafka(tmp_path: Path) -> None:
    write_clean_shutdown_file(tmp_path, 13)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        ".kafka_cleanshutdown": '{"version":0,"brokerEpoch":13}'
    }


def test_consume_clean_shutdown_file_finds_it_once_even_if_the_power_fails_then(tmp_path: Path) -> None:
    """Otherwise logs that were open at the power failure would not be recovered."""
    place, left = tmp_path / "place", tmp_path / "left"
    place.mkdir()
    assert not consume_clean_shutdown_file(place)
    write_clean_shutdown_file(place, 13)
    recorder = Recorder(place)
    with recorder.installed():
        assert consume_clean_shutdown_file(place)
        assert not consume_clean_shutdown_file(place)
    device = recorder.start
    for operation in recorder.operations:
        device.apply(operation)
    PowerCut(DataFate.LOST, NameFate.LOST).leave(device, left)
    assert not consume_clean_shutdown_file(left)


HIGH_WATERMARKS = "replication-offset-checkpoint"
NAMES = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    HIGH_WATERMARKS,
    "cleaner-offset-checkpoint",
    "other-rewrite-offset-checkpoint",
)


async def with_an_offset_in_each_checkpoint(harness: LogDirectoryHarness) -> PartitionStore:
    """Partitions 0 and 1 that begin at offset 7, of ten, and are in all checkpoints; 1 is returned."""
    for number in (0, 1):
        store = await harness.open_store(partition=number)
        append_many(store, 10)
        store.flush()
        store.raise_log_start(7)
        store.set_rewritten_until("compact", 8)
        store.set_rewritten_until("other", 9)
    await harness.reopen()
    (harness.log_dir / HIGH_WATERMARKS).write_text("0\n2\ntopic 0 10\ntopic 1 10\n")
    await harness.reopen()
    assert all(found == {0, 1} for found in partitions_in(harness).values())
    await harness.open_store()
    return await harness.open_store(partition=1)


def partitions_in(harness: LogDirectoryHarness) -> dict[str, set[int]]:
    return {name: {key.partition for key in read_checkpoint(harness.log_dir / name)} for name in NAMES}


async def test_delete_partitions_takes_them_out_of_all_checkpoints(harness: LogDirectoryHarness) -> None:
    store = await with_an_offset_in_each_checkpoint(harness)
    await harness.storage.delete_partitions([(harness.spec(partition=1).topic_partition, store)])
    # Without a broker above, the background task knows no high watermarks, and writes those of none.
    assert all(found - {0} == set() for found in partitions_in(harness).values())
    assert all(found == {0} for name, found in partitions_in(harness).items() if name != HIGH_WATERMARKS)


async def test_delete_partitions_leaves_no_offsets_to_a_new_topic_of_the_same_name(
    harness: LogDirectoryHarness, tmp_path: Path
) -> None:
    """By the old topic's log start, a crash would cost the new one its first records."""
    store = await with_an_offset_in_each_checkpoint(harness)
    await harness.storage.delete_partitions([(harness.spec(partition=1).topic_partition, store)])
    harness.forget_topic("topic")
    store = await harness.open_store(partition=1)
    append_many(store, 10)
    crashed = harness.crash(tmp_path / "crashed")
    await crashed.open()
    store = await crashed.open_store(partition=1)
    assert base_offsets(store.headers(0)) == list(range(10))
    assert store.log_start_offset == store.checkpointed_high_watermark == 0
    assert store.rewritten_until("compact") is store.rewritten_until("other") is None
    await crashed.close()


async def test_open_takes_partitions_that_are_gone_out_of_all_checkpoints(
    harness: LogDirectoryHarness, tmp_path: Path
) -> None:
    """A crash came after the directory was renamed."""
    await with_an_offset_in_each_checkpoint(harness)
    crashed = harness.crash(tmp_path / "crashed")
    (crashed.log_dir / "topic-1").rename(crashed.log_dir / f"topic-1.{'0' * 32}-delete")
    await crashed.open()
    assert all(found - {0} == set() for found in partitions_in(crashed).values())
    assert all(found == {0} for name, found in partitions_in(crashed).items() if name != HIGH_WATERMARKS)
    store = await crashed.open_store(partition=1)
    assert store.log_start_offset == store.checkpointed_high_watermark == 0
    assert store.rewritten_until("compact") is None
    await crashed.close()
