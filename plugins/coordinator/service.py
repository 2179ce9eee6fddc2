"""The coordinator, put together: which services there are and what they share. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from tidelog.kernel.tasks import PeriodicTask
from tidelog.plugins.coordinator import keys
from tidelog.plugins.coordinator.hashing import java_hash
from tidelog.plugins.coordinator.offsets.expiry import OffsetExpiry
from tidelog.plugins.coordinator.offsets.service import Offsets, OffsetSettings
from tidelog.plugins.coordinator.offsets.simple_groups import SimpleGroups
from tidelog.plugins.coordinator.records.offsets import KEY_TYPES as OFFSET_KEY_TYPES
from tidelog.plugins.coordinator.replay import GroupReplay

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker
    from tidelog.kernel.coordination.loading import LoadProgress
    from tidelog.kernel.topics import Topic
    from tidelog.plugins.coordinator.log import StateLog

REMEMBERED_HASHES = 100_000
MINUTE_MS = 60_000


class CoordinatorService:
    """All services over one log for groups and one for transactions."""

    def __init__(self, broker: Broker, group_log: StateLog, transaction_log: StateLog) -> None:
        config, clock = broker.config, broker.clock
        self._broker = broker
        self._hash = lru_cache(REMEMBERED_HASHES)(java_hash)
        self.group_log = group_log
        self.transaction_log = transaction_log
        guard = SimpleGroups()
        self.offsets = Offsets(
            group_log,
            self.partition_for_group,
            guard,
            broker.topics,
            clock,
            OffsetSettings(config[keys.OFFSET_METADATA_MAX_BYTES]),
        )
        self._expiry = OffsetExpiry(
            group_log, self.offsets, guard, clock, config[keys.OFFSETS_RETENTION_MINUTES] * MINUTE_MS
        )
        self.replay = GroupReplay(self.offsets.replay_transactional, self.offsets.complete_transaction)
        self.replay.register(OFFSET_KEY_TYPES, self.offsets.replay)
        self.replay.on_loaded(self.offsets.loaded)
        self.replay.on_forget(self.offsets.forget_partition)

    @property
    def loading(self) -> Mapping[str, LoadProgress]:
        """See `Coordinator`."""
        return {"groups": self.group_log.progress, "transactions": self.transaction_log.progress}

    async def open(self) -> None:
        """See `Coordinator`."""
        self.group_log.open(self.replay)
        interval_ms = self._broker.config[keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS]
        self._broker.tasks.start(
            PeriodicTask("offset-expiration", self._expiry.expire, interval_ms, interval_ms)
        )
        self._broker.topics.on_deletion(self._topic_deleted)

    async def close(self) -> None:
        """See `Coordinator`."""
        self.transaction_log.close()
        self.group_log.close()

    async def prepare_groups(self) -> None:
        """See `Coordinator`."""
        await self.group_log.ensure()

    async def prepare_transactions(self) -> None:
        """See `Coordinator`."""
        await self.transaction_log.ensure()

    def partition_for_group(self, group_id: str) -> int:
        """See `Coordinator`."""
        return self._hash(group_id) % self.group_log.partition_count

    def partition_for_transactional_id(self, transactional_id: str) -> int:
        """See `Coordinator`."""
        return self._hash(transactional_id) % self.transaction_log.partition_count

    def _topic_deleted(self, topic: Topic) -> None:
        self._broker.tasks.once(f"offsets of {topic.name}", partial(self._expiry.forget_topic, topic))
