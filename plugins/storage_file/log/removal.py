"""Taking segments away: cutting the log's end, deleting its beginning, putting others in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.errors import LogBusy
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.disk_errors import telling
from tidelog.plugins.storage_file.log.operations import Operation
from tidelog.plugins.storage_file.log.replacement import Replacement
from tidelog.plugins.storage_file.names import DELETED_SUFFIX
from tidelog.plugins.storage_file.segments.creation import create_segment

if TYPE_CHECKING:
    from tidelog.kernel.seams.storage import SegmentDraft
    from tidelog.plugins.storage_file.log.open_log import OpenLog
    from tidelog.plugins.storage_file.segments.segment import Segment


@telling
def truncate_to(log: OpenLog, offset: int) -> None:
    """See `PartitionStore.truncate_to`."""
    log.check()
    if offset >= log.log_end_offset:
        return
    with log.operations.during(Operation.TRUNCATE):
        _truncate(log, offset)


def _truncate(log: OpenLog, offset: int) -> None:
    log.touched = True
    # The move that kept it equal to the log was aborted.
    log.mirror = None
    # Of the segment that is cut nothing counts as durable from now on, and that is written down first: so
    # what is appended in place of what goes will be checked after a crash.
    lowest = min(offset, log.segment_list.from_offset(offset)[0].base_offset)
    with log.taking_away(), log.durability.cutting(lowest):
        log.services.write_recovery_points()
        _cut(log, offset)
        log.durability.sync_cut(log.segment_list.active)
    disk.sync_directory(log.directory)


def _cut(log: OpenLog, offset: int) -> None:
    if offset < log.first_segment_offset:
        new = create_segment(log.directory, offset, log.segment_settings())
        log.durability.files_created()
        dropped = log.segment_list.begin_anew(new)
    else:
        dropped = log.segment_list.take_after(offset)
    # The newest goes first: a crash in between leaves no hole.
    for segment in reversed(dropped):
        segment.remove_files()
    log.segment_list.active.truncate_to(offset)
    log.start_offset = min(log.start_offset, log.log_end_offset)


@telling
def delete_segments_before(log: OpenLog, offset: int) -> int:
    """See `PartitionStore.delete_segments_before`."""
    log.check()
    try:
        deletion = log.operations.begin(Operation.DELETE)
    except LogBusy:
        # Closed or deleted: there is nothing left to delete from.
        return 0
    try:
        count = _delete_before(log, offset)
        if count:
            log.operations.inform(deletion, 0, log.log_start_offset)
        return count
    finally:
        log.operations.end(deletion)


def _delete_before(log: OpenLog, offset: int) -> int:
    with log.taking_away():
        taken = log.segment_list.take_before(offset)
        for index, segment in enumerate(taken):
            try:
                _mark_deleted(log, segment)
            except OSError:
                for kept in taken[index:]:
                    kept.removed = False
                log.segment_list.put_back(taken[index:])
                raise
        if taken:
            disk.sync_directory(log.directory)
        return len(taken)


def _mark_deleted(log: OpenLog, segment: Segment) -> None:
    segment.removed = True
    renamed: list[str] = []
    for suffix in segment.suffixes:
        path = segment.path(suffix)
        try:
            disk.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            continue
        renamed.append(path + DELETED_SUFFIX)
    log.services.delete_later(renamed, log.config.file_delete_delay_ms)


@telling
def replace_segments(log: OpenLog, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
    """See `PartitionStore.replace_segments`."""
    log.check()
    log.drafts.check(drafts)
    with log.operations.during(Operation.REPLACE) as replacing:
        mine = log.drafts.check(drafts)
        replacement = Replacement(log.directory, log.segment_list, mine, replaced)
        log.drafts.check_up_to_date(mine, replacement.start_offset, replacement.end_offset)
        # Their files are renamed from here on, or removed.
        log.drafts.use(mine)
        with log.taking_away():
            replacement.prepare()
            _complete(log, replacement)
        log.operations.inform(replacing, replacement.start_offset, replacement.end_offset)


def _complete(log: OpenLog, replacement: Replacement) -> None:
    try:
        replacement.complete(lambda segment: _mark_deleted(log, segment))
    except OSError as error:
        log.durability.fail(error)
        log.append_carefully_next()
        raise
