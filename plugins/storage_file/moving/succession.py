"""A copy takes the place of its log: from keeping it equal to going on under the log's name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.log.side_files import SideFiles
from tidelog.plugins.storage_file.moving.mirror import Mirror

if TYPE_CHECKING:
    from tidelog.plugins.storage_file.log.open_log import OpenLog
    from tidelog.plugins.storage_file.partition_store import FilePartitionStore
    from tidelog.plugins.storage_file.services import Services


def keep_mirror(
    log: OpenLog, copy: FilePartitionStore, on_broken: Callable[[], object] = lambda: None
) -> None:
    """Change `copy`, which has all that is in the log, along with it from now on; see `Mirror`."""
    log.mirror = Mirror(copy, on_broken)
    log.append_carefully_next()


def copy_side_files(log: OpenLog) -> None:
    """Blocking: give the mirror's copy the side files of the log, and no others.

    Raises:
        OSError: a disk refused.
    """
    mirror = log.mirror
    if mirror is None:
        return
    with log.writing_beside:
        # One that was being written when the mirror came is not in the copy, and is named only now.
        names = log.files_beside.names()
    for name in names:
        with log.writing_beside:
            content = log.files_beside.read(name)
            if content is not None:
                mirror.copy.write_side_file(name, content)
    with log.writing_beside:
        for name in set(mirror.copy.files_beside.names()) - set(log.files_beside.names()):
            mirror.copy.delete_side_file(name, durable=True)


def become_copy(log: OpenLog, directory: str, services: Services) -> bool:
    """Go on as the mirror's copy, under its final name `directory`; False when now is no good time.

    Called on the event loop, so that it comes between two appends.

    Raises:
        OSError: the disk refused the name; nothing has changed.
    """
    mirror = log.mirror
    if mirror is None or mirror.broken:
        return False
    with contextlib.ExitStack() as stack:
        for lock in (log.changing, mirror.copy.changing, log.writing_beside):
            if not lock.acquire(blocking=False):
                return False
            stack.callback(lock.release)
        disk.rename(mirror.copy.directory, directory)
        _take_over(log, mirror.copy, directory, services)
    return True


def _take_over(log: OpenLog, copy: OpenLog, directory: str, services: Services) -> None:
    for segment in copy.segment_list.all:
        place = IndexPlace(directory, segment.base_offset)
        segment.index.relocate(place)
        segment.place = segment.aborted.place = place
    copy.durability.parent_changed()
    log.start_offset = max(log.start_offset, copy.start_offset)
    log.segment_list, log.durability, log.policy = copy.segment_list, copy.durability, copy.policy
    log.spare.close()
    log.spare = copy.spare
    log.files_beside = SideFiles(directory, copy.files_beside.names())
    # Jobs that the copy has begun go on under the new name.
    log.directory = copy.directory = directory
    log.services = services
    log.mirror = None
    log.touched = True
    log.changes += 1
