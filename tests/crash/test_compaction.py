"""A crash comes after any file operation of a compaction, from the first draft to the end of the old files.

Each group of segments is as before or as after, no reader finds another value, and the checkpoint never
claims more than was rewritten. What is left is compacted to the same offsets as without the crash. A sample
of the operations is tried; `TIDELOG_COMPACTION_STRIDE=1` has the long tests try them all.
"""

from __future__ import annotations

import copy
import itertools
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from tests.crash.compacting import POLICY, TOPIC, CompactingCore
from tests.crash.compaction_recording import (
    CASES,
    UNDECIDED,
    Case,
    Content,
    Moment,
    Pass,
    Recording,
    bounds_of,
    moments,
    record,
    tables_of,
)
from tests.crash.interposers import Unsynced
from tests.crash.keyed_log import Writer, final_values, newest_offsets, records_in
from tests.crash.logs import batches_of
from tests.crash.replaying import replays
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.stored import parse_stored
from tidelog.kernel.testing import FakeClock
from tidelog.plugins.cleaner.compaction.policy import CompactionPolicy
from tidelog.plugins.storage_file.directories.checkpoints import read_checkpoint, rewrite_checkpoint
from tidelog.plugins.storage_file.testing import (
    PROCESS_ENDS,
    DataFate,
    NameFate,
    PowerCut,
    Recorder,
)

SHORT_STRIDE = 45
STRIDE = int(os.environ.get("TIDELOG_COMPACTION_STRIDE", "18"))
MARKS = (".cleaned", ".swap", ".deleted")
CUTS = [
    PowerCut(data, names, seed)
    for seed, (data, names) in enumerate(itertools.product(DataFate, NameFate))
    if (data, names) != (PROCESS_ENDS.data, PROCESS_ENDS.names)
]
random.Random(0).shuffle(CUTS)
LOSSES = [
    PowerCut(DataFate.LOST, NameFate.LOST),
    PowerCut(DataFate.LOST, NameFate.KEPT),
    PowerCut(DataFate.SCATTERED, NameFate.SOME, seed=1),
]
LAST = (("a=6 f=2", "e=5"), ("b k=3", "n"))
"""What is written after the crash."""
FILLING = " ".join(f"x={number}" for number in range(16))


@attrs.frozen
class Outcome:
    """What is left when the log is compacted once more: offsets of records, and the table of its readers."""

    offsets: Sequence[int]
    table: dict[bytes | None, bytes]


def rewritten(found: Content, before: Content, under_way: Pass) -> list[bool]:
    """Return for each group of which the pass changes anything whether it is rewritten."""
    groups: list[bool] = []
    for start, end in zip(under_way.groups, [*under_way.groups[1:], None], strict=True):
        there, old, new = (each.between(start, end) for each in (found, before, under_way.content))
        assert there in (old, new), f"the group from {start} to {end} is neither as before nor as after"
        if old != new:
            groups.append(there == new)
    return groups


def check_log(core: CompactingCore, recording: Recording, operations: int) -> None:
    """The log after a crash that came after so many operations, and its checkpoint."""
    partition = core.partition
    before, compacted_until, under_way = recording.at(operations)
    found = Content.of(partition.store, recording.case)
    assert [header.base_offset for header in partition.store.headers(0)] == [
        parse_stored(batch).base_offset for batch in found.batches
    ]
    allowed = {compacted_until}
    if under_way is None:
        assert found == before
    else:
        groups = rewritten(found, before, under_way)
        assert groups == sorted(groups, reverse=True), "a later group is rewritten and an earlier one is not"
        if all(groups):
            allowed.add(under_way.until)
    assert (partition.store.rewritten_until(POLICY) or 0) in allowed
    assert checkpointed(core) in allowed
    assert bounds_of(partition) == recording.bounds
    assert tables_of(partition) == recording.tables


def checkpointed(core: CompactingCore) -> int:
    """How far the log is compacted, as the file has it."""
    path = core.data / rewrite_checkpoint(POLICY)
    offsets = read_checkpoint(path) if path.exists() else {}
    return {key.topic: offset for key, offset in offsets.items()}.get(TOPIC, 0)


def check_leftovers(core: CompactingCore) -> None:
    """Nothing is left of a replacement that was interrupted, nor of the old files."""
    assert [path.name for path in core.data.rglob("*") if path.name.endswith(MARKS)] == []


def check_retries(partition: UnifiedLog, writer: Writer) -> None:
    """A producer that sends its last batch again is answered as before."""
    end = partition.log_end_offset
    for name, producer in writer.producers.items():
        if producer.last is not None:
            sent, base_offset = producer.last
            result = partition.append_nowait(bytearray(sent), in_transaction=True)
            assert result.base_offset == base_offset, name
    assert partition.log_end_offset == end


def record_offsets(batches: Sequence[bytes]) -> list[int]:
    """The offsets of all records, those of markers too."""
    return [record.offset for batch in batches for record in records_in(batch, parse_stored(batch))]


async def outcome_of(core: CompactingCore, recording: Recording) -> Outcome:
    """Write and compact more; return what is left."""
    writer = Writer(core, copy.deepcopy(recording.writer.producers))
    await writer.batch(f"{UNDECIDED} commit")
    await writer.segments(*LAST)
    await core.compact(CompactionPolicy())
    partition = core.partition
    assert checkpointed(core) == partition.log_end_offset
    return Outcome(record_offsets(batches_of(partition.store)), final_values(partition, 0))


async def check_crash(
    recording: Recording, moment: Moment, cut: PowerCut, place: Path, expected: Outcome | None, note: str = ""
) -> None:
    """Let the process end or the power fail at a moment, and start again in the directory `place`.

    With `expected` the log is compacted once more, after another start.
    """
    try:
        cut.leave(moment.device, place / "data")
        core = CompactingCore(place, FakeClock(recording.now_ms))
        with Unsynced().installed():
            await core.open()
            check_leftovers(core)
            check_log(core, recording, moment.operations)
            if expected is not None:
                check_retries(core.partition, recording.writer)
                await core.close()
                await core.open()
                check_log(core, recording, moment.operations)
                assert await outcome_of(core, recording) == expected
            core.abandon()
    except BaseException as error:
        error.add_note(
            f"{moment.operations} operations, the last one {moment.last!r:.200}; {note} {cut}; {place}"
        )
        raise
    shutil.rmtree(place)


async def expected_outcome(recording: Recording, place: Path) -> Outcome:
    """What is left when the log is compacted once more after no crash at all."""
    *_, end = moments(recording.start, recording.operations)
    PROCESS_ENDS.leave(end.device, place / "data")
    core = CompactingCore(place, FakeClock(recording.now_ms))
    with Unsynced().installed():
        await core.open()
        expected = await outcome_of(core, recording)
        core.abandon()
    return expected


def sampled_moments(recording: Recording, stride: int) -> Iterator[Moment]:
    """The moments after each `stride` operations; each replaces the one before it."""
    for moment in moments(recording.start, recording.operations):
        if moment.operations % stride == 0:
            yield moment


def name_of(case: Case) -> str:
    return case.name


strides = pytest.mark.parametrize("stride", [SHORT_STRIDE, pytest.param(STRIDE, marks=pytest.mark.long)])


@strides
@pytest.mark.parametrize("case", CASES, ids=name_of)
async def test_the_process_may_end_anywhere_in_a_compaction(place: Path, case: Case, stride: int) -> None:
    recording = await record(place / "recorded", case)
    expected = await expected_outcome(recording, place / "expected")
    tried = 0
    for moment in sampled_moments(recording, stride):
        if replays(moment.last):
            tried += 1
            await check_crash(recording, moment, PROCESS_ENDS, place / str(moment.operations), expected)
    assert tried
    groups = [len(each.groups) for each in recording.passes]
    print(f"{case.name}: {tried} of {len(recording.operations)} operations, {groups} groups in each pass")


async def test_a_first_pass_keeps_the_aborted_transactions_of_the_indexes(place: Path) -> None:
    recording = await record(place / "recorded", CASES[0])
    (only,) = recording.passes
    # Their records go in this pass, and readers that have begun to read these need the entries.
    assert only.content.aborted == recording.content.aborted != []


@strides
@pytest.mark.parametrize("case", CASES, ids=name_of)
async def test_the_power_may_fail_anywhere_in_a_compaction(place: Path, case: Case, stride: int) -> None:
    recording = await record(place / "recorded", case)
    expected = await expected_outcome(recording, place / "expected")
    # With a stride of 1 each pair of fates that may lose something is tried.
    tried = 0
    for moment in sampled_moments(recording, stride):
        for cut in CUTS if stride == 1 else [CUTS[moment.operations // stride % len(CUTS)]]:
            tried += 1
            await check_crash(recording, moment, cut, place / str(moment.operations), expected)
    assert tried
    print(f"{case.name}: {tried} power cuts after {len(recording.operations)} operations")


@strides
async def test_the_power_may_fail_again_while_a_compacted_log_is_recovered(place: Path, stride: int) -> None:
    recording = await record(place / "recorded", CASES[0])
    for first in moments(recording.start, recording.operations):
        if first.operations % (stride * 5):
            continue
        life = place / str(first.operations)
        cut = CUTS[first.operations // stride % len(CUTS)]
        cut.leave(first.device, life / "data")
        core = CompactingCore(life, FakeClock(recording.now_ms))
        recorder = Recorder(core.data)
        with Unsynced().installed(), recorder.installed():
            await core.open()
            recorder.catch_up()
            core.abandon()
        for second in moments(recorder.start, recorder.operations):
            if second.operations % stride == 0:
                again = attrs.evolve(second, operations=first.operations)
                note = f"{second.operations} operations after {cut}"
                crashed = place / f"{first.operations}.{second.operations}"
                await check_crash(recording, again, CUTS[second.operations % len(CUTS)], crashed, None, note)


@pytest.mark.parametrize(
    "cut",
    [LOSSES[0], *(pytest.param(cut, marks=pytest.mark.long) for cut in LOSSES[1:])],
    ids=lambda cut: f"{cut.data.name}-{cut.names.name}",
)
async def test_compaction_removes_nothing_for_the_sake_of_what_the_power_may_take(
    place: Path, cut: PowerCut
) -> None:
    """What is durable of a key stays until something newer of it is durable, too."""
    core = CompactingCore(place / "recorded")
    core.data.mkdir(parents=True)
    recorder = Recorder(core.data)
    with Unsynced().installed(), recorder.installed():
        await core.open()
        await core.create(TOPIC, 1, cleanup_policy="compact")
        writer = Writer(core)
        # So large that nothing fits into one segment with them.
        await writer.segments(("a=1 b=1 c=1", "d=1 e=1", FILLING), ("f=1 a=2", "g=1 b=2", FILLING))
        await core.partition.flush()
        durable_end = core.partition.log_end_offset
        for batch in ("a=3 c=3", "b", "d=3 e=3", "one: f", "g=3"):
            await writer.batch(batch)
            await core.partition.roll()
        await writer.batch("one commit")
        core.abandon()
        await core.open()
        before = newest_offsets(core.partition, durable_end)
        begins = len(recorder.operations)
        await core.compact(CompactionPolicy())
        assert before.items() > newest_offsets(core.partition, durable_end).items()
        recorder.catch_up()
        core.abandon()
    for moment in moments(recorder.start, recorder.operations):
        if moment.operations < begins:
            continue
        cut.leave(moment.device, place / "crashed" / "data")
        again = CompactingCore(place / "crashed")
        with Unsynced().installed():
            await again.open()
            found = newest_offsets(again.partition, None)
            again.abandon()
        lost = {key for key, offset in before.items() if found.get(key, -1) < offset}
        assert not lost, f"after {moment.operations}: {moment.last!r:.200}"
        shutil.rmtree(place / "crashed")
