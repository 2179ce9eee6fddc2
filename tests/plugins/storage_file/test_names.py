"""Names of files and directories."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from tests.plugins.storage_file.files import LogDirectoryHarness
from tests.tables import for_each
from tidelog.kernel import disk
from tidelog.kernel.errors import InvalidTopic
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing.storage.harness import append_many, read_all
from tidelog.plugins.storage_file.names import (
    base_offset_of,
    delete_directory,
    future_directory,
    parse_future_directory,
    parse_partition_directory,
    partition_directory,
    segment_file,
    stray_directory,
)


@pytest.mark.parametrize(
    ("base_offset", "name"),
    [
        (0, "00000000000000000000.log"),
        (147001, "00000000000000147001.log"),
        (2**63 - 1, "09223372036854775807.log"),
    ],
)
def test_segment_file_is_named_by_the_base_offset(base_offset: int, name: str) -> None:
    assert segment_file(base_offset, ".log") == name
    assert base_offset_of(name) == base_offset


@pytest.mark.parametrize(
    "name", ["", "1.log", "x" * 20 + ".log", "leader-epoch-checkpoint", "1" * 19 + ".log"]
)
def test_other_names_are_no_segments(name: str) -> None:
    assert base_offset_of(name) is None


@pytest.mark.parametrize(
    ("topic", "partition", "name"),
    [("orders", 2, "orders-2"), ("a-1", 0, "a-1-0"), ("x.y_z", 12345, "x.y_z-12345")],
)
def test_parse_partition_directory_reverses_partition_directory(
    topic: str, partition: int, name: str
) -> None:
    assert partition_directory(TopicPartition(topic, partition)) == name
    assert parse_partition_directory(name) == TopicPartition(topic, partition)


@for_each(
    "name",
    ["orders", "orders-", "-3", "orders-x", "lost+found", "orders-2.0123abcd-delete", "orders-2-stray"],
)
def test_parse_partition_directory_returns_none_for_other_directories(name: str) -> None:
    assert parse_partition_directory(name) is None


@pytest.mark.parametrize(
    ("name_of", "mark"),
    [(delete_directory, "delete"), (stray_directory, "stray"), (future_directory, "future")],
)
def test_a_marked_directory_has_a_fresh_name(name_of: Callable[[TopicPartition], str], mark: str) -> None:
    names = {name_of(TopicPartition("orders", 17)) for _ in range(10)}
    assert len(names) == 10
    for name in names:
        assert re.fullmatch(rf"orders-17\.[0-9a-f]{{32}}-{mark}", name)
        assert parse_partition_directory(name) is None
        assert (parse_future_directory(name) is not None) == (mark == "future")


@pytest.mark.parametrize("name_of", [delete_directory, stray_directory])
def test_a_marked_directory_has_a_name_that_fits_a_file_system(
    name_of: Callable[[TopicPartition], str],
) -> None:
    name = name_of(TopicPartition("t" * 249, 17))
    assert name.startswith("t" * 200)
    assert len(name) == 255


def test_future_directory_refuses_a_topic_name_that_is_too_long_to_parse_back() -> None:
    longest = 255 - len(f"-17.{'0' * 32}-future")
    partition = TopicPartition("t" * longest, 17)
    assert parse_future_directory(future_directory(partition)) == partition
    with pytest.raises(InvalidTopic, match="too long to move"):
        future_directory(TopicPartition("t" * (longest + 1), 17))


@for_each(
    ("name", "partition"),
    [
        ("orders-2.0123456789abcdef0123456789abcdef-future", TopicPartition("orders", 2)),
        ("a.b-1-0.0123456789abcdef0123456789abcdef-future", TopicPartition("a.b-1", 0)),
        ("orders-2-future", None),
        ("orders-2.0123456789abcdef0123456789abcdef-delete", None),
        ("orders.0123456789abcdef0123456789abcdef-future", None),
        ("orders-2", None),
    ],
)
def test_parse_future_directory_returns_the_partition_of_a_future_replica(
    name: str, partition: TopicPartition | None
) -> None:
    assert parse_future_directory(name) == partition


async def test_replace_segments_names_files_with_the_suffixes_of_apache_kafka(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(segment_bytes=500)
    append_many(store, 4, 300)
    draft = store.draft_segment(0)
    assert {path.name for path in harness.partition_dir.glob("*.cleaned")} >= {f"{0:020d}.log.cleaned"}
    renamed: list[str] = []
    rename = disk.rename

    def noting(path: str, new_path: str) -> None:
        renamed.append(Path(new_path).name)
        rename(path, new_path)

    with mock.patch.object(disk, "rename", noting):
        store.replace_segments([draft], [0, 1])
    first = f"{0:020d}.log"
    order = [renamed.index(f"{first}{mark}") for mark in (".swap", ".deleted", "")]
    assert order == sorted(order)


async def test_resolve_handles_cleaned_swap_and_deleted_files_of_apache_kafka(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(segment_bytes=500)
    batches = append_many(store, 4, 300)
    await harness.close()
    directory, first, second = harness.partition_dir, f"{0:020d}.log", f"{1:020d}.log"
    # Of 0 a rewriting had only begun; 1 was decided to be replaced by something without its batch.
    (directory / f"{first}.cleaned").write_bytes(b"half a ba")
    (directory / f"{second}.deleted").write_bytes(b"long gone")
    await harness.open_again()
    store = await harness.open_store(segment_bytes=500)
    assert read_all(store) == b"".join(batches)
    assert not {name for name in harness.names() if name.endswith((".cleaned", ".deleted"))}
    await harness.close()
    (directory / f"{second}.swap").write_bytes(b"")
    await harness.open_again()
    assert read_all(await harness.open_store(segment_bytes=500)) == b"".join([batches[0], *batches[2:]])


async def test_quarantine_stray_partitions_renames_partitions_and_future_replicas(
    harness: LogDirectoryHarness,
) -> None:
    unknown = harness.log_dir / "gone-3"
    unknown.mkdir()
    (unknown / f"{0:020d}.log").write_bytes(b"something")
    copy = harness.log_dir / "gone-4.0123456789abcdef0123456789abcdef-future"
    copy.mkdir()
    await harness.reopen()
    await harness.storage.quarantine_stray_partitions()
    names = sorted(path.name.split(".")[0] + path.name[-6:] for path in harness.log_dir.glob("gone-*"))
    assert names == ["gone-3-stray", "gone-4-stray"]
    await harness.reopen()
    assert len(list(harness.log_dir.glob("gone-*-stray"))) == 2
