"""What can change about a group: each is one record of `__consumer_offsets`, and there is no other way."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.plugins.coordinator.consumer_groups.member import CurrentAssignment, MemberMetadata


@attrs.frozen
class ResolvedRegex:
    """The topics that a regular expression meant, and when they were looked up."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@attrs.frozen
class EpochSet:
    """The group's epoch: raised whenever the target assignment has to be computed anew.

    `metadata_hash` tells the subscribed topics and their partitions that it was raised for from others.
    """

    epoch: int
    metadata_hash: int


@attrs.frozen
class GroupRemoved:
    """The group is no more."""


@attrs.frozen
class PartitionMetadataSet:
    """Written by brokers before Kafka 4.1; taken away when the group next changes."""


@attrs.frozen
class PartitionMetadataRemoved:
    """It is taken away."""


@attrs.frozen
class MemberSet:
    """A member came, or wants something else."""

    member_id: str
    metadata: MemberMetadata


@attrs.frozen
class MemberRemoved:
    """A member is gone; its assignments have been removed before."""

    member_id: str


@attrs.frozen
class AssignmentEpochSet:
    """The target assignment is that of this epoch; a time of 0 lets the next one be computed at once."""

    epoch: int
    timestamp_ms: int


@attrs.frozen
class AssignmentEpochRemoved:
    """There is no target assignment any more."""


@attrs.frozen
class TargetSet:
    """What a member shall have in the end."""

    member_id: str
    partitions: PartitionsByTopic


@attrs.frozen
class TargetRemoved:
    """A member shall have nothing."""

    member_id: str


@attrs.frozen
class CurrentSet:
    """What a member has, and its epoch."""

    member_id: str
    current: CurrentAssignment


@attrs.frozen
class CurrentRemoved:
    """A member has nothing any more."""

    member_id: str


@attrs.frozen
class RegexSet:
    """A regular expression was resolved."""

    regex: str
    resolved: ResolvedRegex


@attrs.frozen
class RegexRemoved:
    """No member subscribes to a regular expression any more."""

    regex: str


Change: TypeAlias = (
    EpochSet
    | GroupRemoved
    | PartitionMetadataSet
    | PartitionMetadataRemoved
    | MemberSet
    | MemberRemoved
    | AssignmentEpochSet
    | AssignmentEpochRemoved
    | TargetSet
    | TargetRemoved
    | CurrentSet
    | CurrentRemoved
    | RegexSet
    | RegexRemoved
)
