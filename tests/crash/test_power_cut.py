"""The power fails: what was reported as durable is there, and nothing that never was.

What the device holds then is drawn at random between what was synced and what was written. The long tests
draw some hundred of these; `TIDELOG_POWER_CUTS` is how many they draw, `TIDELOG_CRASH_SEED` from where, and
then the order of the steps is drawn too.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.crash.replaying import check_crash, moments
from tests.crash.workload import STEPS, Recording, record, record_second_life
from tidelog.plugins.storage_file.testing import PROCESS_ENDS, DataFate, NameFate, PowerCut

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


@many_cuts
async def test_the_power_may_fail_again_while_a_log_is_recovered(
    place: Path, choose: random.Random, cuts: int
) -> None:
    recording = await record(place / "recorded", steps(choose), SEED)
    settled = recording.history.first_operation_of("append_some")
    wanted = set(choose.sample(range(settled, len(recording.operations) + 1), max(cuts // 35, 1)))
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
