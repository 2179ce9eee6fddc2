"""Reconciliation of a member with its target assignment; no partition ever has two owners.

    STABLE ──target changed──► UNREVOKED_PARTITIONS ──all revoked──► next epoch
    next epoch: UNRELEASED_PARTITIONS while others still hold some of the target, STABLE when it has all of it

A member first revokes what is not in its target, in its old epoch, and only then moves to the new one and
gets what is free. Source: KIP-848, "Reconciliation of the group".
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from typing import Final

import attrs

from tidelog.kernel.errors import FencedMemberEpoch
from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.plugins.coordinator.consumer_groups.member import (
    NO_EPOCHS,
    ConsumerGroupMember,
    CurrentAssignment,
    MemberState,
    OwnedPartitions,
)

NOTHING: Final[frozenset[int]] = frozenset()
NO_OWNERS: Final[Mapping[int, str]] = {}


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

    def next_assignment(self, member: ConsumerGroupMember) -> Generator[None, None, CurrentAssignment]:
        """Return the next assignment of a member, in steps.

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
            return (yield from self._advance(member, attrs.evolve(current, epoch=self.target_epoch)))
        waits = current.state is MemberState.UNREVOKED_PARTITIONS and self._holds(current.revoking)
        settled = current.is_reconciled_to(self.target_epoch)
        if waits or settled:
            return self._without_unsubscribed(current) if self.subscription_changed else current
        return (yield from self._advance(member, current))

    def _advance(
        self, member: ConsumerGroupMember, current: CurrentAssignment
    ) -> Generator[None, None, CurrentAssignment]:
        kept, leaving = yield from self._split(current.assigned)
        if leaving and self._holds(leaving):
            return _moved(current, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, leaving)
        complete = yield from self._take_free(member, kept)
        state = MemberState.STABLE if complete else MemberState.UNRELEASED_PARTITIONS
        return _moved(current, self.target_epoch, state, kept, {})

    def _split(
        self, assigned: OwnedPartitions
    ) -> Generator[None, None, tuple[dict[bytes, Mapping[int, int]], dict[bytes, Mapping[int, int]]]]:
        """Return what of the assigned partitions is in the target, and what is not.

        The mappings of topics of which all stay, or all leave, are used as they are: these are most of them.
        """
        kept: dict[bytes, Mapping[int, int]] = {}
        leaving: dict[bytes, Mapping[int, int]] = {}
        for place, (topic_id, epochs) in enumerate(assigned.items()):
            wanted = self.target.get(topic_id, NOTHING) if topic_id in self.topic_ids else NOTHING
            if epochs.keys() <= wanted:
                kept[topic_id] = epochs
            elif wanted.isdisjoint(epochs):
                leaving[topic_id] = epochs
            else:
                kept[topic_id] = {number: epoch for number, epoch in epochs.items() if number in wanted}
                leaving[topic_id] = {
                    number: epoch for number, epoch in epochs.items() if number not in wanted
                }
            if not place % ITEMS_PER_STEP:
                yield
        return kept, leaving

    def _take_free(
        self, member: ConsumerGroupMember, kept: dict[bytes, Mapping[int, int]]
    ) -> Generator[None, None, bool]:
        """Add to `kept` what of the target no other member owns; return whether that is all of it."""
        complete = True
        for place, (topic_id, wanted) in enumerate(self.target.items()):
            has = kept.get(topic_id, NO_EPOCHS)
            if topic_id in self.topic_ids and len(has) < len(wanted):
                missing, owners = wanted.difference(has), self.owners.get(topic_id, NO_OWNERS)
                held = [each for each in missing & owners.keys() if owners[each] != member.member_id]
                free = missing.difference(held)
                if free:
                    kept[topic_id] = {**has, **dict.fromkeys(free, self.target_epoch)}
                complete = complete and not held
            if not place % ITEMS_PER_STEP:
                yield
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


def _moved(
    current: CurrentAssignment,
    epoch: int,
    state: MemberState,
    assigned: OwnedPartitions,
    revoking: OwnedPartitions,
) -> CurrentAssignment:
    previous_epoch = current.previous_epoch if epoch == current.epoch else current.epoch
    return CurrentAssignment(epoch, previous_epoch, state, assigned, revoking)
