"""Composition of the coordinator: its services and what they share. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel.seams.events import BrokerConfigChanged, Event
from tidelog.plugins.coordinator import keys
from tidelog.plugins.coordinator.classic_groups.live_group import ClassicContext
from tidelog.plugins.coordinator.classic_groups.manager import ClassicGroups
from tidelog.plugins.coordinator.classic_groups.records import GenerationChange
from tidelog.plugins.coordinator.classic_groups.settings import group_settings
from tidelog.plugins.coordinator.consumer_groups.changes import CHANGES as CONSUMER_GROUP_CHANGES
from tidelog.plugins.coordinator.consumer_groups.service import ConsumerGroups
from tidelog.plugins.coordinator.consumer_groups.settings import SettingsOfGroups, Shared, settings_of
from tidelog.plugins.coordinator.consumer_groups.topics import BrokerTopics
from tidelog.plugins.coordinator.groups.registry import GroupRegistry
from tidelog.plugins.coordinator.groups.replies import ReplyQueue
from tidelog.plugins.coordinator.groups.service import Groups
from tidelog.plugins.coordinator.offsets.expiry import OffsetExpiry
from tidelog.plugins.coordinator.offsets.service import Offsets, OffsetSettings
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.replay import GroupReplay
from tidelog.plugins.coordinator.runtime.deadlines import Deadlines
from tidelog.plugins.coordinator.runtime.hashing import StateHashes
from tidelog.plugins.coordinator.transactions.context import TransactionContext
from tidelog.plugins.coordinator.transactions.markers import Markers
from tidelog.plugins.coordinator.transactions.service import Transactions

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ImageChange
    from tidelog.kernel.seams.coordination.backend import CoordinatorContext, CoordinatorLoadCounts
    from tidelog.plugins.coordinator.runtime import StateLog

MINUTE_MS = 60_000


class CoordinatorService:
    """All services over one log for groups and one for transactions."""

    def __init__(self, broker: CoordinatorContext, group_log: StateLog, transaction_log: StateLog) -> None:
        config, clock = broker.config, broker.clock
        self._broker = broker
        self._hash = StateHashes()
        self.group_log = group_log
        self.transaction_log = transaction_log
        self.deadlines = Deadlines(broker.loop_clock)
        registry = self._registry = GroupRegistry()
        settings = group_settings(config)
        classic = ClassicGroups(
            ClassicContext(
                registry, group_log, ReplyQueue(), self.deadlines, settings, clock, self._has_offsets
            ),
            self.partition_for_group,
        )
        store = OffsetStore(self.partition_for_group, classic.begin_simple)
        self.offsets = Offsets(
            group_log,
            store,
            registry,
            classic.begin_simple,
            broker.topics,
            clock,
            OffsetSettings(config[keys.OFFSET_METADATA_MAX_BYTES]),
        )
        self.groups = Groups(registry, group_log, self.partition_for_group, classic.for_join, store)
        of_groups = settings_of(config, broker.partition_assignors, settings)
        self._group_settings = SettingsOfGroups(of_groups, broker.resource_configs)
        self.consumer_groups = ConsumerGroups(self._shared_by_consumer_groups(classic))
        self.expiry = OffsetExpiry(
            group_log, store, registry, clock, config[keys.OFFSETS_RETENTION_MINUTES] * MINUTE_MS
        )
        of_consumer_groups = dict.fromkeys(CONSUMER_GROUP_CHANGES, self.consumer_groups.replay)
        self.replay = GroupReplay(
            store, registry, {GenerationChange.key_type: classic.replay, **of_consumer_groups}
        )
        self.transactions = Transactions(
            transaction_log,
            Markers(broker.topics, broker.replicas, group_log, store),
            TransactionContext.of(broker, self.partition_for_transactional_id, self.partition_for_group),
        )

    def _shared_by_consumer_groups(self, classic: ClassicGroups) -> Shared:
        broker = self._broker
        return Shared(
            self._registry,
            self.group_log,
            self.partition_for_group,
            self._group_settings,
            BrokerTopics(broker.topics, base=broker.clock()),
            self.deadlines,
            broker.clock,
            classic,
            broker.tasks,
        )

    @property
    def loading(self) -> Mapping[str, CoordinatorLoadCounts]:
        """Return how far state has been loaded."""
        return {"groups": self.group_log.progress, "transactions": self.transaction_log.progress}

    def begin(self) -> None:
        """Begin to load state."""
        self.group_log.open(self.replay)
        self.transactions.open()
        # What was configured while the broker ran before is known since the metadata are open.
        self._group_settings.use(self._broker.config)
        self._broker.events.subscribe(self._on_event)

    def release_waiters(self) -> None:
        """Answer every request that waits: the broker stops."""
        self._registry.close()

    async def close(self) -> None:
        """Stop writing."""
        self.transaction_log.close()
        self.group_log.close()

    async def expire(self) -> None:
        """Remove what has expired."""
        await self.expiry.expire()
        await self.transactions.timeouts.abort_overdue()
        await self.transactions.timeouts.remove_expired()

    async def prepare_groups(self) -> None:
        """Create what groups need before their first request."""
        await self.group_log.ensure()

    async def prepare_transactions(self) -> None:
        """Create what transactions need before their first request."""
        await self.transaction_log.ensure()

    def partition_for_group(self, group_id: str) -> int:
        """Return the partition of a group's state."""
        return self._hash(group_id) % self.group_log.partition_count

    def partition_for_transactional_id(self, transactional_id: str) -> int:
        """Return the partition of a transactional id's state."""
        return self._hash(transactional_id) % self.transaction_log.partition_count

    def _has_offsets(self, group_id: str) -> bool:
        return self.offsets.store.holds(group_id)

    def follow(self, change: ImageChange) -> None:
        """Load and drop state as leadership changes, and offsets of topics that were deleted."""
        self.group_log.follow(change)
        self.transaction_log.follow(change)
        for topic in change.deleted_topics():
            self._broker.tasks.once(f"offsets of {topic.name}", partial(self.expiry.forget_topic, topic))

    def _on_event(self, event: Event) -> None:
        if isinstance(event, BrokerConfigChanged):
            self._group_settings.use(self._broker.config)
