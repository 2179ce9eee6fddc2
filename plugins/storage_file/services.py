"""What the partitions of one storage share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog.kernel.load_progress import LoadProgress
from tidelog.plugins.storage_file.indexes.formats import IndexFormats


class Services(NamedTuple):
    """`now_ms` is the clock; `in_thread(name, job)` runs a job soon, off the event loop.

    `delete_later(paths, delay_ms)` removes files or whole directories after a while; any thread may call it.
    `release_idle` closes what was not used lately, for when a descriptor reaches `descriptor_budget`; called
    off the event loop, it is done there soon.
    `index_formats` are those that a topic may have. `progress` is told how far opening is.
    Of the partition's log directory: `write_recovery_points()` blocks until those of its partitions are
    written down, where they have changed; `disk_failed(error)` tells that the disk refused what it must not
    refuse, and may be called by any thread.
    """

    now_ms: Callable[[], int]
    in_thread: Callable[[str, Callable[[], object]], None]
    delete_later: Callable[[Sequence[str], int], None]
    release_idle: Callable[[], None]
    descriptor_budget: int
    write_recovery_points: Callable[[], None]
    disk_failed: Callable[[OSError], None]
    index_formats: IndexFormats
    progress: LoadProgress
