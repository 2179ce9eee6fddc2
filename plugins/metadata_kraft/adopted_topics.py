"""`adopted-topics`: topics that were found as bare directories, whose data nothing may delete yet.

    0                               version
    1                               number of topics
    orders X1qQuvPyRWqJJavLZen1rw   name and id

A line goes when somebody looked: when the topic's configuration is changed, or when the line is deleted by
hand (and the number above made to fit) while the broker is stopped. Apache Kafka leaves this file alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.storage import TopicRecord
from tidelog.kernel import disk
from tidelog.kernel.ids import decode_uuid, encode_uuid

ADOPTED_TOPICS = "adopted-topics"
_VERSION = "0"


class AdoptedTopics:
    """The topics in the file of one log directory."""

    def __init__(self, root: Path) -> None:
        """Blocking: read the file, if there is one.

        Raises:
            ConfigError: it cannot be understood.
        """
        self.path = root / ADOPTED_TOPICS
        self._names: dict[UUID, str] = {}
        content = disk.read_file(self.path)
        if content is not None:
            try:
                self._names = _parse(content.decode())
            except ValueError as error:
                raise ConfigError(f"{self.path} cannot be used: {error}; mend or remove it") from None

    def __contains__(self, topic_id: object) -> bool:
        return topic_id in self._names

    def add(self, topics: Iterable[TopicRecord]) -> None:
        """Blocking: note topics, durably."""
        self._write(self._names | {topic.topic_id: topic.name for topic in topics})

    def discard(self, topic_id: UUID) -> None:
        """Blocking: somebody looked at the topic, or it is gone."""
        if topic_id in self._names:
            self._write({key: name for key, name in self._names.items() if key != topic_id})

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
