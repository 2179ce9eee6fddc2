"""The registry of topics, of the cluster's id and of the producer ids that were given out.

One JSON file, replaced as a whole:

    {"version": 1, "cluster_id": "...", "next_producer_id": 2000,
     "topics": {"orders": {"id": "...", "partitions": 3, "config": {"retention.ms": "1000"}}},
     "deleted": ["..."]}

Ids are 22 characters of base64. `deleted` has the ids of topics whose directories may still be there when
the broker stops in the middle of a deletion; the next start removes them. The file stands in for Kafka's
metadata log, behind `MetadataStore`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import trio

from tidelog.kernel.errors import ConfigError
from tidelog.kernel.storage import BrokerRegistration, TopicRecord
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.ids import decode_uuid, encode_uuid

REGISTRY_FILE = "tidelog-topics.json"
_VERSION = 1


class TopicRegistry:
    """`MetadataStore` in one file. Changes that come while it is being written share the next write."""

    def __init__(self, path: Path, cluster_id: str) -> None:
        """An empty registry; `path` is where it is kept."""
        self.path = path
        self.cluster_id = cluster_id
        self._topics: dict[str, TopicRecord] = {}
        self._deleted: set[UUID] = set()
        self._next_producer_id = 0
        self._revision = 0
        self._written = 0
        self._writing = trio.Lock()

    def topics(self) -> Sequence[TopicRecord]:
        """All topics."""
        return list(self._topics.values())

    @property
    def deleted_topic_ids(self) -> frozenset[UUID]:
        """Ids of topics whose directories may be there though they were deleted."""
        return frozenset(self._deleted)

    def forget_deleted(self) -> None:
        """The directories of all deleted topics are gone; the next write drops their ids."""
        self._deleted.clear()

    async def put_topic(self, record: TopicRecord) -> None:
        """See `MetadataStore.put_topic`."""
        before = self._topics.get(record.name)
        self._topics[record.name] = record
        try:
            await self._save()
        except OSError:
            self._restore(record.name, before)
            raise

    async def remove_topic(self, name: str) -> None:
        """See `MetadataStore.remove_topic`."""
        before = self._topics.pop(name, None)
        if before is None:
            return
        self._deleted.add(before.topic_id)
        try:
            await self._save()
        except OSError:
            self._deleted.discard(before.topic_id)
            self._restore(name, before)
            raise

    async def allocate_producer_ids(self, count: int) -> range:
        """See `MetadataStore.allocate_producer_ids`."""
        first = self._next_producer_id
        self._next_producer_id = first + count
        # When this fails the ids stay given out: skipping some is harmless, giving them twice is not.
        await self._save()
        return range(first, first + count)

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """The file has no place for it."""

    def _restore(self, name: str, record: TopicRecord | None) -> None:
        if record is None:
            del self._topics[name]
        else:
            self._topics[name] = record

    async def _save(self) -> None:
        self._revision += 1
        wanted = self._revision
        async with self._writing:
            if self._written >= wanted:
                return
            revision, content = self._revision, self.encode()
            await trio.to_thread.run_sync(disk.replace_file, self.path, content)
            self._written = revision

    def encode(self) -> bytes:
        """The file's content."""
        document = {
            "version": _VERSION,
            "cluster_id": self.cluster_id,
            "next_producer_id": self._next_producer_id,
            "topics": {
                topic.name: {
                    "id": encode_uuid(topic.topic_id),
                    "partitions": topic.partitions,
                    "config": dict(topic.config),
                }
                for topic in self._topics.values()
            },
            "deleted": sorted(map(encode_uuid, self._deleted)),
        }
        return json.dumps(document, indent=1).encode() + b"\n"

    def decode(self, content: bytes) -> None:
        """Take over a file's content.

        Raises:
            ConfigError: it cannot be understood; the message names the file.
        """
        try:
            document: dict[str, Any] = json.loads(content)
            if document["version"] != _VERSION:
                raise ValueError(f"its version is {document['version']!r}, this broker reads {_VERSION}")
            self.cluster_id = str(document["cluster_id"])
            self._next_producer_id = int(document["next_producer_id"])
            self._deleted = {decode_uuid(text) for text in document["deleted"]}
            self._topics = {name: _decode_topic(name, fields) for name, fields in document["topics"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"the registry of topics {self.path} is damaged ({error}); restore it from a backup. Without "
                "it the data in the partitions' directories cannot be told apart"
            ) from None


def _decode_topic(name: str, fields: dict[str, Any]) -> TopicRecord:
    config = {str(key): str(value) for key, value in fields["config"].items()}
    return TopicRecord(name, decode_uuid(fields["id"]), int(fields["partitions"]), config)
