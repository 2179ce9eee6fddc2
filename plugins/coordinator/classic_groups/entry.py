"""A classic group as the rest of the coordinator sees it: besides the machine, what the log knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import attrs

from tidelog.kernel.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import DescribedGroup, DescribedMember, ListedGroup
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.member import Member
from tidelog.plugins.coordinator.classic_groups.rebalance import begin_session
from tidelog.plugins.coordinator.classic_groups.recording import tombstone_of
from tidelog.plugins.coordinator.classic_groups.states import GroupState
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.offsets.guard import ExpiryRule
from tidelog.plugins.coordinator.records.consumer_protocol import CONSUMER_PROTOCOL_TYPE, read_subscription
from tidelog.plugins.protocol_kafka.codecs.errors import CodecError


class _Subscribed(NamedTuple):
    """What the members of a generation read; `topics` is None if that cannot be read."""

    generation: int
    protocol_name: str
    topics: frozenset[str] | None


@attrs.define(eq=False)
class ClassicEntry:
    """A group, the partition of the log that it is in, and since when (by the wall clock) it is in the state
    that its record there has; None if that is not known, or without a record."""

    group: ClassicGroup
    partition: int
    state_timestamp_ms: int | None = None
    _subscribed: _Subscribed | None = attrs.field(default=None, init=False)

    @property
    def group_id(self) -> str:
        """Its id."""
        return self.group.group_id

    @property
    def group_type(self) -> Literal["classic"]:
        """Its kind."""
        return "classic"

    def is_empty(self) -> bool:
        """Whether it has no members; some may be about to join."""
        return self.group.state is GroupState.EMPTY

    def is_idle(self) -> bool:
        """Whether it has no members, and none is about to join."""
        return self.is_empty() and not self.group.pending

    def listed(self) -> ListedGroup:
        """Its line in the list of groups."""
        group = self.group
        return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, "classic")

    def described(self) -> DescribedGroup:
        """What tools are told; what members say about themselves is only meant for a stable group."""
        group = self.group
        stable = group.state is GroupState.STABLE
        return DescribedGroup(
            group.group_id,
            group.state.value,
            group.protocol_type or "",
            group.protocol_name or "" if stable else "",
            [
                _described(member, group.metadata_of(member) if stable else b"")
                for member in group.members.values()
            ],
        )

    def check_commit(self, commit: OffsetCommit, now_ms: int) -> None:
        """See `CommitGuard.check_commit`; the commit of a member counts as a heartbeat."""
        group = self.group
        if group.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"group {group.group_id!r} has just been removed")
        if commit.generation < 0 and self.is_empty():
            return
        if commit.generation < 0 and not commit.member_id and commit.group_instance_id is None:
            # Old clients do not tell who they are when they commit in a transaction.
            if commit.is_transactional:
                return
            raise UnknownMemberId(f"group {group.group_id!r} has members; others cannot commit for it")
        member = group.check_member(commit.member_id, commit.group_instance_id)
        group.check_generation(commit.generation)
        if group.state is GroupState.COMPLETING_REBALANCE and not commit.is_transactional:
            raise RebalanceInProgress(f"group {group.group_id!r} is beginning a generation")
        begin_session(group, member, now_ms)

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """Everybody may see a classic group's offsets."""

    def check_delete_offsets(self) -> None:
        """See `CommitGuard.check_delete`: only consumers say what they read."""
        group = self.group
        if group.state is GroupState.DEAD:
            raise GroupIdNotFound(f"group {group.group_id!r} has just been removed")
        if not self.is_empty() and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise NonEmptyGroup(f"group {group.group_id!r} has members")

    def subscribes(self, topic: str) -> bool:
        """Whether a member reads the topic; consumers whose subscriptions cannot be read may read any."""
        if self.group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        topics = self._subscribed_topics()
        return topics is None or topic in topics

    def expiry(self) -> ExpiryRule | None:
        """See `CommitGuard.expiry` (KIP-211)."""
        group = self.group
        if group.protocol_type is None:
            return ExpiryRule()
        if self.is_empty():
            return ExpiryRule(self.state_timestamp_ms)
        if group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return None if self._subscribed_topics() is None else ExpiryRule()
        return None

    def tombstones(self) -> Sequence[StateRecord]:
        """Return what takes the group out of the log.

        That is a tombstone also of a group without a record: to Kafka the records of its offsets begin a
        group, which their own tombstones do not end.
        """
        return [tombstone_of(self.group_id)]

    def _subscribed_topics(self) -> frozenset[str] | None:
        """Return what the members read, None if that is unknown.

        As in Kafka it is computed once a generation: a request may name many topics.
        """
        group, known = self.group, self._subscribed
        if not group.members:
            return frozenset()
        if group.protocol_name is None:
            return None
        if known is None or known[:2] != (group.generation, group.protocol_name):
            known = _Subscribed(group.generation, group.protocol_name, _topics_of(group))
            self._subscribed = known
        return known.topics


def _topics_of(group: ClassicGroup) -> frozenset[str] | None:
    try:
        return frozenset(
            topic
            for member in group.members.values()
            for topic in read_subscription(group.metadata_of(member)).topics
        )
    except CodecError:
        return None


def _described(member: Member, metadata: bytes) -> DescribedMember:
    return DescribedMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        metadata,
        member.assignment,
    )
