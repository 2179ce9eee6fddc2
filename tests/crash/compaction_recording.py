"""A recording of every file operation of a compaction, and of what the log is after each pass."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import attrs

from tests.crash.compacting import POLICY, TOPIC, CompactingCore, SomeKeysAtATime
from tests.crash.interposers import Unsynced
from tests.crash.keyed_log import Writer, final_values
from tests.crash.logs import batches_of
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.stored import parse_stored
from tidelog.kernel.seams.storage import AbortedTransaction, PartitionStore
from tidelog.plugins.cleaner.compaction.policy import CompactionPolicy
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.testing import (
    Device,
    Operation,
    Recorder,
)
from tidelog.plugins.storage_file.testing.operations import SyncDirectory, SyncFile

READ_FROM = 7
"""Readers begin at each offset of which this is a divisor."""
UNDECIDED = "undecided"
"""The producer whose transaction is open all the time."""
FIRST = (
    ("a=1 b=1 c=1", "idle, i=1 k=1"),
    ("one: a=2 d=1 x=1", "b=2"),
    ("two: c", "e=1 x=2", "one commit"),
    # Of all these nothing is left.
    ("x=3 x=4 x=5 x=6 x=7 x=8", "x=9 x=10 x=11 x=12"),
    ("x=13 x=14 x=15 x=16 x=17", "x=18 x=19 x=20 x=21 x=22"),
    ("two: e c=2 f=1", "three: g=1 h=1"),
    ("two abort", "b k=2", "three: a=3"),
    ("one: d=2", "three commit", "one: h"),
    ("g", "one abort", "x=23", "i=2 l=1"),
    ("one: m=1", "three: a=4 m=2", "one commit", "three abort", "n=1 o=1 p=1"),
)
"""Segments with updates, tombstones, and transactions that end in other segments than they begin in."""
OLD = (
    ("0 0: a=1 b=1 c", "0 1: a=2 d=1 e=1 f", "1 0: g=1 h"),
    ("1 1: b=2 k=1 l=1 m=1 k=2", "1 3: d n=1 x=1", "0 3: x=2 e=2"),
    # Of these nothing is left.
    ("0 0: x=3 x=4", "1 2: x=5 x=6 x=7"),
    ("1 2: x=8 c=2 l=2", "0 2: a=3 i=1", "1 0: i=2"),
)
"""Segments with messages of old formats: each format with each codec."""
SECOND = (
    ("a=5", "c=3 m", "two: n=2 f"),
    ("two commit", "e=2 e=3 e=4", "three: l"),
    ("b=3 o=2", "three commit", "g=2 h=2", "one: p"),
    ("one abort", "k", "x=24 i=3"),
)


@attrs.frozen
class Content:
    """The batches of a log, and the aborted transactions in its transaction indexes, unless it is recovered.

    Then they are built again, without the transactions of which nothing but the marker is left.
    """

    batches: Sequence[bytes]
    aborted: Sequence[AbortedTransaction]

    @classmethod
    def of(cls, store: PartitionStore, case: Case) -> Content:
        """Return the content of a log."""
        aborted = () if case.recovered else store.aborted_transactions(0, store.log_end_offset, wait=True)
        return cls(batches_of(store), list(aborted))

    def between(self, start: int, end: int | None) -> Content:
        """Return what begins at `start` or above, and below `end` if that is given."""

        def is_there(offset: int) -> bool:
            return start <= offset and (end is None or offset < end)

        return Content(
            [batch for batch in self.batches if is_there(parse_stored(batch).base_offset)],
            [each for each in self.aborted if is_there(each.last_offset)],
        )


@attrs.frozen
class Pass:
    """One pass of a compaction, whose checkpoint is durable after `operations` operations.

    `groups` begin at these base offsets; `content` is that of the log afterwards.
    """

    operations: int
    groups: Sequence[int]
    content: Content
    until: int


@attrs.define
class Recording:
    """The operations of a compaction, and the log that they begin with, all of which is durable."""

    case: Case
    start: Device
    operations: list[Operation]
    content: Content
    until: int
    passes: list[Pass]
    writer: Writer
    tables: dict[int, dict[bytes | None, bytes]]
    bounds: tuple[int, ...]
    now_ms: int

    def at(self, operations: int) -> tuple[Content, int, Pass | None]:
        """Return the log before the pass that is under way, how far it is compacted then, and the pass."""
        content, until = self.content, self.until
        for each in self.passes:
            if operations < each.operations:
                return content, until, each
            content, until = each.content, each.until
        return content, until, None


@attrs.frozen
class Case:
    """A log that is compacted, and whether it is recovered after a crash, or opened as it is.

    `old`: it has messages of the formats 0 and 1, and few batches.
    """

    name: str
    policy: CompactionPolicy
    again: bool
    recovered: bool
    old: bool = False


CASES = (
    Case("first", CompactionPolicy(), again=False, recovered=False),
    Case("again", CompactionPolicy(), again=True, recovered=True),
    Case("passes", SomeKeysAtATime(6), again=True, recovered=False),
    Case("old", CompactionPolicy(), again=False, recovered=True, old=True),
)


async def record(place: Path, case: Case) -> Recording:
    """Compact a log, remove the old files, and stop."""
    core = CompactingCore(place)
    core.data.mkdir(parents=True)
    recorder = Recorder(core.data)
    with Unsynced().installed(), recorder.installed():
        writer = await write(core, case)
        recorder.catch_up()
        partition, begins = core.partition, len(recorder.operations)
        recording = Recording(
            case=case,
            start=durable(recorder.start, recorder.operations),
            operations=[],
            content=Content.of(partition.store, case),
            until=partition.store.rewritten_until(POLICY) or 0,
            passes=[],
            writer=writer,
            tables=tables_of(partition),
            bounds=bounds_of(partition),
            now_ms=core.clock(),
        )
        begun: list[Sequence[int]] = []
        checkpoint = FilePartitionStore.set_rewritten_until

        def note(store: FilePartitionStore, policy: str, offset: int) -> None:
            groups = [bases[0] for bases in begun]
            begun.clear()
            checkpoint(store, policy, offset)
            done = len(recorder.operations) - begins
            recording.passes.append(Pass(done, groups, Content.of(store, case), offset))

        with mock.patch.object(FilePartitionStore, "set_rewritten_until", note):
            await core.compact(case.policy, begun)
        await core.tasks.run("delete segment files")
        await core.close()
        recorder.catch_up()
    recording.operations += recorder.operations[begins:]
    return recording


async def write(core: CompactingCore, case: Case) -> Writer:
    """Write a log that is to be compacted."""
    await core.open()
    await core.create(TOPIC, 1, cleanup_policy="compact")
    writer = Writer(core)
    if case.old:
        await writer.messages(*OLD)
    await writer.segments(*(FIRST[-1:] if case.old else FIRST))
    if case.again:
        await core.compact(CompactionPolicy())
        await writer.segments(*SECOND)
    await writer.batch(f"{UNDECIDED}: a=undecided q=undecided")
    if not case.recovered:
        await core.close()
        await core.open()
    return writer


def durable(start: Device, operations: Sequence[Operation]) -> Device:
    """The device after operations and a sync of everything."""
    device = copy.deepcopy(start)
    for operation in operations:
        device.apply(operation)
    for node in device.files:
        device.apply(SyncFile(node))
    for node in device.directories:
        device.apply(SyncDirectory(node))
    return device


def tables_of(partition: UnifiedLog) -> dict[int, dict[bytes | None, bytes]]:
    """Offset → the table of a reader that begins there."""
    return {
        offset: final_values(partition, offset)
        for offset in range(partition.log_start_offset, partition.last_stable_offset, READ_FROM)
    }


def bounds_of(partition: UnifiedLog) -> tuple[int, ...]:
    """Where a log begins, where it is stable, and where it ends."""
    return partition.log_start_offset, partition.last_stable_offset, partition.log_end_offset


@attrs.frozen
class Moment:
    """After `operations` operations: what is on the device."""

    operations: int
    last: Operation | None
    device: Device


def moments(start: Device, operations: Sequence[Operation]) -> Iterator[Moment]:
    """The moment before the first operation, and that after each; each replaces the one before it."""
    device = copy.deepcopy(start)
    yield Moment(0, None, device)
    for done, operation in enumerate(operations, 1):
        device.apply(operation)
        yield Moment(done, operation, device)
