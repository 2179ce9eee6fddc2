"""The renames that put rewritten segments in the place of others; a crash leaves all old or all new ones.

    1  the new files are complete and on the device, as `.cleaned`
    2  `.cleaned` → `.swap`, the highest base offset first; the last of these renames decides
    3  the old files → `.deleted`
    4  `.swap` → no mark, the lowest base offset first, and of a segment its `.log` first

At the next start (`resolve`): a `.swap` at or above a `.cleaned` was not decided, both are removed; without
`.cleaned` it was, and the rest is done. The range of the `.swap` segments says what they replace. Where old
segments lie wholly behind the last new batch, an empty `.log` of their base offset stands for them; it is
removed at the end, unless there is no segment in front of it.
Apache Kafka does the same in `LocalLog.replaceSegments` and resolves it in `LogLoader`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable

from tidelog.kernel import disk
from tidelog.plugins.storage_file.log_file import LogFile, iter_headers
from tidelog.plugins.storage_file.names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    base_offset_of,
    segment_file,
)

_log = logging.getLogger(__name__)

_LOG_SWAP = LOG_SUFFIX + SWAP_SUFFIX


def stand_ins(old: Collection[int], end_offset: int) -> list[int]:
    """Return the base offsets of old segments that need an empty `.log`: those behind the new batches."""
    return [base for base in old if base >= end_offset]


def decide(directory: str, bases: Iterable[int]) -> None:
    """Blocking: step 2 for the segments at `bases`, whose `.cleaned` files are on the device.

    Raises:
        OSError: the disk refused; `undo` reverts what was begun, or else the next start does.
    """
    names = _marked(directory, bases, CLEANED_SUFFIX)
    for name in sorted(names, key=_order, reverse=True):
        plain = name.removesuffix(CLEANED_SUFFIX)
        disk.rename(f"{directory}/{name}", f"{directory}/{plain}{SWAP_SUFFIX}")
    # The decision has to be durable before the caller renames any of the old files.
    disk.sync_directory(directory)


def undo(directory: str, bases: Iterable[int]) -> None:
    """Blocking: remove what `decide` did not complete.

    Raises:
        OSError: the disk refused; the next start does it.
    """
    chosen = set(bases)
    # `.swap` first: without any `.cleaned` beside them, those would count as decided.
    for mark in (SWAP_SUFFIX, CLEANED_SUFFIX):
        names = _marked(directory, chosen, mark)
        _remove(directory, set(names), names)
        disk.sync_directory(directory)


def finish(directory: str, bases: Iterable[int]) -> None:
    """Blocking: step 4 for the segments at `bases`, when the old ones are `.deleted`.

    Raises:
        OSError: the disk refused; the next start finishes.
    """
    names = _names_in(directory)
    chosen = set(_marked(directory, bases, SWAP_SUFFIX))
    others = {name for name in names if name.endswith(SWAP_SUFFIX)} - chosen
    _remove_marks(directory, names - others)
    disk.sync_directory(directory)


def resolve(directory: str, names: set[str]) -> None:
    """Blocking: undo or finish what a crash interrupted; `names` are those in the directory, and are updated.

    Raises:
        OSError: the disk refused; the next start resolves what is left.
    """
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    if cleaned:
        lowest = min(_base_of(name) for name in cleaned)
        undecided = [name for name in swaps if _base_of(name) >= lowest]
        if undecided:
            _log.warning("%s: a replacement of segments was interrupted and is undone", directory)
            _remove(directory, names, undecided)
            # Without `.cleaned` beside them they would count as decided.
            disk.sync_directory(directory)
        _remove(directory, names, cleaned)
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    if swaps:
        _log.warning("%s: a replacement of segments was interrupted and is finished", directory)
        _remove(directory, names, _replaced(directory, names))
        _remove_marks(directory, names)
        disk.sync_directory(directory)


def _remove_marks(directory: str, names: set[str]) -> None:
    """Blocking: step 4; `names` are those in the directory, and are updated."""
    bases = {_base_of(name) for name in names if name.endswith((LOG_SUFFIX, _LOG_SWAP))}
    empty: set[int] = set()
    for name in sorted((name for name in names if name.endswith(SWAP_SUFFIX)), key=_order):
        path, plain = f"{directory}/{name}", name.removesuffix(SWAP_SUFFIX)
        names.discard(name)
        base = _base_of(name)
        if name.endswith(_LOG_SWAP) and min(bases) < base and not disk.stat(path).st_size:
            empty.add(base)
        if base in empty:
            disk.unlink(path)
        else:
            disk.rename(path, f"{directory}/{plain}")
            names.add(plain)


def _replaced(directory: str, names: set[str]) -> list[str]:
    """Return the files of the segments that the `.swap` segments replace."""
    new = [_base_of(name) for name in names if name.endswith(_LOG_SWAP)]
    if not new:
        return []
    end = max(_end_of(f"{directory}/{segment_file(base, _LOG_SWAP)}", base) for base in new)
    return [
        name
        for name in names
        if (base := base_offset_of(name)) is not None
        and min(new) <= base < end
        # Producer snapshots are named by an offset, too, but belong to no segment.
        and not name.endswith((SWAP_SUFFIX, ".snapshot"))
    ]


def _end_of(path: str, base_offset: int) -> int:
    """Return the offset behind a `.swap` segment; an empty one stands for what begins where it does."""
    end = base_offset + 1
    for _, header in iter_headers(LogFile(path, os.O_RDONLY), 0, disk.stat(path).st_size):
        end = header.next_offset
    return end


def _remove(directory: str, names: set[str], gone: Iterable[str]) -> None:
    # The newest first, so that a crash in between leaves nothing that looks complete.
    for name in sorted(gone, reverse=True):
        disk.remove_if_there(f"{directory}/{name}")
        names.discard(name)


def _marked(directory: str, bases: Iterable[int], mark: str) -> list[str]:
    chosen = set(bases)
    return [name for name in _names_in(directory) if name.endswith(mark) and base_offset_of(name) in chosen]


def _names_in(directory: str) -> set[str]:
    with disk.scandir(directory) as entries:
        return {entry.name for entry in entries}


def _base_of(name: str) -> int:
    """Return the base offset, -1 for other names, which are never given these marks."""
    base = base_offset_of(name)
    return -1 if base is None else base


def _order(name: str) -> tuple[int, bool, str]:
    return _base_of(name), LOG_SUFFIX not in name, name
