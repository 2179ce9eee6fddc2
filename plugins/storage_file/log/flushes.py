"""Making segments durable: all of them, those that take no more appends, or all for good at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.plugins.storage_file.directories.failures import FULL
from tidelog.plugins.storage_file.disk_errors import telling

if TYPE_CHECKING:
    from tidelog.plugins.storage_file.log.open_log import OpenLog
    from tidelog.plugins.storage_file.segments.log_segments import SegmentList
    from tidelog.plugins.storage_file.segments.segment import Segment


def flush_all(log: OpenLog, *, growing: bool) -> int:
    """Blocking: make the whole log durable; the offset up to which it is. See `Durability.flush`.

    Raises:
        OSError: the disk refused, now or at an earlier flush.
    """
    return _flush(log, lambda segments: segments.all, growing=growing)


def flush_inactive(log: OpenLog) -> None:
    """Blocking: make durable what takes no more appends.

    Raises:
        OSError: as for `flush_all`.
    """
    _flush(log, lambda segments: segments.all[:-1], growing=False)


@telling
def _flush(log: OpenLog, choose: Callable[[SegmentList], Sequence[Segment]], *, growing: bool) -> int:
    with log.changing:
        # All of the same log: it may go on as its copy in another directory at any moment.
        segments, directory, durability = log.segment_list, log.directory, log.durability
        try:
            _finish_inactive(log)
        except OSError as error:
            # A full disk is no reason to fail a flush; there may be room at the next one.
            if error.errno not in FULL:
                raise
    try:
        return durability.flush(lambda: choose(segments), directory, growing=growing)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and log.directory != directory:
            # The partition has moved to another log directory meanwhile.
            return _flush(log, choose, growing=growing)
        # The next append learns of it.
        log.append_carefully_next()
        raise


def _finish_inactive(log: OpenLog) -> None:
    """Blocking: finish what became inactive, while no other segment takes its names."""
    if log.has_failed or log.durability.is_retired:
        # Its files have other names now, or belong to a new partition of its name.
        return
    for segment in log.segment_list.all[:-1]:
        segment.finish()


def close_files(log: OpenLog) -> None:
    """Blocking: leave the files as a clean stop does, and let go of them.

    Raises:
        OSError: as for `flush_all`.
    """
    active = log.segment_list.active
    if log.touched:
        active.close_indexes()
        active.trim_log()
        active.indexes_durable = False
        log.touched = False
    with log.changing:
        _finish_inactive(log)
    log.spare.remove(log.directory)
    flush_all(log, growing=False)
    log.sleep()
