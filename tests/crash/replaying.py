"""Going through a recording, operation by operation, with what is expected at each."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.crash.checks import check_going_on, check_second_start, check_start
from tests.crash.core import Core
from tests.crash.history import Expected
from tests.crash.interposers import Unsynced
from tests.crash.workload import Recording
from tidelog.plugins.storage_file.testing import PROCESS_ENDS, Device, Operation, PowerCut
from tidelog.plugins.storage_file.testing.operations import SyncDirectory, SyncFile


@attrs.frozen
class Moment:
    """After `operations` operations: what is on the device, what is expected."""

    operations: int
    last: Operation | None
    phase: str
    device: Device
    expected: Expected


def moments(recording: Recording) -> Iterator[Moment]:
    """The moment before the first operation, and that after each; each replaces the one before it."""
    device, expected = copy.deepcopy(recording.start), copy.deepcopy(recording.history.before)
    events = iter(recording.history.events)
    event = next(events, None)
    for done in range(len(recording.operations) + 1):
        last = recording.operations[done - 1] if done else None
        if last is not None:
            device.apply(last)
        while event is not None and event[0] <= done:
            event[1](expected)
            event = next(events, None)
        yield Moment(done, last, recording.history.phase_at(done), device, expected)


def replays(last: Operation | None) -> bool:
    """Whether the last operation changed what the machine has; a sync only changes what the device has."""
    return not isinstance(last, SyncFile | SyncDirectory)


async def check_crash(
    moment: Moment, cut: PowerCut, place: Path, *, thoroughly: bool, note: str = ""
) -> None:
    """Let the power fail, or the process end, at a moment, and start again in the directory `place`.

    What went wrong stays there, and the error tells how to come to it again; `note` is what came before.
    """
    power_was_lost = cut != PROCESS_ENDS
    try:
        cut.leave(moment.device, place / "data")
        core = Core(place)
        with Unsynced().installed():
            await check_start(core, moment.expected, power_was_lost=power_was_lost)
            if thoroughly:
                await check_second_start(core)
                await check_going_on(core, moment.expected, power_was_lost=power_was_lost)
            else:
                core.abandon()
    except BaseException as error:
        error.add_note(f"{moment.operations} operations, in {moment.phase!r}; {note} {cut}; see {place}")
        raise
    shutil.rmtree(place)
