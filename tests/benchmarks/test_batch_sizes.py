from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.batch_sizes import BatchSizes, batch_sizes
from benchmarks.load.raw_batch import encode_batch

if TYPE_CHECKING:
    from pathlib import Path

ONE, THREE = (encode_batch([b"value"] * count, 1, 0) for count in (1, 3))


def test_sizes_come_from_the_first_segment(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(ONE + THREE)
    (tmp_path / "00000000000000000004.log").write_bytes(THREE)
    assert batch_sizes(tmp_path) == BatchSizes(2, (len(ONE) + len(THREE)) / 2, 2.0)
    assert batch_sizes(tmp_path, skip=1) == BatchSizes(1, len(THREE), 3)


def test_a_preallocated_rest_ends_the_log(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(ONE + bytes(500))
    assert batch_sizes(tmp_path) == BatchSizes(1, len(ONE), 1.0)


def test_without_a_batch_there_are_no_sizes(tmp_path: Path) -> None:
    assert batch_sizes(tmp_path) is None
    assert batch_sizes(tmp_path / "nowhere") is None
    (tmp_path / "00000000000000000000.log").write_bytes(ONE[:50])
    assert batch_sizes(tmp_path) is None
