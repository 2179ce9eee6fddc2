"""Reconciliation of a member with its target assignment; no partition ever has two owners.

    STABLE ──target changed──► UNREVOKED_PARTITIONS ──all revoked──► next epoch
    next epoch: UNRELEASED_PARTITIONS while others still hold some of the target, STABLE when it has all of it

A member first revokes what is not in its target, in its old epoch, and only then moves to the new one and
gets what is free. Source: KIP-848, "Reconciliation of the group".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import attrs

from tidelog.kernel.errors import FencedMemberEpoch
from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.plugins.coordinator.consumer_groups.member import (
    CurrentAssignment,
    Member,
    MemberState,
    OwnedPartitions,
)

NOTHING: Final[frozenset[int]] = frozenset()


@attrs.frozen
class Reconciliation:
    """One step of one member.

    Attributes:
        target_epoch: the epoch of the target assignment
        target: the member's target assignment
        topic_ids: the topics that it subscribes to now
        subscription_changed: whether this request changed its subscription
        reported: the partitions that it reports to own, None if it reports none or any
        owners: the owner of each partition, by topic
    """

    target_epoch: int
    target: PartitionsByTopic
    topic_ids: Collection[bytes]
    subscription_changed: bool
    reported: PartitionsByTopic | None
    owners: Mapping[bytes, Mapping[int, str]]

    def next_assignment(self, member: Member) -> CurrentAssignment:
        """Return the next assignment of a member.

        Raises:
            FencedMemberEpoch: it is in a state that this broker does not know; it has to join again.
        """
        current = member.current
        if current.state is MemberState.UNKNOWN:
            if self.reported is None or self.reported:
                raise FencedMemberEpoch(
                    f"member {member.member_id} is in an unknown state; it has to give up its partitions and "
                    "join again"
                )
            return self._advance(member, attrs.evolve(current, epoch=self.target_epoch))
        waits = current.state is MemberState.UNREVOKED_PARTITIONS and self._holds(current.revoking)
        settled = current.is_reconciled_to(self.target_epoch)
        if waits or settled:
            return self._without_unsubscribed(current) if self.subscription_changed else current
        return self._advance(member, current)

    def _advance(self, member: Member, current: CurrentAssignment) -> CurrentAssignment:
        kept: dict[bytes, dict[int, int]] = {}
        leaving: dict[bytes, dict[int, int]] = {}
        for topic_id, partitions in current.assigned.items():
            wanted = self.target.get(topic_id, NOTHING) if topic_id in self.topic_ids else NOTHING
            _put(kept, topic_id, {number: epoch for number, epoch in partitions.items() if number in wanted})
            _put(
                leaving,
                topic_id,
                {number: epoch for number, epoch in partitions.items() if number not in wanted},
            )
        if leaving and self._holds(leaving):
            return _moved(current, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, leaving)
        complete = self._take_free(member, kept)
        state = MemberState.STABLE if complete else MemberState.UNRELEASED_PARTITIONS
        return _moved(current, self.target_epoch, state, kept, {})

    def _take_free(self, member: Member, kept: dict[bytes, dict[int, int]]) -> bool:
        """Add to `kept` what of the target no other member owns; return whether that is all of it."""
        complete = True
        for topic_id in self.target.keys() & set(self.topic_ids):
            missing = self.target[topic_id] - kept.get(topic_id, {}).keys()
            owners = self.owners.get(topic_id, {})
            free = [number for number in missing if owners.get(number, member.member_id) == member.member_id]
            if free:
                kept.setdefault(topic_id, {}).update(dict.fromkeys(free, self.target_epoch))
            complete = complete and len(free) == len(missing)
        return complete

    def _without_unsubscribed(self, current: CurrentAssignment) -> CurrentAssignment:
        """Return the assignment without topics that the member unsubscribed from."""
        dropped = {topic: owned for topic, owned in current.assigned.items() if topic not in self.topic_ids}
        if not dropped:
            return current
        kept = {topic: owned for topic, owned in current.assigned.items() if topic in self.topic_ids}
        leaving = {topic: dict(owned) for topic, owned in current.revoking.items()}
        for topic_id, owned in dropped.items():
            leaving.setdefault(topic_id, {}).update(owned)
        if self._holds(leaving):
            return _moved(current, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, leaving)
        return _moved(current, current.epoch, current.state, kept, current.revoking)

    def _holds(self, leaving: OwnedPartitions) -> bool:
        """Return whether the member still owns what it has to revoke; without a report it does."""
        if self.reported is None:
            return True
        return any(
            not partitions.isdisjoint(leaving.get(topic_id, {}))
            for topic_id, partitions in self.reported.items()
        )


def _put(owned: dict[bytes, dict[int, int]], topic_id: bytes, partitions: dict[int, int]) -> None:
    if partitions:
        owned[topic_id] = partitions


def _moved(
    current: CurrentAssignment,
    epoch: int,
    state: MemberState,
    assigned: OwnedPartitions,
    revoking: OwnedPartitions,
) -> CurrentAssignment:
    previous_epoch = current.previous_epoch if epoch == current.epoch else current.epoch
    return CurrentAssignment(epoch, previous_epoch, state, assigned, revoking)
