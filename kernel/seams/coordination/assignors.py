"""The seam of server-side assignors, which assign partitions to the members of a group (KIP-848).

An assignor is a pure function of what it is given. For a small group it runs on the broker's event loop; for
a large one in a thread, or in steps on the event loop if it is an `AssignorInSteps`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

from tidelog.kernel.errors import BrokerError

PartitionsByTopic: TypeAlias = Mapping[bytes, frozenset[int]]
"""Numbers of partitions by the id of their topic (16 bytes); no topic without a partition."""


class AssignmentFailed(BrokerError):
    """An assignor cannot assign, or its assignment is invalid; the group is unchanged."""


@attrs.frozen
class MemberSubscription:
    """A member that is subscribed to the topics `topic_ids`.

    `target` is its last target assignment; it may name topics and partitions that no longer exist.
    """

    topic_ids: frozenset[bytes]
    target: PartitionsByTopic = attrs.field(factory=dict[bytes, frozenset[int]])
    instance_id: str | None = None
    rack_id: str | None = None


@attrs.frozen
class GroupSpec:
    """The members of a group by their ids, and the number of partitions of each of their topics.

    Every topic that a member subscribes to is in `partition_counts`.
    """

    members: Mapping[str, MemberSubscription]
    partition_counts: Mapping[bytes, int]


class PartitionAssignor(Protocol):
    """One way to assign partitions, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that `group.consumer.assignors` and a consumer's `group.remote.assignor` choose it by."""
        ...

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        """Return the target assignment of each member; a member that is missing gets no partition.

        No partition goes to two members, and none to a member that does not subscribe to its topic.

        Raises:
            AssignmentFailed: it cannot be done.
        """
        ...


@runtime_checkable
class AssignorInSteps(PartitionAssignor, Protocol):
    """An assignor that can give way to other work of the event loop."""

    def assign_in_steps(self, group: GroupSpec) -> Generator[None, None, Mapping[str, PartitionsByTopic]]:
        """Do what `assign` does, and yield after each piece of it, of a millisecond or less."""
        ...
