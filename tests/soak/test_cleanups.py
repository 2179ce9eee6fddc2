"""What is counted in the broker's log, and measured in its directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.soak.cleanups import Cleanups, count_files, log_bytes, occupied_bytes, wait_for_file

if TYPE_CHECKING:
    from pathlib import Path

_LEFT = "9 of 18 bytes and 3 of 5 records are left"
LINES = [
    f"INFO orders-state-3: cleanup policy compact rewrote the log up to 5 in 0.6 s: {_LEFT}; a count: 0",
    f"INFO orders-state-0: cleanup policy compact rewrote the log up to 9 in 0.1 s: {_LEFT}",
    "INFO orders-state-0: rewriting is given up for now: the draft at 0 is stale",
    "INFO clicks-0: cleanup policy delete deleted 4 segment(s), 400 bytes; the log starts at 12",
    "WARNING data/clicks-0: a replacement of segments was interrupted and is undone",
    "INFO clicks-0: something else",
]


def test_cleanups_are_counted_by_topic() -> None:
    found = Cleanups.of(LINES)
    assert found.rewrites == {"orders-state": 2}
    assert found.removed_records == {"orders-state": 4}
    assert found.given_up == {"orders-state": 1}
    assert found.deleted_segments == {"clicks": 4}
    assert found.interrupted == 1


@pytest.mark.parametrize(("mark", "found"), [(".log.cleaned", True), (".swap", False)])
def test_wait_for_file_looks_into_the_directories_of_partitions(
    tmp_path: Path, mark: str, found: bool
) -> None:
    for folder in ("t-0", "other-0"):
        (tmp_path / folder).mkdir()
    (tmp_path / "t-0" / "0.log.cleaned").touch()
    (tmp_path / "other-0" / "0.log.swap").touch()
    assert wait_for_file([tmp_path], ["t"], mark, 0.01) is found


def test_log_bytes_are_those_of_segments_and_occupied_bytes_those_of_all_files(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    files = {
        "a/t-0/0.log": 5000,
        "a/t-0/0.log.deleted": 6000,
        "b/t-1/0.log": 7000,
        "b/t-1/9.log": 100,
        "b/t-0.12ab-future/0.log": 8000,
        "a/t-2.12ab-delete/0.log": 9000,
        "a/other-t-0/0.log": 50_000,
        "a/t-0-0/0.log": 50_000,
    }
    for name, size in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    assert log_bytes(directories, "t") == {0: 5000, 1: 7100}
    assert count_files(directories, "t", ".log") == {0: 1, 1: 2}
    occupied = occupied_bytes(directories, "t")
    assert 35_100 <= occupied <= 35_100 + 6 * 4096
