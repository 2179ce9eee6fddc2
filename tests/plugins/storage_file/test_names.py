"""Names of files and directories."""

from __future__ import annotations

import re

import pytest

from tidelog.kernel.storage import TopicPartition
from tidelog.plugins.storage_file.names import (
    base_offset_of,
    delete_directory,
    parse_partition_directory,
    partition_directory,
    segment_file,
)


@pytest.mark.parametrize(
    ("base_offset", "name"),
    [
        (0, "00000000000000000000.log"),
        (147001, "00000000000000147001.log"),
        (2**63 - 1, "09223372036854775807.log"),
    ],
)
def test_a_segment_is_named_by_its_base_offset(base_offset: int, name: str) -> None:
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
def test_a_partition_has_a_directory_of_its_own(topic: str, partition: int, name: str) -> None:
    assert partition_directory(TopicPartition(topic, partition)) == name
    assert parse_partition_directory(name) == TopicPartition(topic, partition)


@pytest.mark.parametrize(
    "name",
    ["orders", "orders-", "-3", "orders-x", "lost+found", "orders-2.0123abcd-delete", "orders-2-stray"],
)
def test_other_directories_are_no_partitions(name: str) -> None:
    assert parse_partition_directory(name) is None


def test_a_directory_to_delete_has_a_fresh_name_that_fits_a_file_system() -> None:
    partition = TopicPartition("t" * 249, 17)
    names = {delete_directory(partition) for _ in range(10)}
    assert len(names) == 10
    for name in names:
        assert re.fullmatch(r"t+-17\.[0-9a-f]{32}-delete", name)
        assert len(name) <= 255
        assert parse_partition_directory(name) is None
