"""Adoption of partitions whose metadata log is lost: topics are created from the names of directories.

The ids come from each `partition.metadata`, the leader epochs from each `leader-epoch-checkpoint`;
configuration cannot be known, so the broker's defaults hold, and the data is not to be deleted or compacted
by them before an administrator looked. The file `adopted-topics` lists the topics of which that is true:

    0                               version
    1                               number of topics
    orders X1qQuvPyRWqJJavLZen1rw   name and id

A line goes when the topic's configuration is changed, or when the line is deleted by hand (and the number
above it made to fit) while the broker is stopped. Apache Kafka leaves this file alone.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from uuid import UUID, uuid4

from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.ids import decode_uuid, encode_uuid
from tidelog.kernel.leader_epochs import CHECKPOINT_NAME, CorruptEpochCheckpoint, LeaderEpochLineage
from tidelog.kernel.metadata import TopicImage, topic_image
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.seams.storage.directories import DataDirectory

_log = logging.getLogger(__name__)

FIRST_EPOCH = 0


def adopted_records(directories: Iterable[DataDirectory]) -> list[TopicImage]:
    """Blocking: return topics for all partitions that have a folder in some directories.

    Raises:
        ConfigError: partitions of one name have different topic ids.
    """
    found = {partition: directory for directory in directories for partition in directory.folders}
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in sorted(found):
        by_topic.setdefault(partition.topic, []).append(partition)
    return [_record(name, partitions, found) for name, partitions in by_topic.items()]


def _record(
    name: str, partitions: Iterable[TopicPartition], found: Mapping[TopicPartition, DataDirectory]
) -> TopicImage:
    ids: dict[UUID, TopicPartition] = {}
    epochs: dict[int, int] = {}
    for partition in partitions:
        directory = found[partition]
        topic_id = _topic_id(directory, partition)
        if topic_id is not None:
            ids.setdefault(topic_id, partition)
        epochs[partition.partition] = _next_epoch(directory.partition_path(partition))
    if len(ids) > 1:
        listed = ", ".join(
            f"{found[partition].partition_path(partition)} ({topic_id})"
            for topic_id, partition in ids.items()
        )
        raise ConfigError(
            f"there is no metadata log, and the directories of topic {name} belong to different topics: "
            f"{listed}. Move those away that do not belong here"
        )
    count = max(epochs) + 1
    leader_epochs = tuple(epochs.get(index, FIRST_EPOCH) for index in range(count))
    return topic_image(name, next(iter(ids), None) or uuid4(), count, {}, leader_epochs, adopted=True)


def _topic_id(directory: DataDirectory, partition: TopicPartition) -> UUID | None:
    try:
        return directory.topic_id_of(partition)
    except ValueError as error:
        path = directory.partition_path(partition)
        _log.warning("%s: its partition.metadata cannot be read (%s)", path, error)
        return None


def _next_epoch(directory: str) -> int:
    content = disk.read_file(f"{directory}/{CHECKPOINT_NAME}")
    try:
        # Above the epochs in its log: leader epochs never fall.
        return FIRST_EPOCH if content is None else LeaderEpochLineage.decode(content).latest + 1
    except CorruptEpochCheckpoint as error:
        _log.warning("%s: %s", directory, error)
        return FIRST_EPOCH


def log_adoption(records: Iterable[TopicImage], marks: Path) -> None:
    """Log which topics were adopted, and what has to be done about it."""
    names = ", ".join(f"{topic.name} ({len(topic.partitions)} partitions)" for topic in records)
    _log.warning(
        "there was no metadata log, so topics were made from the directories that are there, with the "
        "broker's default configuration: %s. Nothing of them is deleted by age or size, or compacted, until "
        "you looked: change the topic's configuration, or delete its line from %s while the broker is "
        "stopped",
        names,
        marks,
    )


ADOPTED_TOPICS = "adopted-topics"
_VERSION = "0"


class AdoptedTopics:
    """The topics in the file of one log directory."""

    def __init__(self, root: Path) -> None:
        """Blocking: read the file, if there is one.

        Raises:
            ConfigError: it is malformed.
        """
        self.path = root / ADOPTED_TOPICS
        self._names: dict[UUID, str] = {}
        content = disk.read_file(self.path)
        if content is not None:
            try:
                self._names = _parse(content.decode())
            except ValueError as error:
                raise ConfigError(f"{self.path} cannot be used: {error}; repair or remove it") from None

    def __contains__(self, topic_id: object) -> bool:
        return topic_id in self._names

    def add(self, topics: Iterable[TopicImage]) -> None:
        """Blocking: add topics, durably."""
        self._write(self._names | {topic.topic_id: topic.name for topic in topics})

    def discard(self, topic_ids: Collection[UUID]) -> None:
        """Blocking: remove topics, which were configured or deleted."""
        self._write({key: name for key, name in self._names.items() if key not in topic_ids})

    def _write(self, names: dict[UUID, str]) -> None:
        lines = [_VERSION, str(len(names)), *(f"{name} {encode_uuid(key)}" for key, name in names.items())]
        if names:
            disk.replace_file(self.path, ("\n".join(lines) + "\n").encode())
        else:
            disk.remove_if_there(self.path)
            disk.sync_directory(self.path.parent)
        self._names = names


def _parse(text: str) -> dict[UUID, str]:
    version, count, *lines = text.splitlines()
    if version != _VERSION:
        raise ValueError(f"version {version!r} is not {_VERSION}")
    if int(count) != len(lines):
        raise ValueError(f"{len(lines)} topics instead of {count}")
    pairs = [line.split(" ") for line in lines]
    return {decode_uuid(topic_id): name for name, topic_id in pairs}
