"""Offsets that go by themselves: those that expired, and those in topics that were deleted (KIP-211).

The retention time counts from when the group lost its last member; without members at all, or in topics that
none of them reads, from each commit. What a client gave an expiry time of its own (OffsetCommit versions 2 to
4) goes then. A group that is empty goes with its last offset.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import trio

from tidelog.kernel.clock import Clock
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.coordination.offsets import NO_TIMESTAMP, CommittedOffset
from tidelog.kernel.topics import Topic
from tidelog.plugins.coordinator.log import StateLog, StateRecord
from tidelog.plugins.coordinator.offsets.guard import CommitGuard, ExpiryRule
from tidelog.plugins.coordinator.offsets.service import Offsets
from tidelog.plugins.coordinator.offsets.table import GroupOffsets, Place
from tidelog.plugins.coordinator.records.offsets import offset_key

_log = logging.getLogger(__name__)

OFFSETS_PER_SLICE = 500
"""What is looked at before others get their turn: about a millisecond."""
LOADING_POLL_S = 0.1


class OffsetExpiry:
    """Looks through all groups now and then; what is to go gets tombstones, a batch for each group."""

    def __init__(
        self, log: StateLog, offsets: Offsets, guard: CommitGuard, clock: Clock, retention_ms: int
    ) -> None:
        self._log = log
        self._offsets = offsets
        self._guard = guard
        self._clock = clock
        self._retention_ms = retention_ms

    async def expire(self) -> None:
        """Remove what has expired by now; others get their turn in between. Not before all was read back."""
        if not self._log.progress.done:
            return
        now_ms, expired, looked_at = self._clock(), 0, 0
        for partition, group_id, found in self._groups():
            expired += self._expire_group(partition, group_id, found, now_ms)
            looked_at += 1 + len(found)
            if looked_at >= OFFSETS_PER_SLICE:
                looked_at = 0
                await trio.lowlevel.checkpoint()
        if expired:
            _log.info("%d committed offsets have expired", expired)

    async def forget_topic(self, topic: Topic) -> None:
        """Remove what was committed in a topic before it was deleted, which is now."""
        deleted_ms, looked_at = self._clock(), 0
        while not self._log.progress.done:  # noqa: ASYNC110 rare, and nobody waits for it
            await trio.sleep(LOADING_POLL_S)
        for partition, group_id, found in self._groups():
            places = [
                place
                for place, offset in found.items()
                if place[0] == topic.name and _is_of(topic, offset, deleted_ms)
            ]
            self._remove(partition, group_id, places)
            looked_at += 1 + len(found)
            if looked_at >= OFFSETS_PER_SLICE:
                looked_at = 0
                await trio.lowlevel.checkpoint()

    def _groups(self) -> Iterator[tuple[int, str, GroupOffsets]]:
        """The partition, the id and the offsets of every group, also of those that have none."""
        table = self._offsets.table
        for partition in range(self._log.partition_count):
            ids = dict.fromkeys((*self._guard.group_ids(partition), *table.group_ids(partition)))
            for group_id in ids:
                yield partition, group_id, table.find(partition, group_id) or GroupOffsets()

    def _expire_group(self, partition: int, group_id: str, found: GroupOffsets, now_ms: int) -> int:
        rule = self._guard.expiry(group_id)
        if rule is None:
            return 0
        pending = self._offsets.pending.places(group_id)
        places: list[Place] = []
        last = not pending
        for place, offset in found.items():
            if (
                self._has_expired(offset, rule, now_ms)
                and place not in pending
                and not self._guard.subscribes(group_id, place[0])
            ):
                places.append(place)
            else:
                last = False
        group = self._guard.tombstones(group_id) if last else None
        return self._remove(partition, group_id, places, group)

    def _has_expired(self, offset: CommittedOffset, rule: ExpiryRule, now_ms: int) -> bool:
        if offset.expire_timestamp_ms != NO_TIMESTAMP:
            return now_ms >= offset.expire_timestamp_ms
        since_ms = offset.commit_timestamp_ms if rule.since_ms is None else rule.since_ms
        return now_ms - since_ms >= self._retention_ms

    def _remove(
        self,
        partition: int,
        group_id: str,
        places: Sequence[Place],
        group: Sequence[StateRecord] | None = None,
    ) -> int:
        records = [StateRecord(offset_key(group_id, *place), None) for place in places]
        if group is not None:
            records += group
        if not records and group is None:
            return 0
        try:
            if records:
                self._log.append(partition, records)
        except BrokerError as error:
            _log.warning("offsets of group %r stay for now: %s", group_id, error)
            return 0
        self._offsets.remove(group_id, places)
        if group is not None:
            self._guard.forget(group_id)
        return len(places)


def _is_of(topic: Topic, offset: CommittedOffset, deleted_ms: int) -> bool:
    """Whether an offset is one of the topic that was deleted, and not of one that bears its name by now."""
    if offset.topic_id is not None:
        return offset.topic_id == topic.topic_id.bytes
    return offset.commit_timestamp_ms <= deleted_ms
