"""A clean stop: partitions are closed, and in the end directories get a clean shutdown file.

Each step returns what failed instead of raising, so that the rest is closed too. What a full disk refuses is
no failure: its directory is not marked clean, and the next start recovers it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from tidelog.kernel import disk

if TYPE_CHECKING:
    from tidelog.kernel.seams.storage import TopicPartition
    from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
    from tidelog.plugins.storage_file.partition_store import FilePartitionStore

_log = logging.getLogger(__name__)

Job: TypeAlias = Callable[[], None]


async def run_by_directory(jobs: Iterable[tuple[LogDirectory | None, Job]], threads: int) -> None:
    """Run blocking jobs, at most `threads` at once for each directory, and as many for those without one."""
    by_directory: dict[LogDirectory | None, list[Job]] = {}
    for directory, job in jobs:
        by_directory.setdefault(directory, []).append(job)
    async with trio.open_nursery() as nursery:
        for mine in by_directory.values():
            # Not the threads that everything else shares: those are few, and may be busy.
            limiter = trio.CapacityLimiter(threads)
            for number in range(min(threads, len(mine))):
                nursery.start_soon(_run_all, mine[number::threads], limiter)


async def _run_all(jobs: Sequence[Job], limiter: trio.CapacityLimiter) -> None:
    def run() -> None:
        for job in jobs:
            job()

    await trio.to_thread.run_sync(run, limiter=limiter)


async def close_stores(directories: Sequence[LogDirectory], threads: int) -> list[str]:
    """Close every partition, however many of them fail; return what failed."""
    errors: list[str] = []

    def close(directory: LogDirectory, store: FilePartitionStore) -> None:
        try:
            store.close()
        except OSError as error:
            directory.failed = True
            _note(errors, store.directory, error)

    stores = ((each, store) for each in directories for store in each.stores.values())
    await run_by_directory([(each, partial(close, each, store)) for each, store in stores], threads)
    return sorted(errors)


def mark_clean(
    directories: Sequence[LogDirectory],
    high_watermarks: Callable[[], Mapping[TopicPartition, int]],
    broker_epoch: int,
) -> list[str]:
    """Blocking: write high watermarks and clean shutdown files where all was closed; return what failed."""
    errors: list[str] = []
    for directory in directories:
        if directory.failed:
            continue
        try:
            directory.write_high_watermarks(high_watermarks())
            directory.mark_clean(broker_epoch)
        except OSError as error:
            _note(errors, str(directory.path), error)
    return errors


def _note(errors: list[str], what: str, error: OSError) -> None:
    """Add what failed to `errors`; what a full disk refused is only logged."""
    if disk.is_full(error):
        _log.warning("%s could not be closed cleanly, the next start recovers it: %s", what, error)
    else:
        errors.append(f"{what}: {error}")
