"""Committed offsets: committing, fetching and deleting them.

Source: Kafka's OffsetCommit, OffsetFetch and OffsetDelete; KIP-211 (expiry), KIP-447 (stable offsets),
KIP-496 (deleting), KIP-848 (member epochs).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import NamedTuple, Protocol

import attrs

from tidelog.kernel.errors import BrokerError

NO_GENERATION = -1
NO_LEADER_EPOCH = -1
NO_OFFSET = -1
NO_TIMESTAMP = -1
NO_RETENTION = -1


class OffsetToCommit(NamedTuple):
    """The position of a group in one partition, as a client commits it.

    `topic_id` is 16 bytes, or None where the request has none: then it is that of the topic of this name.
    `commit_timestamp_ms` is -1 unless the request has a timestamp (only version 1 of the protocol does).
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = ""
    topic_id: bytes | None = None
    commit_timestamp_ms: int = NO_TIMESTAMP


@attrs.frozen
class OffsetCommit:
    """One request to commit.

    `generation` is a classic member's generation or a consumer member's epoch; -1 with an empty member id for
    clients that commit without being members. `retention_time_ms` of -1 leaves expiry to the broker.
    `knows_epochs`: the client understands errors about member epochs (version 9 and later).
    `is_transactional`: the request is TxnOffsetCommit.
    """

    group_id: str
    offsets: Sequence[OffsetToCommit]
    generation: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = NO_RETENTION
    knows_epochs: bool = True
    is_transactional: bool = False


class CommitOutcome(NamedTuple):
    """The result of a commit: for each offset None or why it was refused, in the order of the request.

    With `wait` the commit may be acknowledged only after that has returned; it raises the error otherwise.
    """

    errors: Sequence[BrokerError | None]
    wait: Callable[[], Awaitable[None]] | None = None


class CommittedOffset(NamedTuple):
    """A group's position in a partition, as it is stored; times are milliseconds since the epoch.

    `expire_timestamp_ms` is -1 unless the client chose a retention time of its own; `topic_id` (16 bytes) is
    None unless the client named the topic by it.
    """

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: bytes | None = None


@attrs.frozen
class OffsetFetch:
    """A request for the offsets of one group: `topics` maps names to partitions, None is all of them.

    `member_id` and `member_epoch` are those of a consumer member, None and -1 of all others.
    """

    group_id: str
    topics: Mapping[str, Sequence[int]] | None
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = NO_GENERATION


FetchedOffsets = Mapping[str, Mapping[int, CommittedOffset | BrokerError | None]]
"""Topic → partition → committed offset: None without one, UnstableOffsetCommit if a transaction decides."""


class OffsetService(Protocol):
    """The offsets of all groups. Every method may raise CoordinatorLoadInProgress and NotCoordinator."""

    def commit(self, request: OffsetCommit) -> CommitOutcome:
        """Commit offsets; they are in the log, and fetches return them, when this returns.

        Raises:
            BrokerError: all of it is refused: GroupIdNotFound, UnknownMemberId, IllegalGeneration,
                RebalanceInProgress, FencedInstanceId, StaleMemberEpoch, InvalidGroupId, StorageError.
        """
        ...

    def commit_pending(self, request: OffsetCommit, producer_id: int, producer_epoch: int) -> CommitOutcome:
        """Commit offsets in the producer's transaction; fetches return them once that is committed.

        Raises:
            BrokerError: as `commit`; InvalidProducerEpoch: a newer instance of the producer was here.
        """
        ...

    def fetch(self, request: OffsetFetch) -> FetchedOffsets:
        """Return what a group has committed.

        Raises:
            BrokerError: InvalidGroupId, UnknownMemberId, StaleMemberEpoch, GroupIdNotFound.
        """
        ...

    def fetch_in_steps(self, request: OffsetFetch) -> Generator[None, None, FetchedOffsets]:
        """Return the same; yield after some offsets of a group that may have very many.

        Others may commit in between: of each offset it is the one at its turn.
        """
        ...

    def delete(self, group_id: str, partitions: Sequence[tuple[str, int]]) -> CommitOutcome:
        """Remove what a group has committed in these partitions, unless it is subscribed to their topic.

        Raises:
            BrokerError: InvalidGroupId, GroupIdNotFound, NonEmptyGroup, StorageError.
        """
        ...
