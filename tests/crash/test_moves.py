"""A partition moves to another log directory while it is written, and a crash comes after any operation.

What was acknowledged is there, once and in order, in one of the two places; and the move can be gone on with.
A sample of the operations is tried; `TIDELOG_MOVE_STRIDE=1` has the long tests try them all.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Generator
from pathlib import Path
from unittest import mock

import attrs
import pytest
import trio

from tests.crash.core import KEYS, Core
from tests.crash.replaying import replays
from tidelog.kernel.config import Config
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.storage.harness import headers_of, read_all
from tidelog.plugins.metadata_kraft.store import KraftMetadata
from tidelog.plugins.storage_file.testing import (
    PROCESS_ENDS,
    DataFate,
    Device,
    NameFate,
    Operation,
    PowerCut,
    Recorder,
)

SHORT_STRIDE = 15
STRIDE = int(os.environ.get("TIDELOG_MOVE_STRIDE", "4"))
BATCHES = 40
MOST_MEANWHILE = 80
"""Batches appended during a move at most: each makes recording slower, and the copy has to catch up."""
CUTS = [
    PowerCut(DataFate.LOST, NameFate.LOST),
    PowerCut(DataFate.LOST, NameFate.KEPT),
    PowerCut(DataFate.SCATTERED, NameFate.SOME, seed=1),
]


class TwoDirectories(Core):
    """Topics in two log directories, the first of which has the metadata log."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        settings: dict[str, object] = {
            "log.dirs": f"{self.data / 'a'},{self.data / 'b'}",
            "num.recovery.threads.per.data.dir": 1,
        }
        self.config = Config.from_mapping(settings, KEYS)

    @property
    def partition(self) -> UnifiedLog:
        return self.topics.get("t").partitions[0].log

    async def move_to(self, name: str) -> None:
        await self.storage.log_directories.move(self.partition.topic_partition, str(self.data / name))
        await self.tasks.run("log-dir-moves")

    @contextlib.contextmanager
    def decided_after(self, end: int) -> Generator[None]:
        """Hold up moves before they are decided until so much was appended, however threads take turns."""
        assign = KraftMetadata.assign_directory

        async def wait_and_assign(
            metadata: KraftMetadata, partition: TopicPartition, directory_id: bytes
        ) -> None:
            while self.partition.log_end_offset < end:
                await trio.lowlevel.checkpoint()
            await assign(metadata, partition, directory_id)

        with mock.patch.object(KraftMetadata, "assign_directory", wait_and_assign):
            yield

    def place_of(self) -> list[str]:
        return [path.parent.name for path in sorted(self.data.glob("?/t-0"))]


@attrs.define
class Promises:
    """Number of operations → the offset below which everything had to be there from then on."""

    appended: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])
    flushed: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])


def at(promises: list[tuple[int, int]], operations: int) -> int:
    return max((end for done, end in promises if done <= operations), default=0)


@attrs.frozen
class Recorded:
    start: Device
    operations: list[Operation]
    begins: int
    promises: Promises


async def record_a_move(place: Path, *, writing: bool = True, flushing: bool = True) -> Recorded:
    core = TwoDirectories(place)
    for name in "ab":
        (core.data / name).mkdir(parents=True)
    recorder, promises = Recorder(core.data), Promises()
    with recorder.installed():
        await core.open()
        await core.create("t", 1)
        for number in range(BATCHES):
            core.partition.append_nowait(make_batch([bytes([number]) * 200]))
        await core.partition.flush()
        core.tasks.run_jobs()
        begins = len(recorder.operations)
        promises.appended.append((begins, BATCHES))
        promises.flushed.append((begins, BATCHES))
        if writing:
            await move_while_writing(core, recorder, promises, flushing)
        else:
            await core.move_to("b")
        recorder.catch_up()
    assert core.place_of() == ["b"]
    core.abandon()
    return Recorded(recorder.start, recorder.operations, begins, promises)


async def move_while_writing(
    core: TwoDirectories, recorder: Recorder, promises: Promises, flushing: bool
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_writing, core, recorder, promises, flushing)
        with core.decided_after(BATCHES + 4):
            await core.move_to("b")
        nursery.cancel_scope.cancel()


async def keep_writing(core: Core, recorder: Recorder, promises: Promises, flushing: bool) -> None:
    partition = core.topics.get("t").partitions[0]
    for _ in range(MOST_MEANWHILE):
        partition.log.append_nowait(make_batch([b"meanwhile" * 20]))
        promises.appended.append((len(recorder.operations), partition.log.log_end_offset))
        end = partition.log.log_end_offset
        if flushing:
            await partition.log.flush()
            promises.flushed.append((len(recorder.operations), end))
        await trio.lowlevel.checkpoint()


async def check(device: Device, cut: PowerCut, place: Path, promised: int, note: str) -> None:
    cut.leave(device, place / "data")
    core = TwoDirectories(place)
    try:
        await core.open()
        offsets = [header.base_offset for header in headers_of(read_all(core.partition.store))]
        assert offsets == list(range(len(offsets)))
        assert len(offsets) >= promised
        assert len(core.place_of()) == 1
        if core.storage.moves_under_way:
            await core.tasks.run("log-dir-moves")
            assert core.place_of() == ["b"]
        core.partition.append_nowait(make_batch([b"afterwards"]))
        # A loss of power may leave a gap, whose offsets are not given out again.
        count = core.partition.log_end_offset
        await core.close()
        await core.open()
        assert core.partition.log_end_offset == count
        await core.close()
    except BaseException as error:
        error.add_note(f"{note}, in {place}")
        raise


def name_of(value: object) -> str:
    return f"{value.data.name}-{value.names.name}" if isinstance(value, PowerCut) else str(value)


strides = pytest.mark.parametrize("stride", [SHORT_STRIDE, pytest.param(STRIDE, marks=pytest.mark.long)])


@strides
async def test_the_process_may_end_at_any_step_of_a_move(place: Path, stride: int) -> None:
    recorded = await record_a_move(place / "recorded")
    device = copy.deepcopy(recorded.start)
    for done, operation in enumerate(recorded.operations, 1):
        device.apply(operation)
        if done < recorded.begins or done % stride or not replays(operation):
            continue
        promised = at(recorded.promises.appended, done)
        await check(device, PROCESS_ENDS, place / str(done), promised, f"after {done}: {operation!r:.200}")


@strides
@pytest.mark.parametrize(
    ("cut", "flushing"),
    [*((cut, True) for cut in CUTS), (CUTS[1], False)],
    ids=name_of,
)
async def test_the_power_may_fail_at_any_step_of_a_move(
    place: Path, cut: PowerCut, flushing: bool, stride: int
) -> None:
    recorded = await record_a_move(place / "recorded", flushing=flushing)
    device = copy.deepcopy(recorded.start)
    for done, operation in enumerate(recorded.operations, 1):
        device.apply(operation)
        if done < recorded.begins or done % (3 * stride):
            continue
        promised = at(recorded.promises.flushed, done)
        await check(device, cut, place / str(done), promised, f"after {done}: {operation!r:.200}")


@pytest.mark.parametrize(
    ("cut", "stride"),
    [(CUTS[0], 5), *(pytest.param(cut, (STRIDE + 1) // 2, marks=pytest.mark.long) for cut in CUTS)],
    ids=name_of,
)
async def test_a_log_that_nobody_flushes_meanwhile_is_durable_where_it_moves_to(
    place: Path, cut: PowerCut, stride: int
) -> None:
    """Without rolls and flushes, only the move itself can bring the end of the copy to the device."""
    recorded = await record_a_move(place / "recorded", writing=False)
    device = copy.deepcopy(recorded.start)
    for done, operation in enumerate(recorded.operations, 1):
        device.apply(operation)
        if done >= recorded.begins and done % stride == 0:
            await check(device, cut, place / str(done), BATCHES, f"after {done}: {operation!r:.200}")
