"""The process ends after any single operation on files: the next start finds all that was acknowledged.

The machine goes on, so what a crash leaves is what the operations up to there made. A part of the operations
is tried, and more of the rare ones; `TIDELOG_CRASH_STRIDE=1` has the long test try all of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.replaying import check_crash, moments, replays
from tests.crash.workload import record
from tidelog.plugins.storage_file.testing import PROCESS_ENDS, Device

SHORT_STRIDE = 96
STRIDE = int(os.environ.get("TIDELOG_CRASH_STRIDE", "24"))
COMMON = {"append_some", "roll_before_any_job"}
"""Phases of which a part is enough."""


def tree(place: Path) -> dict[str, bytes]:
    """The content of every file below a directory."""
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


async def test_a_recording_leads_to_the_same_files(place: Path) -> None:
    recording = await record(place / "recorded")
    device = Device()
    for operation in recording.operations:
        device.apply(operation)
    PROCESS_ENDS.leave(device, place / "replayed")
    assert tree(place / "replayed") == tree(place / "recorded/data")


@pytest.mark.parametrize("stride", [SHORT_STRIDE, pytest.param(STRIDE, marks=pytest.mark.long)])
async def test_the_process_may_end_anywhere(place: Path, stride: int) -> None:
    recording = await record(place / "recorded")
    tried = 0
    for moment in moments(recording):
        least = stride if moment.phase in COMMON else max(stride // 4, 1)
        if not replays(moment.last) or moment.operations % least:
            continue
        tried += 1
        crashed = place / str(moment.operations)
        await check_crash(moment, PROCESS_ENDS, crashed, thoroughly=moment.operations % stride == 0)
    print(f"{tried} of {len(recording.operations)} operations")
