"""Removal of offsets that have expired, and of those in topics that were deleted (KIP-211).

The retention time counts from when the group lost its last member; for groups without members at all, and for
topics that no member subscribes to, from each commit. An offset whose client asked for a retention time of
its own (OffsetCommit versions 2 to 4) expires then. A group without members is removed with its last offset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.errors import BrokerError, UnknownMemberId
from tidelog.kernel.pace import Pace
from tidelog.plugins.coordinator.groups.registry import GroupRegistry
from tidelog.plugins.coordinator.offsets.machine import (
    CommittedItem,
    ExpiryDecision,
    drop_offsets_in,
    expire_offsets,
)
from tidelog.plugins.coordinator.offsets.records import OFFSETS_PER_BATCH, OffsetChange
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.offsets.table import OffsetTable
from tidelog.plugins.coordinator.runtime import StateRecord
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime

if TYPE_CHECKING:
    from tidelog.kernel.metadata import TopicImage


_log = logging.getLogger(__name__)

LOADING_POLL_S: Final = 0.1


class OffsetExpiry:
    """Checks all groups from time to time, and writes tombstones for what has expired, some in a batch."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        store: OffsetStore,
        groups: GroupRegistry,
        tombstone: Callable[[str], StateRecord],
        retention_ms: int,
    ) -> None:
        """`tombstone` returns the record that removes a group of which there are only offsets."""
        self._tombstone = tombstone
        self._runtime = runtime
        self._store = store
        self._registry = groups
        self._retention_ms = retention_ms

    async def expire(self) -> None:
        """Remove what has expired by now, in slices; while the log is being loaded do nothing."""
        if not self._runtime.log.progress.done:
            return
        now_ms = self._runtime.clock()

        def decide(table: OffsetTable, group_id: str, some: Sequence[CommittedItem]) -> ExpiryDecision:
            group = self._registry.find(group_id)
            return expire_offsets(group, group_id, table, some, now_ms, self._retention_ms)

        expired = await self._remove_each(decide)
        if expired:
            _log.info("%d committed offsets have expired", expired)

    async def forget_topic(self, topic: TopicImage) -> None:
        """Remove what was committed in a topic that has just been deleted, in slices."""
        deleted_ms = self._runtime.clock()
        while not self._runtime.log.progress.done:  # noqa: ASYNC110 rare, and no caller waits for it
            await trio.sleep(LOADING_POLL_S)

        await self._remove_each(lambda _, group_id, some: drop_offsets_in(topic, group_id, some, deleted_ms))

    async def _remove_each(
        self, decide: Callable[[OffsetTable, str, Sequence[CommittedItem]], ExpiryDecision]
    ) -> int:
        """Decide about some offsets of each group after another, and remove them; return how many went.

        Between a decision and its write no other task runs: offsets may be committed again, and members join.
        """
        pace, removed = Pace(), 0
        for partition, group_id in self._groups():
            table = self._store.table(partition)
            offsets = table.committed(group_id).items()
            while True:
                some = list(islice(offsets, OFFSETS_PER_BATCH))
                removed += self._remove(partition, group_id, *decide(table, group_id, some))
                await pace.turn()
                if len(some) < OFFSETS_PER_BATCH:
                    break
        return removed

    def _groups(self) -> Iterator[tuple[int, str]]:
        """Iterate over the partitions and ids of all groups, also of those without offsets."""
        for partition in range(self._runtime.log.partition_count):
            groups = (group.group_id for group in self._registry.of_partition(partition))
            for group_id in dict.fromkeys((*groups, *self._store.table(partition).group_ids())):
                yield partition, group_id

    def _remove(
        self, partition: int, group_id: str, changes: Sequence[OffsetChange], removes_group: bool
    ) -> int:
        """Remove offsets, or the group with them; return how many offsets went."""
        if not (changes or removes_group):
            return 0
        group = self._registry.find(group_id)
        tombstones: Sequence[StateRecord] = ()
        if removes_group:
            tombstones = [self._tombstone(group_id)] if group is None else group.tombstones()
        try:
            self._runtime.write(partition, self._store.table(partition), changes, more=tombstones)
        except BrokerError as error:
            _log.warning("offsets of group %r stay for now: %s", group_id, error)
            return 0
        if removes_group and group is not None:
            self._registry.remove(group, UnknownMemberId(f"group {group_id!r} has expired"))
        return len(changes)
