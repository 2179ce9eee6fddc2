"""Adopting partitions whose metadata log is lost: topics are made from the names of directories.

The ids come from each `partition.metadata`, the leader epochs from each `leader-epoch-checkpoint`;
configuration cannot be known, so the broker's defaults hold, and the data is not to be deleted or compacted
by them before somebody looked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from uuid import UUID, uuid4

from tidelog.kernel.errors import ConfigError
from tidelog.kernel.partition.epochs import CHECKPOINT_NAME, CorruptEpochCheckpoint, LeaderEpochs
from tidelog.kernel.seams.storage import TopicPartition, TopicRecord
from tidelog.kernel import disk
from tidelog.plugins.storage_file.directories.partition_metadata import decode_partition_metadata
from tidelog.plugins.storage_file.names import PARTITION_METADATA

_log = logging.getLogger(__name__)

FIRST_EPOCH = 0


def adopted_records(found: Mapping[TopicPartition, Path]) -> list[TopicRecord]:
    """Blocking: topics for partitions that were found, by the directories that they lie in.

    Raises:
        ConfigError: partitions of one name have different topic ids.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in sorted(found):
        by_topic.setdefault(partition.topic, []).append(partition)
    return [_record(name, partitions, found) for name, partitions in by_topic.items()]


def _record(
    name: str, partitions: Iterable[TopicPartition], found: Mapping[TopicPartition, Path]
) -> TopicRecord:
    ids: dict[UUID, TopicPartition] = {}
    epochs: dict[int, int] = {}
    for partition in partitions:
        topic_id = _topic_id(found[partition])
        if topic_id is not None:
            ids.setdefault(topic_id, partition)
        epochs[partition.partition] = _next_epoch(found[partition])
    if len(ids) > 1:
        told = ", ".join(f"{found[partition]} ({topic_id})" for topic_id, partition in ids.items())
        raise ConfigError(
            f"there is no metadata log, and the directories of topic {name} belong to different topics: "
            f"{told}. Move those away that do not belong here"
        )
    count = max(epochs) + 1
    leader_epochs = tuple(epochs.get(index, FIRST_EPOCH) for index in range(count))
    return TopicRecord(name, next(iter(ids), None) or uuid4(), count, {}, leader_epochs, adopted=True)


def _topic_id(directory: Path) -> UUID | None:
    content = disk.read_file(directory / PARTITION_METADATA)
    if content is None:
        return None
    try:
        return decode_partition_metadata(content)
    except ValueError as error:
        _log.warning("%s: its %s cannot be read (%s)", directory, PARTITION_METADATA, error)
        return None


def _next_epoch(directory: Path) -> int:
    content = disk.read_file(directory / CHECKPOINT_NAME)
    try:
        return FIRST_EPOCH if content is None else LeaderEpochs.decode(content).latest + 1
    except CorruptEpochCheckpoint as error:
        _log.warning("%s: %s", directory, error)
        return FIRST_EPOCH


def tell_of_adoption(records: Iterable[TopicRecord], marks: Path) -> None:
    """Say in the log what was adopted, and what has to be done about it."""
    names = ", ".join(f"{record.name} ({record.partitions} partitions)" for record in records)
    _log.warning(
        "there was no metadata log, so topics were made from the directories that are there, with the "
        "broker's default configuration: %s. Nothing of them is deleted by age or size, or compacted, until "
        "you looked: change the topic's configuration, or delete its line from %s while the broker is "
        "stopped",
        names,
        marks,
    )
