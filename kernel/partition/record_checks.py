"""Where the records inside a batch are gone through: at once, step by step, in a thread, or not again.

As long as nobody else wants anything, the event loop goes through them itself, a fraction of a millisecond
in each of its turns. That is soonest done: a thread has to be woken, finds the processor's caches cold, and
wakes the loop in the end. As soon as others want to be served, a thread goes on with it. Unpacking lets go of
the interpreter's lock, and between steps others get it too. Two threads at most: each may hold what a
snappy block unpacks to.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from functools import partial
from typing import cast

import trio

from tidelog.kernel.partition.config import PartitionConfig
from tidelog.kernel.partition.unpacking import MemoryBudget, Unpacking, let_others_run
from tidelog.kernel.partition.validation import validate_in_steps
from tidelog.kernel.records.batch import CODEC_MASK, HEADER_BYTES, BatchHeader, Buffer
from tidelog.kernel.records.unpacking import comes_in_pieces, memory_for

OTHERS_SECONDS = 100e-6
"""A turn of the event loop that takes longer has served somebody else."""
HOLD_SECONDS = 200e-6
"""How long a thread keeps others from the interpreter's lock, and a step: letting go of it takes a while."""


async def check_records(
    batch: Buffer, header: BatchHeader, config: PartitionConfig, now_ms: int, unpacking: Unpacking
) -> int:
    """Check the records of a batch; see `validate_in_steps` for what is returned and raised."""
    steps = validate_in_steps(batch, header, config, now_ms)
    codec = header.attributes & CODEC_MASK
    memory_bytes = memory_for(codec, memoryview(batch)[HEADER_BYTES:])
    async with unpacking.checks:
        with closing(steps):
            if not unpacking.memory.try_hold(memory_bytes):
                return await unpacking.check_in_thread(
                    partial(_wait_and_finish, steps, unpacking.memory, memory_bytes)
                )
            try:
                return await _take(steps, codec, unpacking)
            finally:
                steps.close()
                unpacking.memory.release(memory_bytes)


async def _take(steps: Generator[None, None, int], codec: int, unpacking: Unpacking) -> int:
    """Take the steps here as long as nobody else wants the event loop."""
    if comes_in_pieces(codec):
        try:
            next(steps)
            while not await _others_were_served():
                next(steps)
        except StopIteration as end:
            return cast("int", end.value)
    return await unpacking.check_in_thread(partial(_finish, steps))


async def _others_were_served() -> bool:
    before = time.perf_counter()
    await trio.lowlevel.checkpoint()
    return time.perf_counter() - before > OTHERS_SECONDS


def _wait_and_finish(steps: Generator[None, None, int], memory: MemoryBudget, memory_bytes: int) -> int:
    with memory.hold(memory_bytes), closing(steps):
        return _finish(steps)


def _finish(steps: Generator[None, None, int]) -> int:
    since = time.perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("int", end.value)
        if time.perf_counter() - since > HOLD_SECONDS:
            let_others_run()
            since = time.perf_counter()
