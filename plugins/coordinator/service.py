"""The coordinator, put together: which services there are and what they share. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel.seams.events import Event, TopicDeleted
from tidelog.kernel.seams.tasks import LifespanTask, PeriodicTask
from tidelog.plugins.coordinator import keys
from tidelog.plugins.coordinator.classic_groups.assembly import group_settings
from tidelog.plugins.coordinator.classic_groups.directory import GroupDirectory
from tidelog.plugins.coordinator.classic_groups.driver import GroupDriver
from tidelog.plugins.coordinator.classic_groups.guard import GroupGuard
from tidelog.plugins.coordinator.classic_groups.migration import MigratingGroups
from tidelog.plugins.coordinator.classic_groups.service import ClassicGroups
from tidelog.plugins.coordinator.consumer_groups.assembly import consumer_groups_for
from tidelog.plugins.coordinator.deadlines import Deadlines
from tidelog.plugins.coordinator.group_relocation import GroupRelocation
from tidelog.plugins.coordinator.hashing import StateHashes
from tidelog.plugins.coordinator.offsets.expiry import OffsetExpiry
from tidelog.plugins.coordinator.offsets.records import KEY_TYPES as OFFSET_KEY_TYPES
from tidelog.plugins.coordinator.offsets.service import Offsets, OffsetSettings
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.records.group_metadata import KEY_TYPES as GROUP_KEY_TYPES
from tidelog.plugins.coordinator.replay import GroupReplay
from tidelog.plugins.coordinator.transactions.assembly import transactions_for
from tidelog.plugins.coordinator.transactions.tasks import periodic_tasks

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.backend import CoordinatorContext
    from tidelog.kernel.seams.coordination.loading import LoadProgress
    from tidelog.plugins.coordinator.consumer_groups.assembly import ConsumerGroupRooms
    from tidelog.plugins.coordinator.log import StateLog

MINUTE_MS = 60_000


class CoordinatorService:
    """All services over one log for groups and one for transactions."""

    def __init__(self, broker: CoordinatorContext, group_log: StateLog, transaction_log: StateLog) -> None:
        config, clock = broker.config, broker.clock
        self._broker = broker
        self._hash = StateHashes()
        self.group_log = group_log
        self.transaction_log = transaction_log
        self._deadlines = Deadlines()
        settings, directory = group_settings(config), GroupDirectory()
        guard = GroupGuard(directory, settings, self.partition_for_group, self._deadlines.now_ms)
        store = OffsetStore(self.partition_for_group, guard.begin_simple)
        self.offsets = Offsets(
            group_log,
            store,
            guard,
            broker.topics,
            clock,
            OffsetSettings(config[keys.OFFSET_METADATA_MAX_BYTES]),
        )
        self._group_driver = GroupDriver(
            directory,
            group_log,
            self.partition_for_group,
            store,
            self._deadlines,
            settings,
            clock,
        )
        self.groups = ClassicGroups(self._group_driver)
        consumers = consumer_groups_for(
            broker,
            group_log,
            self.partition_for_group,
            self._deadlines,
            MigratingGroups(self._group_driver),
            classic_max_size=settings.max_size,
        )
        self.consumer_groups = consumers.service
        self.groups.know(consumers.members, consumers.guard)
        guard.consumer_groups = consumers.guard
        self._expiry = OffsetExpiry(
            group_log, store, guard, clock, config[keys.OFFSETS_RETENTION_MINUTES] * MINUTE_MS
        )
        self.replay = self._new_replay(consumers)
        self.transactions = transactions_for(
            broker,
            transaction_log,
            group_log,
            store,
            partition_for=self.partition_for_transactional_id,
            partition_for_group=self.partition_for_group,
        )

    def _new_replay(self, consumers: ConsumerGroupRooms) -> GroupReplay:
        """Who is told what when the log of groups is read back."""
        offsets = self.offsets.store
        replay = GroupReplay(offsets.replay_transactional, offsets.complete_transaction)
        replay.register(OFFSET_KEY_TYPES, offsets.replay)
        replay.register(GROUP_KEY_TYPES, self._group_driver.replay)
        consumers.join_replay(replay)
        replay.on_settle(self._group_driver.settle)
        replay.on_loaded(offsets.loaded)
        for part in (offsets, self._group_driver):
            replay.on_forget(part.forget_partition)
        return replay

    @property
    def loading(self) -> Mapping[str, LoadProgress]:
        """See `Coordinator`."""
        return {"groups": self.group_log.progress, "transactions": self.transaction_log.progress}

    def begin(self) -> None:
        """Begin to read back what is remembered, and the work that is done now and then."""
        self._broker.tasks.start(LifespanTask("group-deadlines", self._deadlines.run_for))
        self.group_log.open(self.replay, GroupRelocation(self.partition_for_group, self.transactions))
        self.transactions.open()
        for task in periodic_tasks(self.transactions, self._broker.config):
            self._broker.tasks.start(task)
        interval_ms = self._broker.config[keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS]
        self._broker.tasks.start(
            PeriodicTask("offset-expiration", self._expiry.expire, interval_ms, interval_ms)
        )
        self._broker.events.subscribe(self._on_event)

    def release_waiters(self) -> None:
        """See `Coordinator`."""
        self._group_driver.close()

    async def close(self) -> None:
        """See `Coordinator`."""
        self.transaction_log.close()
        self.group_log.close()

    async def expire(self) -> None:
        """See `Coordinator`."""
        await self._expiry.expire()
        await self.transactions.abort_overdue()
        await self.transactions.remove_expired()

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

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TopicDeleted):
            job = partial(self._expiry.forget_topic, event.topic)
            self._broker.tasks.once(f"offsets of {event.topic.name}", job)
