"""Removal of offsets that have expired, and of those in topics that were deleted (KIP-211).

The retention time counts from when the group lost its last member; for groups without members at all, and for
topics that no member subscribes to, from each commit. An offset whose client asked for a retention time of
its own (OffsetCommit versions 2 to 4) expires then. A group without members is removed with its last offset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from tidelog.kernel.errors import BrokerError, UnknownMemberId
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.coordination.offsets import NO_TIMESTAMP, CommittedOffset
from tidelog.plugins.coordinator.groups.group import ExpiryRule
from tidelog.plugins.coordinator.groups.registry import GroupRegistry
from tidelog.plugins.coordinator.offsets.records import OFFSETS_PER_BATCH, OffsetChange, PartitionKey
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.runtime import StateRecord
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime

if TYPE_CHECKING:
    from tidelog.kernel.metadata import TopicImage


_log = logging.getLogger(__name__)

LOADING_POLL_S: Final = 0.1

CommittedItem: TypeAlias = tuple[PartitionKey, CommittedOffset]


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
        expired = await self._remove_each(
            lambda partition, group_id, some: self._expire(partition, group_id, some, now_ms)
        )
        if expired:
            _log.info("%d committed offsets have expired", expired)

    async def forget_topic(self, topic: TopicImage) -> None:
        """Remove what was committed in a topic that has just been deleted, in slices."""
        deleted_ms = self._runtime.clock()
        while not self._runtime.log.progress.done:  # noqa: ASYNC110 rare, and no caller waits for it
            await trio.sleep(LOADING_POLL_S)

        def forget(partition: int, group_id: str, some: Sequence[CommittedItem]) -> int:
            gone = [tp for tp, offset in some if tp[0] == topic.name and _is_of(topic, offset, deleted_ms)]
            return self._remove(partition, group_id, gone)

        await self._remove_each(forget)

    async def _remove_each(self, remove: Callable[[int, str, Sequence[CommittedItem]], int]) -> int:
        """Call `remove` with some offsets of each group after another; return how many went.

        It decides and writes in one step, since other tasks run between two calls: offsets may then be
        committed again, and members join.
        """
        pace, removed = Pace(), 0
        for partition, group_id in self._groups():
            offsets = self._store.table(partition).committed(group_id).items()
            while True:
                some = list(islice(offsets, OFFSETS_PER_BATCH))
                removed += remove(partition, group_id, some)
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

    def _expire(self, partition: int, group_id: str, some: Sequence[CommittedItem], now_ms: int) -> int:
        """Remove those of a group's offsets that have expired, and the group with its last one."""
        group, table = self._registry.find(group_id), self._store.table(partition)
        rule = ExpiryRule() if group is None else group.expiry()
        if rule is None:
            return 0
        pending = table.pending.partitions(group_id)
        partitions = [
            tp
            for tp, offset in some
            if self._has_expired(offset, rule, now_ms)
            and tp not in pending
            and not (group is not None and group.subscribes(tp[0]))
        ]
        tombstones: Sequence[StateRecord] | None = None
        if not pending and len(partitions) == len(table.committed(group_id)):
            if group is None and partitions:
                tombstones = [self._tombstone(group_id)]
            elif group is not None and group.is_idle():
                tombstones = group.tombstones()
        return self._remove(partition, group_id, partitions, tombstones)

    def _has_expired(self, offset: CommittedOffset, rule: ExpiryRule, now_ms: int) -> bool:
        if offset.expire_timestamp_ms != NO_TIMESTAMP:
            return now_ms >= offset.expire_timestamp_ms
        since_ms = offset.commit_timestamp_ms if rule.since_ms is None else rule.since_ms
        return now_ms - since_ms >= self._retention_ms

    def _remove(
        self,
        partition: int,
        group_id: str,
        partitions: Sequence[PartitionKey],
        group_tombstones: Sequence[StateRecord] | None = None,
    ) -> int:
        """Remove offsets, and with its tombstones also the group; return how many offsets went."""
        if not (partitions or group_tombstones):
            return 0
        changes = [OffsetChange(group_id, tp, None) for tp in partitions]
        try:
            self._runtime.write(partition, self._store.table(partition), changes, more=group_tombstones or ())
        except BrokerError as error:
            _log.warning("offsets of group %r stay for now: %s", group_id, error)
            return 0
        group = self._registry.find(group_id)
        if group_tombstones is not None and group is not None:
            self._registry.remove(group, UnknownMemberId(f"group {group_id!r} has expired"))
        return len(partitions)


def _is_of(topic: TopicImage, offset: CommittedOffset, deleted_ms: int) -> bool:
    """Return whether an offset was committed in the deleted topic, not in a newer one of that name."""
    if offset.topic_id is not None:
        return offset.topic_id == topic.topic_id.bytes
    return offset.commit_timestamp_ms <= deleted_ms
