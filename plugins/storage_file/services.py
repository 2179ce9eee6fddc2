"""Services that a storage provides to the logs of one log directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog.kernel.seams.storage.load_progress import LogLoadProgress
from tidelog.plugins.storage_file.indexes.formats import IndexFormats


class Services(NamedTuple):
    """Services of one log directory: `now_ms` is the clock, `in_thread(name, job)` runs a job in a thread.

    `delete_later(paths, delay_ms)` removes files or whole directories after a delay; any thread may call it.
    `release_idle` closes files that were not used lately, for when a descriptor reaches `descriptor_budget`;
    called off the event loop, it is done there soon. `index_formats` are those that a topic may have,
    `progress` shows how far opening is. `write_recovery_points()`,
    `write_log_starts()` and `write_rewritten()` block until the checkpoints of the log directory have those
    of its partitions. `disk_failed(error)`
    reports that the disk refused an operation; any thread may call it.
    """

    now_ms: Callable[[], int]
    in_thread: Callable[[str, Callable[[], object]], None]
    delete_later: Callable[[Sequence[str], int], None]
    release_idle: Callable[[], None]
    descriptor_budget: int
    write_recovery_points: Callable[[], None]
    write_log_starts: Callable[[], None]
    write_rewritten: Callable[[], None]
    disk_failed: Callable[[OSError], None]
    index_formats: IndexFormats
    progress: LogLoadProgress
