"""Checking and recompressing the records of a batch: step by step on the event loop, then in a thread.

The event loop checks them itself for a turn, and as long as no other task is ready for further ones, a
fraction of a millisecond each. That is the fastest: a thread has to be woken, finds the processor's caches
cold, and wakes the loop in the end. As soon as other tasks are served, a thread continues. Unpacking releases
the interpreter's lock, and between steps other threads get it too. Two threads at most: each may hold what a
snappy block unpacks to.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import trio

from tidelog.kernel.importing import import_in_thread
from tidelog.kernel.log.memory_budget import MemoryBudget, Unpacking
from tidelog.kernel.log.validation import (
    PartitionConfig,
    recompressed_in_steps,
    validate_at_once,
    validate_in_steps,
)
from tidelog.kernel.pace import ThreadPace
from tidelog.kernel.records.batch import CODEC_MASK, HEADER_BYTES, BatchHeader, Buffer, parse_header
from tidelog.kernel.records.compression import LEAST_MEMORY_BYTES, import_library, is_imported, memory_for
from tidelog.kernel.seams.partition import AppendResult

T = TypeVar("T")

OTHERS_SECONDS = 100e-6
"""A turn of the event loop that takes more of its thread's processor time has served other tasks."""
FIRST_TURN_SECONDS = 1e-3
"""Steps are taken for so long before other tasks are looked at: enough for most batches."""
TURN_SECONDS = 250e-6
"""The same for the further turns; looking at other tasks takes a tenth of that even without any."""
LOOP_MEMORY_BYTES = 4 * 1024 * 1024
"""A batch that takes more to be decompressed is checked in a thread: its steps may be as long."""


class RecordChecks(enum.Enum):
    """What an append does about records that have to be checked one by one."""

    ALL = enum.auto()
    """Check them at once, however long that takes."""
    QUICK = enum.auto()
    """Check them at once if that takes a turn of the event loop."""
    DONE = enum.auto()
    """Do not check them."""


class ChecksTakeLong(Exception):
    """The records of a batch take more than a turn of the event loop to check or to recompress."""

    def __init__(self, header: BatchHeader, steps: Generator[None, None, int] | None = None) -> None:
        """Keep the `header`, which is valid, and the `steps` that are left of checking, None for all."""
        super().__init__()
        self.header = header
        self.steps = steps


class CheckedBatch(NamedTuple):
    """The header of a batch that was validated, and the largest timestamp of its records."""

    header: BatchHeader
    max_timestamp: int


class CheckedAppend(Awaitable[AppendResult]):
    """An append that begins when it is awaited, with checking the records; it does nothing if it never is."""

    __slots__ = ("_run",)

    def __init__(self, run: Callable[[], Awaitable[AppendResult]]) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, Any, AppendResult]:
        return self._run().__await__()


def check_for_a_turn(batch: Buffer, header: BatchHeader, config: PartitionConfig, now_ms: int) -> int:
    """Check the records of a batch for a turn of the event loop.

    See `validate_in_steps` for what is returned and raised.

    Raises:
        ChecksTakeLong: that is not enough.
    """
    # Compressing takes too long for the event loop, so that it is not tried.
    if config.compression is not None and config.recompresses(header):
        raise ChecksTakeLong(header)
    codec = header.attributes & CODEC_MASK
    # The import of a library reads files: `check_records` does it in a thread, before the first batch.
    if codec and not is_imported(codec):
        raise ChecksTakeLong(header)
    newest = validate_at_once(batch, header, config, now_ms)
    if newest is not None:
        return newest
    # After the fast check, which takes small batches only: one step of unpacking may fill all of that memory.
    if _memory_for(batch, header) > LOOP_MEMORY_BYTES:
        raise ChecksTakeLong(header)
    steps = validate_in_steps(batch, header, config, now_ms)
    try:
        _take_for_a_turn(steps, FIRST_TURN_SECONDS)
    except StopIteration as end:
        return cast("int", end.value)
    # The steps go along: what they have checked is not checked again.
    raise ChecksTakeLong(header, steps)


def check_whole_batch(
    batch: bytearray | memoryview, header: BatchHeader, config: PartitionConfig, now_ms: int
) -> tuple[bytearray | memoryview, CheckedBatch]:
    """Check the records of a batch however long that takes, and recompress it if its topic wants that.

    Returns the batch that is to be stored. See `validate_in_steps` for what is raised.
    """
    max_timestamp = finish(validate_in_steps(batch, header, config, now_ms))
    if config.recompresses(header):
        batch = finish(recompressed_in_steps(batch, header, config))
        # Another codec, another length and CRC: what is stamped and stored is the new batch.
        header = parse_header(batch)
    return batch, CheckedBatch(header, max_timestamp)


async def check_rest(
    batch: bytearray | memoryview,
    checks: ChecksTakeLong,
    config: PartitionConfig,
    now_ms: int,
    unpacking: Unpacking,
) -> tuple[bytearray | memoryview, CheckedBatch]:
    """Do what `check_for_a_turn` left, and recompress the batch if its topic wants that.

    Returns the batch that is to be stored. See `validate_in_steps` for what is raised.
    """
    header = checks.header
    steps = checks.steps or validate_in_steps(batch, header, config, now_ms)
    max_timestamp = await check_records(batch, steps, header, unpacking)
    if config.recompresses(header):
        batch = await recompress(batch, header, config, unpacking)
        header = parse_header(batch)
    return batch, CheckedBatch(header, max_timestamp)


async def check_records(
    batch: Buffer, steps: Generator[None, None, int], header: BatchHeader, unpacking: Unpacking
) -> int:
    """Take the steps that are left of checking a batch; see `validate_in_steps`."""
    await import_codec(header.attributes & CODEC_MASK)
    memory_bytes = _memory_for(batch, header)
    return await take_steps(steps, memory_bytes, unpacking, on_event_loop=memory_bytes <= LOOP_MEMORY_BYTES)


async def import_codec(codec_id: int) -> None:
    """Import the library of a codec before its first batch.

    Raises:
        UnsupportedCompression: no plugin offers it.
    """
    if not is_imported(codec_id):
        await import_in_thread(partial(import_library, codec_id))


def _memory_for(batch: Buffer, header: BatchHeader) -> int:
    codec = header.attributes & CODEC_MASK
    return memory_for(codec, memoryview(batch)[HEADER_BYTES:]) if codec else LEAST_MEMORY_BYTES


async def recompress(
    batch: Buffer, header: BatchHeader, config: PartitionConfig, unpacking: Unpacking
) -> bytearray:
    """Recompress a batch whose records were checked; see `recompressed_in_steps`."""
    steps = recompressed_in_steps(batch, header, config)
    memory_bytes = _memory_for(batch, header) + config.max_message_bytes
    # Compressing a piece may take milliseconds.
    return await take_steps(steps, memory_bytes, unpacking, on_event_loop=False)


async def take_steps(
    steps: Generator[None, None, T], memory_bytes: int, unpacking: Unpacking, *, on_event_loop: bool
) -> T:
    """Take all steps while `memory_bytes` are held, and return their result; raises what they raise.

    With `on_event_loop` they are taken there as long as no other task is ready, or else in a thread.
    """
    with closing(steps):
        # A thread before memory, in every task: those that hold memory can then finish and give it back.
        await unpacking.acquire_check()
        try:
            # A thread can wait for memory without holding up the event loop, and checks the batch then.
            if not unpacking.memory.try_hold(memory_bytes):
                return await unpacking.check_in_thread(
                    partial(_wait_and_finish, steps, unpacking.memory, memory_bytes)
                )
            try:
                if on_event_loop:
                    return await _take(steps, unpacking)
                return await unpacking.check_in_thread(partial(finish, steps))
            finally:
                # Before the memory is given back: what was unpacked is freed with the generator.
                steps.close()
                unpacking.memory.release(memory_bytes)
        finally:
            unpacking.checks.release()


async def _take(steps: Generator[None, None, T], unpacking: Unpacking) -> T:
    try:
        while not await _others_were_served():
            _take_for_a_turn(steps, TURN_SECONDS)
    except StopIteration as end:
        return cast("T", end.value)
    return await unpacking.check_in_thread(partial(finish, steps))


def _take_for_a_turn(steps: Generator[None, None, T], seconds: float) -> None:
    end = time.perf_counter() + seconds
    # At least one step in each turn, however late it is.
    next(steps)
    while time.perf_counter() < end:
        next(steps)


async def _others_were_served() -> bool:
    # Not the time on the clock: on a busy machine other processes take most of that.
    before = time.thread_time()
    await trio.lowlevel.checkpoint()
    return time.thread_time() - before > OTHERS_SECONDS


def _wait_and_finish(steps: Generator[None, None, T], memory: MemoryBudget, memory_bytes: int) -> T:
    # In this order, so that the steps are closed before the memory is given back.
    with memory.hold(memory_bytes), closing(steps):
        return finish(steps)


def finish(steps: Generator[None, None, T]) -> T:
    """Take all steps at once; return their result."""
    pace = ThreadPace()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)
        pace.turn()
