"""Opening, recovering and searching logs in files, without a broker."""

from __future__ import annotations

import gc
import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from benchmarks.procfs import resident_bytes
from tidelog.kernel.seams.storage import WouldBlock

from .stored_log import batch_of, fill, stored_logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.kernel.seams.storage import PartitionStore

_BATCH_BYTES = 16_384
_BATCHES_PER_SEGMENT = 4


@attrs.frozen
class OpenSpec:
    """A log of `segments` segments that look `segment_bytes` long, in `folder`, with that index format."""

    folder: str
    segments: int
    segment_bytes: int
    index_format: str = "sparse"


@attrs.frozen
class OpenResult:
    """Seconds to open it after a clean stop, and the memory that each segment takes from then on."""

    seconds: float
    bytes_per_segment: float
    log_bytes: int


def open_log(spec: OpenSpec) -> OpenResult:
    """Make the log, close it, and open it again."""
    trio.run(_make_segments, spec)
    if spec.index_format == "sparse":
        _extend_segments(spec)
    return trio.run(_open, spec)


async def _make_segments(spec: OpenSpec) -> None:
    async with stored_logs(spec.folder, segment_bytes=_BATCHES_PER_SEGMENT * _BATCH_BYTES) as logs:
        store = (await logs.open())[0]
        fill(store, batch_of(_BATCH_BYTES), spec.segments * _BATCHES_PER_SEGMENT)


def _extend_segments(spec: OpenSpec) -> None:
    """Make all segments but the last look long: nobody reads what lies inside one that was closed."""
    for path in sorted(Path(spec.folder, "log-0").glob("*.log"))[:-1]:
        os.truncate(path, max(spec.segment_bytes, path.stat().st_size))


async def _open(spec: OpenSpec) -> OpenResult:
    async with stored_logs(spec.folder, index_format=spec.index_format, stop=False) as logs:
        gc.collect()
        before = resident_bytes(os.getpid())
        start = time.perf_counter()
        store = (await logs.open())[0]
        seconds = time.perf_counter() - start
        gc.collect()
        grown = resident_bytes(os.getpid()) - before
        size = sum(view.size_bytes for view in store.segments())
        return OpenResult(seconds, grown / len(store.segments()), size)


@attrs.frozen
class RecoverSpec:
    """`logs` logs of `log_bytes` each, in batches of `batch_bytes`, without the mark of a clean stop."""

    folder: str
    logs: int
    log_bytes: int
    batch_bytes: int = _BATCH_BYTES


@attrs.frozen
class RecoverResult:
    """What was scanned, and how long that took."""

    bytes: int
    seconds: float


def recover(spec: RecoverSpec) -> RecoverResult:
    """Make the logs, leave them as a crash would, and open them again."""
    trio.run(_abandon, spec)
    return trio.run(_recover, spec)


async def _abandon(spec: RecoverSpec) -> None:
    async with stored_logs(spec.folder, stop=False, segment_bytes=1 << 28) as logs:
        batch = batch_of(spec.batch_bytes)
        for store in await logs.open(spec.logs):
            fill(store, batch, spec.log_bytes // len(batch))


async def _recover(spec: RecoverSpec) -> RecoverResult:
    async with stored_logs(spec.folder, stop=False, segment_bytes=1 << 28) as logs:
        start = time.perf_counter()
        stores = await logs.open(spec.logs)
        seconds = time.perf_counter() - start
        return RecoverResult(sum(store.size_bytes for store in stores), seconds)


@attrs.frozen
class LookUpSpec:
    """Look `times` times for anything in a log of `log_bytes`."""

    folder: str
    log_bytes: int
    times: int
    index_format: str = "sparse"


@attrs.frozen
class LookUpResult:
    """Microseconds of one look-up, warm: the median of runs of a hundred."""

    by_offset: float
    by_time: float


def look_up(spec: LookUpSpec) -> LookUpResult:
    """Read one batch at random offsets, and find random timestamps."""
    return trio.run(_look_up, spec)


async def _look_up(spec: LookUpSpec) -> LookUpResult:
    async with stored_logs(spec.folder, index_format=spec.index_format, stop=False) as logs:
        store = (await logs.open())[0]
        batch = batch_of(_BATCH_BYTES)
        start_ms = time.time_ns() // 1_000_000
        fill(store, batch, spec.log_bytes // len(batch), step_ms=1)
        dice = random.Random(1)
        end = store.log_end_offset
        offsets = [dice.randrange(end) for _ in range(spec.times)]
        by_offset = _median_microseconds(lambda offset: _read(store, offset, end), offsets)
        by_time = _median_microseconds(
            lambda offset: store.batch_at_timestamp(start_ms + offset), offsets[: spec.times // 10]
        )
        return LookUpResult(by_offset, by_time)


def _read(store: PartitionStore, offset: int, end: int) -> None:
    try:
        store.read_batches(offset, 1, end)
    except WouldBlock:
        store.read_batches(offset, 1, end, wait=True)


def _median_microseconds(look: Callable[[int], object], offsets: list[int]) -> float:
    for offset in offsets[:100]:
        look(offset)
    runs: list[float] = []
    for at in range(0, len(offsets), 100):
        some = offsets[at : at + 100]
        start = time.perf_counter()
        for offset in some:
            look(offset)
        runs.append((time.perf_counter() - start) / len(some) * 1e6)
    return sorted(runs)[len(runs) // 2]
