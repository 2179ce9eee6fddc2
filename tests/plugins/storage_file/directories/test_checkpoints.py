"""Offset checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.storage_file.directories.checkpoints import read_checkpoint, write_checkpoint

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
