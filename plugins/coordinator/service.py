"""Composition of the coordinator: its services and what they share. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel.seams.events import BrokerConfigChanged, Event
from tidelog.plugins.coordinator import keys
from tidelog.plugins.coordinator.classic_groups.factory import ClassicGroupFactory
from tidelog.plugins.coordinator.classic_groups.records import GenerationChange, tombstone_of
from tidelog.plugins.coordinator.classic_groups.registered_classic_group import ClassicContext
from tidelog.plugins.coordinator.classic_groups.settings import group_settings
from tidelog.plugins.coordinator.consumer_groups.records import CHANGES as CONSUMER_GROUP_CHANGES
from tidelog.plugins.coordinator.consumer_groups.service import ConsumerGroups
from tidelog.plugins.coordinator.consumer_groups.settings import SettingsOfGroups, Shared, settings_of
from tidelog.plugins.coordinator.consumer_groups.topics import BrokerTopics
from tidelog.plugins.coordinator.group_service import Groups
from tidelog.plugins.coordinator.groups.registry import GroupRegistry, GroupsOfLog
from tidelog.plugins.coordinator.groups.replies import ReplyQueue
from tidelog.plugins.coordinator.offsets.expiry import OffsetExpiry
from tidelog.plugins.coordinator.offsets.service import Offsets
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.runtime.deadlines import Deadlines
from tidelog.plugins.coordinator.runtime.hashing import StateHashes
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime
from tidelog.plugins.coordinator.runtime.topic_log import OFFSETS_TOPIC, TRANSACTION_TOPIC
from tidelog.plugins.coordinator.transactions.markers import Markers
from tidelog.plugins.coordinator.transactions.service import Transactions
from tidelog.plugins.coordinator.transactions.settings import transaction_settings

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ImageChange
    from tidelog.kernel.seams.coordination.backend import CoordinatorContext, CoordinatorLoadCounts
    from tidelog.plugins.coordinator.runtime import StateLog

MINUTE_MS = 60_000


class CoordinatorService:
    """All services over one log for groups and one for transactions.

    Attributes:
        group_runtime: the runtime of groups and of committed offsets
        transaction_runtime: the runtime of transactions
    """

    def __init__(self, broker: CoordinatorContext, group_log: StateLog, transaction_log: StateLog) -> None:
        config = broker.config
        self._broker = broker
        deadlines, hash_of = Deadlines(broker.loop_clock), StateHashes()
        self.group_runtime = of_groups = CoordinatorRuntime(
            OFFSETS_TOPIC, group_log, broker.clock, deadlines, hash_of
        )
        self.transaction_runtime = CoordinatorRuntime(
            TRANSACTION_TOPIC, transaction_log, broker.clock, deadlines, hash_of
        )
        registry = self._registry = GroupRegistry()
        settings = group_settings(config)
        classic = ClassicGroupFactory(
            ClassicContext(of_groups, registry, ReplyQueue(), settings, self._has_offsets)
        )
        self._store = OffsetStore(classic.begin_simple)
        self.offsets = Offsets(
            of_groups,
            self._store,
            registry,
            classic.begin_simple,
            broker.topics,
            config[keys.OFFSET_METADATA_MAX_BYTES],
        )
        self.groups = Groups(of_groups, registry, classic.for_join, self._store)
        self._group_settings = SettingsOfGroups(
            settings_of(config, broker.partition_assignors, settings), broker.resource_configs
        )
        topics = BrokerTopics(broker.topics, base=broker.clock())
        self.consumer_groups = ConsumerGroups(
            Shared(of_groups, registry, self._group_settings, topics, classic, broker.tasks)
        )
        self.expiry = OffsetExpiry(
            of_groups,
            self._store,
            registry,
            tombstone_of,
            config[keys.OFFSETS_RETENTION_MINUTES] * MINUTE_MS,
        )
        replays = dict.fromkeys(CONSUMER_GROUP_CHANGES, self.consumer_groups.replay)
        self._loaded_groups = GroupsOfLog(
            registry, self._store, {GenerationChange.key_type: classic.replay, **replays}
        )
        self.transactions = Transactions(
            self.transaction_runtime,
            Markers(broker.topics, broker.replicas, of_groups),
            transaction_settings(broker),
            of_groups.partition_for,
        )

    @property
    def loading(self) -> Mapping[str, CoordinatorLoadCounts]:
        """Return how far state has been loaded."""
        return {
            "groups": self.group_runtime.log.progress,
            "transactions": self.transaction_runtime.log.progress,
        }

    def begin(self) -> None:
        """Begin to load state."""
        self.group_runtime.open(self._store, self._loaded_groups)
        self.transactions.open()
        # What was configured while the broker ran before is known since the metadata are open.
        self._group_settings.use(self._broker.config)
        self._broker.events.subscribe(self._on_event)

    def release_waiters(self) -> None:
        """Answer every request that waits: the broker stops."""
        self._registry.close()

    async def close(self) -> None:
        """Stop writing."""
        self.transaction_runtime.log.close()
        self.group_runtime.log.close()

    async def expire(self) -> None:
        """Remove what has expired."""
        await self.expiry.expire()
        await self.transactions.timeouts.abort_overdue()
        await self.transactions.timeouts.remove_expired()

    def _has_offsets(self, group_id: str) -> bool:
        return self._store.table(self.group_runtime.partition_for(group_id)).has_offsets(group_id)

    def follow(self, change: ImageChange) -> None:
        """Load and drop state as leadership changes, and offsets of topics that were deleted."""
        self.group_runtime.log.follow(change)
        self.transaction_runtime.log.follow(change)
        for topic in change.deleted_topics():
            self._broker.tasks.once(f"offsets of {topic.name}", partial(self.expiry.forget_topic, topic))

    def _on_event(self, event: Event) -> None:
        if isinstance(event, BrokerConfigChanged):
            self._group_settings.use(self._broker.config)
