"""How often the disk flushes, and where that is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import workspace
from benchmarks.load.flush_limit import FlushLimitSpec, flush_limit

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_flush_limit_counts_the_flushes_of_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr("benchmarks.load.flush_limit._sync", seen.append)
    result = flush_limit(FlushLimitSpec(str(tmp_path), files=3, value_bytes=100, seconds=0.02))
    assert result.flushes == len(seen) > 0
    assert len(set(seen)) == 3
    assert list(tmp_path.iterdir()) == []


def test_disk_base_is_the_first_folder_that_is_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = [tmp_path]
    monkeypatch.setattr(workspace, "file_system", lambda path: "tmpfs" if path in in_memory else "ext2/ext3")
    other = tmp_path / "other"
    other.mkdir()
    assert workspace.disk_base(other) == other
    found = workspace.disk_base(tmp_path)
    assert found is not None
    assert found != tmp_path
    monkeypatch.setattr(workspace, "file_system", lambda _: "tmpfs")
    assert workspace.disk_base(other) is None
