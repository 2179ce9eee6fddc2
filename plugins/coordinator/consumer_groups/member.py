"""A member of a consumer group: its subscription and its current assignment."""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import IntEnum
from typing import Final, TypeAlias

import attrs

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

OwnedPartitions: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Topic id → partition → the epoch in which it was assigned to the member; no topic without a partition."""

NO_EPOCHS: Final[Mapping[int, int]] = {}


class MemberState(IntEnum):
    """State of a member's reconciliation; the numbers are those of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@attrs.frozen
class ClassicProtocol:
    """JoinGroup data of a member of the classic protocol; protocols in its order of preference."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the protocols; a client may send one twice."""
        return frozenset(name for name, _ in self.protocols)


@attrs.frozen
class MemberProfile:
    """A member's subscription and identity; it has `rebalance_timeout_ms` to revoke partitions.

    `classic` is there for a member that speaks the classic protocol.
    """

    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicProtocol | None = None


@attrs.frozen
class CurrentAssignment:
    """The partitions that a member owns, and those that it still has to revoke.

    `previous_epoch` is accepted once more from a member that missed the answer with its new one.
    """

    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = attrs.field(factory=dict[bytes, dict[int, int]])
    revoking: OwnedPartitions = attrs.field(factory=dict[bytes, dict[int, int]])

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member owns exactly its target assignment of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def owned(self, topic_id: bytes) -> Set[int]:
        """Return the partitions of a topic that the member owns, also those that it has to revoke."""
        assigned, revoking = self.assigned.get(topic_id), self.revoking.get(topic_id)
        if assigned and revoking:
            return assigned.keys() | revoking.keys()
        return (assigned or revoking or NO_EPOCHS).keys()

    def has_same(self, topic_id: bytes, other: CurrentAssignment) -> bool:
        """Return whether the mappings of a topic are the very objects of the other assignment.

        That is fast, and finds nearly all topics that a step of reconciliation leaves as they are.
        """
        return self.assigned.get(topic_id) is other.assigned.get(topic_id) and (
            self.revoking.get(topic_id) is other.revoking.get(topic_id)
        )


@attrs.frozen
class ConsumerGroupMember:
    """A member."""

    member_id: str
    metadata: MemberProfile = MemberProfile()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def is_classic(self) -> bool:
        """Return whether the member speaks the classic protocol."""
        return self.metadata.classic is not None


def partition_epoch(owned: OwnedPartitions, topic_id: bytes, partition: int) -> int | None:
    """Return the epoch in which a partition was assigned to its owner, None if it is not in `owned`."""
    return owned.get(topic_id, {}).get(partition)
