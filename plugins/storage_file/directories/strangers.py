"""What is found in log directories beside what the metadata tells of, and what becomes of it.

Source: seed 001, "Startup: validate, lock, recover, schedule", point 5.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.kernel.seams.storage import TopicPartition, TopicRecord
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.partition_metadata import decode_partition_metadata
from tidelog.plugins.storage_file.names import PARTITION_METADATA, delete_directory, stray_directory
from tidelog.plugins.storage_file.segments.segment_files import was_never_written

_log = logging.getLogger(__name__)

NAMED = 10
"""So many partitions of unknown topics are named in the log; their number is told anyway."""


class KnownTopics(NamedTuple):
    """What the metadata tells: topics by name, names of deleted ones by id.

    `assigned(partition)` is the id of the log directory that it says a partition is in, None if it does not.
    """

    topics: Mapping[str, TopicRecord]
    deleted: Mapping[UUID, str]
    assigned: Callable[[TopicPartition], bytes | None]

    def has(self, partition: TopicPartition) -> bool:
        """Whether there is such a partition."""
        topic = self.topics.get(partition.topic)
        return topic is not None and partition.partition < topic.partitions


def _nowhere(_: TopicPartition) -> None:
    return None


NOTHING_KNOWN: Final = KnownTopics({}, {}, _nowhere)
"""Before the metadata was read."""


def set_aside(directory: LogDirectory, partition: TopicPartition, name: str) -> str:
    """Blocking: rename a partition's directory so that its own name is free; the new path."""
    target = f"{directory.path}/{name}"
    disk.rename(directory.partition_path(partition), target)
    directory.forget(partition)
    return target


def finish_deletions(directory: LogDirectory, known: KnownTopics) -> None:
    """Blocking: set aside what a crash left of a deletion, or of a creation that had only begun."""
    for partition in sorted(directory.folders):
        if not known.has(partition) and _is_leftover(directory, partition, known.deleted):
            directory.leftovers.append(set_aside(directory, partition, delete_directory(partition)))


def set_impostors_aside(directory: LogDirectory, known: KnownTopics) -> None:
    """Blocking: rename as stray what has a topic's name and another one's id, unless it is empty."""
    for partition in sorted(directory.folders):
        if not known.has(partition):
            continue
        path = directory.partition_path(partition)
        topic_id, wanted = _topic_id_of(directory, partition), known.topics[partition.topic].topic_id
        if topic_id not in (None, wanted) and not was_never_written(path):
            _log.warning("%s belongs to a topic with the id %s, not %s", path, topic_id, wanted)
            _rename_strays(directory, [partition])


def set_duplicates_aside(directories: Sequence[LogDirectory], known: KnownTopics) -> None:
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


def set_strays_aside(directory: LogDirectory, known: KnownTopics) -> None:
    """Blocking: rename as stray what is of no topic; an admin has to look at it."""
    strays = [key for key in sorted(directory.folders) if not known.has(key) and key not in directory.stores]
    if strays:
        _rename_strays(directory, strays)


def _rename_strays(directory: LogDirectory, strays: Sequence[TopicPartition]) -> None:
    for partition in strays:
        set_aside(directory, partition, stray_directory(partition))
    names = ", ".join(map(str, strays[:NAMED])) + (", ..." if len(strays) > NAMED else "")
    _log.warning(
        "%s has partitions that the metadata log does not know (%d); they are renamed to …-stray and left "
        "alone, move them away or remove them: %s",
        directory.path, len(strays), names,
    )  # fmt: skip


def _is_leftover(directory: LogDirectory, partition: TopicPartition, deleted: Mapping[UUID, str]) -> bool:
    """Whether a crash left a partition that a deletion was to take away, or that a creation had only begun.

    After a loss of power it may not tell its topic's id; then its name has to do.
    """
    topic_id = _topic_id_of(directory, partition)
    if topic_id in deleted or (topic_id is None and partition.topic in deleted.values()):
        return True
    return not directory.clean and was_never_written(directory.partition_path(partition))


def _topic_id_of(directory: LogDirectory, partition: TopicPartition) -> UUID | None:
    content = disk.read_file(f"{directory.partition_path(partition)}/{PARTITION_METADATA}")
    try:
        return None if content is None else decode_partition_metadata(content)
    except ValueError:
        return None
