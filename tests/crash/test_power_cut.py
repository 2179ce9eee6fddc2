"""The power fails: what was reported as durable is there, and nothing that never was.

What the device holds then is drawn at random between what was synced and what was written. The long tests
draw some hundred of these; `TIDELOG_POWER_CUTS` is how many they draw, `TIDELOG_CRASH_SEED` from where, and
then the order of the steps is drawn too. Where the power fails a second time, the short test draws nothing:
it leaves what recovery has most work with, and tries each moment after that at which most is not durable.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import attrs
import pytest

from tests.crash.replaying import Moment, check_crash, moments, replays
from tests.crash.workload import STEPS, Recording, record, record_second_life
from tidelog.plugins.storage_file.names import LOG_SUFFIX
from tidelog.plugins.storage_file.testing import PROCESS_ENDS, DataFate, Device, NameFate, PowerCut
from tidelog.plugins.storage_file.testing.device import DeviceContent
from tidelog.plugins.storage_file.testing.operations import Unlink, WriteBytes

SHORT_CUTS = 24
CUTS = int(os.environ.get("TIDELOG_POWER_CUTS", "105"))
SEED = int(os.environ.get("TIDELOG_CRASH_SEED", "0"))
CUTS_OF_SECOND_LIVES = 6
RARE = {
    "checkpoint",
    "create_topic",
    "delete_segments",
    "delete_topic",
    "delete_whole_log",
    "flush",
    "remove_deleted_files",
    "stop",
    "truncate_in_a_segment",
    "truncate_over_segments",
}
"""Phases of which every operation is followed by a cut, unless there are fewer cuts."""
SECOND_STEPS = ("append_some", "roll_before_any_job", "flush", "checkpoint", "append_some")


def any_cut(choose: random.Random) -> PowerCut:
    """A way for the power to fail that may take something."""
    while True:
        data, names = choose.choice(list(DataFate)), choose.choice(list(NameFate))
        cut = PowerCut(data, names, choose.randrange(1 << 30))
        if (cut.data, cut.names) != (PROCESS_ENDS.data, PROCESS_ENDS.names):
            return cut


def moments_to_cut(recording: Recording, choose: random.Random, cuts: int) -> set[int]:
    """Numbers of operations after which the power fails: most are of the rare phases."""
    count = len(recording.operations)
    rare = {done for done in range(count + 1) if recording.history.phase_at(done) in RARE}
    others = sorted(set(range(count + 1)) - rare)
    if cuts < len(rare):
        return {*choose.sample(sorted(rare), cuts * 2 // 3), *choose.sample(others, cuts // 3)}
    return rare | set(choose.sample(others, min(cuts - len(rare), len(others))))


def steps(choose: random.Random) -> tuple[str, ...]:
    """The steps of the short version, or those in any order."""
    return STEPS if not SEED else tuple(choose.choices(sorted(set(STEPS)), k=len(STEPS)))


many_cuts = pytest.mark.parametrize("cuts", [SHORT_CUTS, pytest.param(CUTS, marks=pytest.mark.long)])


@pytest.fixture
def choose() -> random.Random:
    """Where all choices come from."""
    return random.Random(SEED)


@many_cuts
async def test_what_was_durable_survives_the_loss_of_power(
    place: Path, choose: random.Random, cuts: int
) -> None:
    recording = await record(place / "recorded", steps(choose), SEED)
    wanted = moments_to_cut(recording, choose, cuts)
    for moment in moments(recording):
        if moment.operations in wanted:
            await check_crash(moment, any_cut(choose), place / str(moment.operations), thoroughly=True)


def lose_all(device: Device) -> None:
    """Each file has grown as far as it was written, but by zeros."""
    for file in device.files.values():
        size = max(file.cached.size, file.durable.size)
        file.durable = DeviceContent(file.durable.read(0, file.durable.size), size)


def tear_oldest_segments(device: Device) -> None:
    """The oldest of several segments that are not durable ends in a torn write; the later ones are whole."""
    for directory in device.directories.values():
        names = sorted(name for name in directory.cached if name.endswith(LOG_SUFFIX))
        pending = [file for file in (device.files[directory.cached[name]] for name in names) if file.pending]
        oldest = pending.pop(0) if len(pending) > 1 else None
        for file in pending:
            file.durable = file.cached
        if oldest is not None:
            write = next(each for each in oldest.pending if isinstance(each, WriteBytes))
            torn = attrs.evolve(write, data=write.data[: len(write.data) // 2])
            oldest.durable = oldest.durable.after(torn)


@attrs.frozen
class FirstLoss:
    """A loss of power that recovery has work with, what is done after it, and how the power fails again.

    It comes in the first run of `phase` behind `before`, when most files hold what is not durable.
    """

    before: str
    phase: str
    lose: Callable[[Device], None]
    steps: tuple[str, ...]
    again: PowerCut
    removes_segments: bool

    def moment(self, recording: Recording) -> Moment:
        """The moment of a recording."""
        phases = [name for _, name in recording.history.marks]
        at = next(at for at, pair in enumerate(pairwise(phases), 1) if pair == (self.before, self.phase))
        first, end = (recording.history.marks[index][0] for index in (at, at + 1))
        found: dict[int, Moment] = {}
        for moment in moments(recording):
            pending = sum(bool(file.pending) for file in moment.device.files.values())
            if first < moment.operations <= end and pending > max(found, default=0):
                found[pending] = copy.deepcopy(moment)
        return found[max(found)]


FIRST_LOSSES = {
    "what is cut off lies at the recovery point": FirstLoss(
        "checkpoint",
        "append_some",
        lose_all,
        ("roll_everything", "flush", "checkpoint"),
        PowerCut(DataFate.LOST, NameFate.KEPT),
        removes_segments=False,
    ),
    "intact segments lie behind a torn one": FirstLoss(
        "run_transactions",
        "roll_before_any_job",
        tear_oldest_segments,
        ("append_some",),
        PowerCut(DataFate.KEPT, NameFate.LOST),
        removes_segments=True,
    ),
}


def before_syncs(recording: Recording) -> Iterator[Moment]:
    """The moments at which most is not durable: after a change that a sync follows, and at the end."""
    change_follows = [*map(replays, recording.operations), False]
    for moment in moments(recording):
        if moment.last is not None and replays(moment.last) and not change_follows[moment.operations]:
            yield moment


async def test_the_power_may_fail_again_while_a_log_is_recovered(place: Path) -> None:
    """Also before the first sync after it: what recovery cut off or removed does not come back."""
    recording = await record(place / "recorded")
    for name, loss in FIRST_LOSSES.items():
        first, life = loss.moment(recording), place / "life"
        loss.lose(first.device)
        PowerCut(DataFate.LOST, NameFate.KEPT).leave(first.device, life / "data")
        second_life = await record_second_life(life, first.expected, loss.steps, SEED)
        removed = [each.name for each in second_life.operations if isinstance(each, Unlink)]
        assert any(each.endswith(LOG_SUFFIX) for each in removed) is loss.removes_segments
        for second in before_syncs(second_life):
            done = second.operations
            if loss.removes_segments or second.phase != "recover":
                thoroughly = done == len(second_life.operations)
                await check_crash(second, loss.again, place / str(done), thoroughly=thoroughly, note=name)
        shutil.rmtree(life)


@pytest.mark.long
async def test_the_power_may_fail_twice_at_any_moment(place: Path, choose: random.Random) -> None:
    recording = await record(place / "recorded", steps(choose), SEED)
    settled = recording.history.first_operation_of("append_some")
    wanted = set(choose.sample(range(settled, len(recording.operations) + 1), max(CUTS // 35, 1)))
    for moment in moments(recording):
        if moment.operations not in wanted:
            continue
        life = place / str(moment.operations)
        first = any_cut(choose)
        first.leave(moment.device, life / "data")
        again = await record_second_life(life, moment.expected, SECOND_STEPS, SEED)
        recovering = [
            done for done in range(len(again.operations) + 1) if again.history.phase_at(done) == "recover"
        ]
        seconds = {
            *choose.sample(recovering, CUTS_OF_SECOND_LIVES // 2),
            *choose.sample(range(len(again.operations) + 1), CUTS_OF_SECOND_LIVES // 2),
        }
        for second in moments(again):
            if second.operations in seconds:
                crashed = place / f"{moment.operations}.{second.operations}"
                await check_crash(second, any_cut(choose), crashed, thoroughly=True, note=str(first))
        shutil.rmtree(life)
