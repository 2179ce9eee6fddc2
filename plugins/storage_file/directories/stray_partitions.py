"""Partitions in log directories that the metadata does not know, or knows elsewhere or by another topic id.

What a deletion or creation left half done is removed; the rest is renamed to `-stray`, for an administrator.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from uuid import UUID

from tidelog.kernel import disk
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.seams.storage.directories import KnownTopics
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.names import delete_directory, stray_directory
from tidelog.plugins.storage_file.segments.segment_files import was_never_written

_log = logging.getLogger(__name__)

NAMED = 10
"""Most partitions of unknown topics that are named in the log, which always has their number."""


def move_aside(directory: LogDirectory, partition: TopicPartition, name: str) -> str:
    """Blocking: rename a partition's directory so that its own name is free; return the new path."""
    target = f"{directory.path}/{name}"
    disk.rename(directory.partition_path(partition), target)
    directory.forget(partition)
    return target


def finish_deletions(directory: LogDirectory, known: KnownTopics) -> None:
    """Blocking: move aside what a crash left of a deletion, or of a creation that had only begun."""
    for partition in sorted(directory.folders):
        if not known.has(partition) and _is_leftover(directory, partition, known.deleted):
            directory.leftovers.append(move_aside(directory, partition, delete_directory(partition)))


def quarantine_mismatched_topic_ids(directory: LogDirectory, known: KnownTopics) -> None:
    """Blocking: rename as stray what has a topic's name and another one's id, unless it is empty."""
    for partition in sorted(directory.folders):
        if not known.has(partition):
            continue
        path = directory.partition_path(partition)
        topic_id, wanted = _topic_id_of(directory, partition), known.topics[partition.topic].topic_id
        if topic_id not in (None, wanted) and not was_never_written(path):
            _log.warning("%s belongs to a topic with the id %s, not %s", path, topic_id, wanted)
            _rename_strays(directory, [partition])


def quarantine_duplicates(directories: Sequence[LogDirectory], known: KnownTopics) -> None:
    """Blocking: of a partition that is in several directories keep the one that the metadata names.

    A crash between the last two steps of a move leaves two. Where the metadata names neither, both stay, and
    the partition cannot be opened.
    """
    seen: set[TopicPartition] = set()
    for partition in [partition for directory in directories for partition in sorted(directory.folders)]:
        homes = [directory for directory in directories if partition in directory.folders]
        if partition in seen or len(homes) < 2:
            continue
        seen.add(partition)
        assigned = known.assigned(partition)
        if assigned in [home.id_bytes for home in homes]:
            for home in homes:
                if home.id_bytes != assigned:
                    _rename_strays(home, [partition])


def quarantine_stray_partitions(directory: LogDirectory, known: KnownTopics) -> None:
    """Blocking: rename as stray what is of no topic; an admin has to look at it."""
    strays = [key for key in sorted(directory.folders) if not known.has(key) and key not in directory.stores]
    if strays:
        _rename_strays(directory, strays)
        directory.write_forgotten()


def _rename_strays(directory: LogDirectory, strays: Sequence[TopicPartition]) -> None:
    for partition in strays:
        move_aside(directory, partition, stray_directory(partition))
    names = ", ".join(map(str, strays[:NAMED])) + (", ..." if len(strays) > NAMED else "")
    _log.warning(
        "%s has partitions that the metadata log does not know (%d); they are renamed to …-stray and left "
        "alone, move them away or remove them: %s",
        directory.path, len(strays), names,
    )  # fmt: skip


def _is_leftover(directory: LogDirectory, partition: TopicPartition, deleted: Mapping[UUID, str]) -> bool:
    """Return whether a partition is left of an unfinished deletion, or of a creation that had only begun.

    After a loss of power its topic's id may be missing; then its name decides.
    """
    topic_id = _topic_id_of(directory, partition)
    if topic_id in deleted or (topic_id is None and partition.topic in deleted.values()):
        return True
    return not directory.clean and was_never_written(directory.partition_path(partition))


def _topic_id_of(directory: LogDirectory, partition: TopicPartition) -> UUID | None:
    try:
        return directory.topic_id_of(partition)
    except ValueError:
        return None
