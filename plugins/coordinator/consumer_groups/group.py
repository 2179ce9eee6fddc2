"""A group of the consumer protocol: what its records tell, and the one place where a change is applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from enum import StrEnum
from typing import Any, Final

import attrs

from tidelog.kernel.coordination.assignors import PartitionsByTopic
from tidelog.plugins.coordinator.consumer_groups import changes
from tidelog.plugins.coordinator.consumer_groups.changes import Change, ResolvedRegex
from tidelog.plugins.coordinator.consumer_groups.member import (
    LEAVE_EPOCH,
    CurrentAssignment,
    Member,
    OwnedPartitions,
)

NO_ASSIGNMENT_EPOCH = -1


class ConsumerGroupState(StrEnum):
    """The state that clients are told."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@attrs.define
class ConsumerGroup:
    """A group and its members.

    Attributes:
        epoch: raised whenever what there is to assign changes
        assignment_epoch: the epoch that the target assignment was computed for
        targets: what each member shall have in the end
        owners: who has a partition now, including one who still has to give it up
        topics_version: the version of the topic catalogue that was looked at last; not in any record
    """

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_timestamp_ms: int = 0
    has_partition_metadata: bool = False
    members: dict[str, Member] = attrs.Factory(dict)
    static_members: dict[str, str] = attrs.Factory(dict)
    targets: dict[str, PartitionsByTopic] = attrs.Factory(dict)
    owners: dict[tuple[bytes, int], str] = attrs.Factory(dict)
    regexes: dict[str, ResolvedRegex] = attrs.Factory(dict)
    removed: bool = False
    topics_version: int | None = None

    def copy(self) -> ConsumerGroup:
        """A group that can be changed without this one noticing."""
        return attrs.evolve(
            self,
            members=dict(self.members),
            static_members=dict(self.static_members),
            targets=dict(self.targets),
            owners=dict(self.owners),
            regexes=dict(self.regexes),
        )

    @property
    def state(self) -> ConsumerGroupState:
        """How far the group is from owning what was assigned last."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.current.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str) -> Member | None:
        """The member that holds an instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def regex_subscribers(self) -> Counter[str]:
        """How many members subscribe to each regular expression."""
        return Counter(
            member.metadata.topic_regex for member in self.members.values() if member.metadata.topic_regex
        )

    def subscribed_names(self, member: Member) -> frozenset[str]:
        """The topics that a member wants, by name and by what its regular expression means so far."""
        names, regex = member.metadata.topic_names, member.metadata.topic_regex
        resolved = self.regexes.get(regex) if regex else None
        return names | resolved.topics if resolved else names

    def preferred_assignor(self, default: str, offered: Container[str]) -> str:
        """The assignor that most members ask for, `default` without any; ties go to the first by name."""
        asked = Counter(
            name
            for member in self.members.values()
            if (name := member.metadata.server_assignor) is not None and name in offered
        )
        return min(asked, key=lambda name: (-asked[name], name)) if asked else default

    def only_classic_members(self, without: Iterable[str] = ()) -> bool:
        """Whether all members but those `without` speak the classic protocol."""
        left_out = frozenset(without)
        return all(
            member.is_classic for member_id, member in self.members.items() if member_id not in left_out
        )

    def apply(self, change: Change) -> None:
        """Take a change over; the same for a decision that was just made and for a record that was read."""
        _APPLY[type(change)](self, change)

    def _set_epoch(self, change: changes.EpochSet) -> None:
        self.epoch, self.metadata_hash = change.epoch, change.metadata_hash

    def _remove_group(self, change: changes.GroupRemoved) -> None:
        self.removed = True

    def _set_partition_metadata(self, change: changes.PartitionMetadataSet) -> None:
        self.has_partition_metadata = True

    def _remove_partition_metadata(self, change: changes.PartitionMetadataRemoved) -> None:
        self.has_partition_metadata = False

    def _set_member(self, change: changes.MemberSet) -> None:
        member = self.members.get(change.member_id) or Member(change.member_id)
        self._forget_instance(member)
        self.members[change.member_id] = attrs.evolve(member, metadata=change.metadata)
        if change.metadata.instance_id is not None:
            self.static_members[change.metadata.instance_id] = change.member_id

    def _remove_member(self, change: changes.MemberRemoved) -> None:
        member = self.members.pop(change.member_id, None)
        if member is not None:
            self._forget_instance(member)
            self._disown(member.member_id, member.current)

    def _set_assignment_epoch(self, change: changes.AssignmentEpochSet) -> None:
        self.assignment_epoch, self.assignment_timestamp_ms = change.epoch, change.timestamp_ms

    def _remove_assignment_epoch(self, change: changes.AssignmentEpochRemoved) -> None:
        self.assignment_epoch, self.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0

    def _set_target(self, change: changes.TargetSet) -> None:
        self.targets[change.member_id] = change.partitions

    def _remove_target(self, change: changes.TargetRemoved) -> None:
        self.targets.pop(change.member_id, None)

    def _set_current(self, change: changes.CurrentSet) -> None:
        member = self.members.get(change.member_id) or Member(change.member_id)
        self._disown(change.member_id, member.current)
        self.members[change.member_id] = attrs.evolve(member, current=change.current)
        for owned in (change.current.assigned, change.current.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    self.owners[topic_id, partition] = change.member_id

    def _remove_current(self, change: changes.CurrentRemoved) -> None:
        member = self.members.get(change.member_id)
        if member is not None:
            self._disown(change.member_id, member.current)
            gone = CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH)
            self.members[change.member_id] = attrs.evolve(member, current=gone)

    def _set_regex(self, change: changes.RegexSet) -> None:
        self.regexes[change.regex] = change.resolved

    def _remove_regex(self, change: changes.RegexRemoved) -> None:
        self.regexes.pop(change.regex, None)

    def _forget_instance(self, member: Member) -> None:
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _disown(self, member_id: str, current: CurrentAssignment) -> None:
        for owned in (current.assigned, current.revoking):
            self._disown_partitions(member_id, owned)

    def _disown_partitions(self, member_id: str, owned: OwnedPartitions) -> None:
        for topic_id, partitions in owned.items():
            for partition in partitions:
                if self.owners.get((topic_id, partition)) == member_id:
                    del self.owners[topic_id, partition]


_APPLY: Final[dict[type[Any], Callable[[ConsumerGroup, Any], None]]] = {
    changes.EpochSet: ConsumerGroup._set_epoch,
    changes.GroupRemoved: ConsumerGroup._remove_group,
    changes.PartitionMetadataSet: ConsumerGroup._set_partition_metadata,
    changes.PartitionMetadataRemoved: ConsumerGroup._remove_partition_metadata,
    changes.MemberSet: ConsumerGroup._set_member,
    changes.MemberRemoved: ConsumerGroup._remove_member,
    changes.AssignmentEpochSet: ConsumerGroup._set_assignment_epoch,
    changes.AssignmentEpochRemoved: ConsumerGroup._remove_assignment_epoch,
    changes.TargetSet: ConsumerGroup._set_target,
    changes.TargetRemoved: ConsumerGroup._remove_target,
    changes.CurrentSet: ConsumerGroup._set_current,
    changes.CurrentRemoved: ConsumerGroup._remove_current,
    changes.RegexSet: ConsumerGroup._set_regex,
    changes.RegexRemoved: ConsumerGroup._remove_regex,
}
