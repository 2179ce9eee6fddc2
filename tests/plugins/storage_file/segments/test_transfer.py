"""Segments in the hands of another process: what is read ahead of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidelog.plugins.storage_file.segments.transfer import FileSegmentSource

SIZE = 100


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system has no such call")
@pytest.mark.parametrize(
    ("position", "size", "advised"),
    [(0, 10, [(0, 10)]), (90, 20, [(90, 10)]), (5, 0, []), (SIZE, 7, []), (SIZE + 3, 7, [])],
)
def test_will_need_has_the_system_read_what_the_segment_has(
    position: int, size: int, advised: list[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A size of 0 would mean the whole file, and one beyond the segment what another process appends."""
    path = tmp_path / "0.log"
    path.write_bytes(bytes(SIZE + 10))
    source = FileSegmentSource(str(path), 0, SIZE, 1)
    found: list[tuple[int, int]] = []

    def advise(fd: int, start: int, length: int, advice: int) -> None:
        assert os.fstat(fd).st_size == SIZE + 10
        assert advice == os.POSIX_FADV_WILLNEED
        found.append((start, length))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    source.will_need(position, size)
    assert found == advised
