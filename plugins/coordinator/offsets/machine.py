"""Decisions about committed offsets: pure functions of a group, of the offsets as they are, and of a request.

They raise or return the errors for the client, and return the changes, which have to be in the log before the
client is answered. Times are milliseconds since the epoch.

Source: Kafka's `OffsetMetadataManager`; KIP-211 (expiry), KIP-447 (transactions), KIP-496 (deletion).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tidelog.kernel.errors import (
    BrokerError,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    OffsetMetadataTooLarge,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.kernel.seams.coordination.offsets import (
    NO_RETENTION,
    NO_TIMESTAMP,
    CommittedOffset,
    FetchedOffsets,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.plugins.coordinator.groups.group import ExpiryRule, Group
from tidelog.plugins.coordinator.offsets.records import OffsetChange, PartitionKey
from tidelog.plugins.coordinator.offsets.table import NO_OFFSETS, OffsetTable

if TYPE_CHECKING:
    from tidelog.kernel.metadata import TopicImage
    from tidelog.kernel.topics import Topics

END_OF_TIME_MS: Final = 2**63 - 1
"""The latest time that a record can hold."""

CommittedItem: TypeAlias = tuple[PartitionKey, CommittedOffset]


class OffsetDecision(NamedTuple):
    """For each offset of a request why it is refused or None, and the changes of those that are not.

    `is_checked`: the client may commit; without an offset that could be committed that is not looked at.
    """

    errors: Sequence[BrokerError | None]
    changes: Sequence[OffsetChange] = ()
    is_checked: bool = False


class ExpiryDecision(NamedTuple):
    """The removal of offsets that have expired, and whether the group goes with its last one."""

    changes: Sequence[OffsetChange]
    removes_group: bool = False


def commit_offsets(
    group: Group | None, request: OffsetCommit, topics: Topics, metadata_max: int, now_ms: int
) -> OffsetDecision:
    """Decide about a commit, also one in a transaction; `metadata_max` is in characters.

    A client that is no member may commit for a group that does not exist, which then begins without members.

    Raises:
        GroupIdNotFound, IllegalGeneration: there is no such group, by `request.knows_epochs`.
        BrokerError: as `Group.check_commit`.
    """
    errors = [_refuse_place(offset, topics) for offset in request.offsets]
    if all(errors):
        return OffsetDecision(errors)
    _check_commit(group, request)
    expire_ms = _expiry_ms(now_ms, request.retention_time_ms)
    changes: list[OffsetChange] = []
    for index, offset in enumerate(request.offsets):
        metadata = offset.metadata or ""
        if errors[index] is not None:
            continue
        if len(metadata) > metadata_max:
            errors[index] = OffsetMetadataTooLarge(
                f"{len(metadata)} characters of metadata are more than offset.metadata.max.bytes, "
                f"{metadata_max}"
            )
            continue
        commit_ms = now_ms if offset.commit_timestamp_ms == NO_TIMESTAMP else offset.commit_timestamp_ms
        # A topic that is created again under the name has another id: the offset is not in that one.
        topic_id = offset.topic_id or topics.get(offset.topic).topic_id.bytes
        committed = CommittedOffset(
            offset.offset, offset.leader_epoch, metadata, commit_ms, expire_ms, topic_id
        )
        changes.append(OffsetChange(request.group_id, (offset.topic, offset.partition), committed))
    return OffsetDecision(errors, changes, is_checked=True)


def _refuse_place(offset: OffsetToCommit, topics: Topics) -> BrokerError | None:
    topic = topics.find(offset.topic)
    if topic is None or not 0 <= offset.partition < len(topic.partitions):
        return UnknownTopicOrPartition(f"there is no {offset.topic}-{offset.partition} to commit")
    return None


def _check_commit(group: Group | None, request: OffsetCommit) -> None:
    if group is not None:
        group.check_commit(request)
    elif request.generation >= 0:
        if request.knows_epochs:
            raise GroupIdNotFound(f"Group {request.group_id} not found.")
        raise IllegalGeneration(f"there is no group {request.group_id!r}, so it has no generation")


def _expiry_ms(now_ms: int, retention_ms: int) -> int:
    """Return when an offset expires whose client set a retention time, `NO_TIMESTAMP` without one.

    Kafka's own sum overflows for a very long time, and the offset then expires at once.
    """
    return NO_TIMESTAMP if retention_ms == NO_RETENTION else min(now_ms + retention_ms, END_OF_TIME_MS)


def fetch_offsets(
    group: Group | None, table: OffsetTable, request: OffsetFetch
) -> Generator[None, None, FetchedOffsets]:
    """Return what a group has committed, in steps where all of that is asked for.

    Raises:
        BrokerError: as `Group.check_fetch`.
    """
    group_id, offsets = request.group_id, NO_OFFSETS
    if group is not None:
        group.check_fetch(request)
        offsets = table.committed(group_id)
    fetched: dict[str, dict[int, CommittedOffset | BrokerError | None]] = {}
    if request.topics is None:
        for place, ((topic, index), offset) in enumerate(offsets.items()):
            fetched.setdefault(topic, {})[index] = offset
            if not place % ITEMS_PER_STEP:
                yield
    else:
        for topic, indexes in request.topics.items():
            fetched[topic] = {index: offsets.get((topic, index)) for index in indexes}
    if request.require_stable and table.pending.producers:
        for topic, index in table.pending.partitions(group_id):
            if index in fetched.get(topic, ()):
                fetched[topic][index] = UnstableOffsetCommit(
                    f"an open transaction may move group {group_id!r} in {topic}-{index}"
                )
    return fetched


def delete_offsets(
    group: Group, table: OffsetTable, partitions: Sequence[PartitionKey], topics: Topics
) -> OffsetDecision:
    """Decide about the removal of what a group has committed in these partitions.

    Raises:
        BrokerError: as `Group.check_delete_offsets`.
    """
    group.check_delete_offsets()
    errors = [_refuse_deletion(group, topic, topics) for topic, _ in partitions]
    committed = table.committed(group.group_id)
    changes = removals(
        group.group_id,
        (tp for tp, error in zip(partitions, errors, strict=True) if not error and committed.get(tp)),
    )
    return OffsetDecision(errors, changes, is_checked=True)


def _refuse_deletion(group: Group, topic: str, topics: Topics) -> BrokerError | None:
    if topics.find(topic) is None:
        return UnknownTopicOrPartition(f"there is no topic {topic!r}")
    if group.subscribes(topic):
        return GroupSubscribedToTopic(f"group {group.group_id!r} is subscribed to {topic!r}")
    return None


def expire_offsets(
    group: Group | None,
    group_id: str,
    table: OffsetTable,
    some: Sequence[CommittedItem],
    now_ms: int,
    retention_ms: int,
) -> ExpiryDecision:
    """Decide which of some offsets of a group have expired; `group` is None where there are only offsets."""
    rule = ExpiryRule() if group is None else group.expiry()
    if rule is None:
        return ExpiryDecision(())
    pending = table.pending.partitions(group_id)
    expired = [
        tp
        for tp, offset in some
        if _has_expired(offset, rule, now_ms, retention_ms)
        and tp not in pending
        and not (group is not None and group.subscribes(tp[0]))
    ]
    are_all = not pending and len(expired) == len(table.committed(group_id))
    removes_group = are_all and (bool(expired) if group is None else group.is_idle())
    return ExpiryDecision(removals(group_id, expired), removes_group)


def _has_expired(offset: CommittedOffset, rule: ExpiryRule, now_ms: int, retention_ms: int) -> bool:
    if offset.expire_timestamp_ms != NO_TIMESTAMP:
        return now_ms >= offset.expire_timestamp_ms
    since_ms = offset.commit_timestamp_ms if rule.since_ms is None else rule.since_ms
    return now_ms - since_ms >= retention_ms


def drop_offsets_in(
    topic: TopicImage, group_id: str, some: Sequence[CommittedItem], deleted_ms: int
) -> ExpiryDecision:
    """Decide which of some offsets of a group are in a topic that was deleted at that time."""
    gone = [tp for tp, offset in some if tp[0] == topic.name and _is_of(topic, offset, deleted_ms)]
    return ExpiryDecision(removals(group_id, gone))


def _is_of(topic: TopicImage, offset: CommittedOffset, deleted_ms: int) -> bool:
    """Return whether an offset was committed in the deleted topic, not in a newer one of that name."""
    if offset.topic_id is not None:
        return offset.topic_id == topic.topic_id.bytes
    return offset.commit_timestamp_ms <= deleted_ms


def removals(group_id: str, partitions: Iterable[PartitionKey]) -> list[OffsetChange]:
    """Return the changes that remove what a group has committed in these partitions."""
    return [OffsetChange(group_id, tp, None) for tp in partitions]
