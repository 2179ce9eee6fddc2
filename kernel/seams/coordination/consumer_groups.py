"""Groups of the consumer protocol: heartbeats and descriptions.

Source: KIP-848; KIP-1082 (member ids are made by clients).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import attrs

from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic

VisibleTopics: TypeAlias = Callable[[Collection[str]], Awaitable[frozenset[str]]]
"""Returns those of the topics that a client may know of."""


class ConsumerGroupHeartbeat(NamedTuple):
    """A member's heartbeat; a field of None has not changed since the last one.

    `member_epoch` is 0 to join, -1 to leave, -2 for a static member that will rejoin. `owned` are the
    partitions that the member has. `brings_member_id`: the client generates its member id (KIP-1082).
    `visible_topics` is what regular expressions may match, None for all topics.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: PartitionsByTopic | None = None
    client_id: str = ""
    client_host: str = ""
    brings_member_id: bool = True
    visible_topics: VisibleTopics | None = None


class HeartbeatAnswer(NamedTuple):
    """The response to a heartbeat; `assignment` is None if it has not changed since the last response."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: PartitionsByTopic | None = None


@attrs.frozen
class DescribedPartitions:
    """Partitions of a topic, whose name is empty if it was deleted."""

    topic_id: bytes
    topic_name: str
    partitions: Sequence[int]


@attrs.frozen
class DescribedConsumer:
    """A member as tools see it; `is_classic`: it uses the classic protocol."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: Sequence[str]
    topic_regex: str | None
    assignment: Sequence[DescribedPartitions]
    target: Sequence[DescribedPartitions]
    is_classic: bool


@attrs.frozen
class DescribedConsumerGroup:
    """A group; `state` is one of Empty, Assigning, Reconciling, Stable.

    There may be very many members: callers iterate over them in steps, as each may be made only then.
    """

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[DescribedConsumer]


class ConsumerGroupService(Protocol):
    """All groups of the consumer protocol. Any method may raise CoordinatorLoadInProgress, NotCoordinator."""

    def heartbeat(self, request: ConsumerGroupHeartbeat) -> HeartbeatAnswer | Awaitable[HeartbeatAnswer]:
        """Join, stay in, or leave a group; the answer may be sent once it is available.

        It is available at once if nothing changes but the member's session.

        Raises, at once or later:
            BrokerError: InvalidRequest, GroupIdNotFound, GroupMaxSizeReached, UnknownMemberId,
                FencedMemberEpoch, FencedInstanceId, UnreleasedInstanceId, UnsupportedAssignor,
                InvalidRegularExpression, AssignmentFailed, StorageError.
        """
        ...

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """Describe a group.

        Raises:
            GroupIdNotFound: there is no such group, or it is of the classic protocol.
        """
        ...
