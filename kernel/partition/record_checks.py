"""Where the records inside a batch are gone through: at once, in a thread, or not again.

Unpacking lets go of the interpreter's lock, going through records does not; so the thread lets others have it
every fraction of a millisecond. Two threads at most: each may hold what a batch unpacks to.
"""

from __future__ import annotations

import enum
import time
from functools import partial

import trio

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.partition.validation import validate_records
from tidelog.kernel.records.batch import BatchHeader, Buffer

THREADS = 2
_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("record checks")


class RecordChecks(enum.Enum):
    """What an append does about the records of a compressed batch, or of a compacted topic."""

    ALL = enum.auto()
    QUICK = enum.auto()
    DONE = enum.auto()


async def check_in_thread(batch: Buffer, header: BatchHeader, config: TopicConfig) -> None:
    """See `validate_records`, which says what is raised."""
    check = partial(validate_records, batch, header, config, breathe=_let_others_go_on)
    await trio.to_thread.run_sync(check, limiter=_shared_limiter())


def _let_others_go_on() -> None:
    time.sleep(0)


def _shared_limiter() -> trio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
        return limiter
