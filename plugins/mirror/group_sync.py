"""Committed offsets of groups: translated from the source's records to their copies, and committed there.

What this commits has a mark in the metadata of the offset. Where a group's offset at the target has another
one, the group itself has committed it, or a tool: then the mirror leaves that offset alone, so that a group
that has moved to the target is never set back, nor forward. A group with members is refused by the target's
coordinator, as the mirror is none of them. An offset with a mark at the source came from another mirror, and
is not followed.

Source: KIP-545, whose `sync.group.offsets.enabled` compares with the members of the group only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tidelog.plugins.client.errors import ClientError, ErrorResponse, UnsupportedByBroker
from tidelog.plugins.client.operations.group_offsets import (
    NO_OFFSET,
    GroupOffset,
    commit_offsets,
    committed_offsets,
)
from tidelog.plugins.client.operations.groups import list_groups
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.steps import Session, Steps
    from tidelog.plugins.mirror.offset_translation import OffsetTranslation
    from tidelog.plugins.mirror.settings import NameFilter

MARK: Final = "tidelog-mirror"
_KINDS: Final = ("", CONSUMER_PROTOCOL_TYPE)
_IN_USE: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
"""How coordinators refuse an offset of a group that has members, or is of another kind."""


@attrs.frozen
class SyncedGroups:
    """Offsets that were committed, groups that are in use at the target, and errors by group."""

    committed: int = 0
    in_use: tuple[str, ...] = ()
    problems: Mapping[str, str] = attrs.field(factory=dict[str, str])


def mark_of(mirror: str, offset: int) -> str:
    """Return the metadata of an offset that a mirror commits for `offset` at the source."""
    return f"{MARK} {mirror} {offset}"


def source_groups(session: Session, names: NameFilter) -> Steps[dict[str, dict[TopicPartition, GroupOffset]]]:
    """Return what the groups of these names have committed, without what mirrors have.

    Raises:
        ClientError: the source did not answer.
    """
    try:
        listed = yield from list_groups(session)
    except UnsupportedByBroker:
        # Before Apache Kafka 0.9 brokers had no groups.
        return {}
    groups: dict[str, dict[TopicPartition, GroupOffset]] = {}
    for group in listed:
        if group.protocol_type in _KINDS and names.matches(group.group_id):
            try:
                offsets = yield from committed_offsets(session, group.group_id)
            except ErrorResponse as error:
                if error.retriable:
                    raise
                # It was deleted meanwhile, or is of a kind without offsets.
                continue
            groups[group.group_id] = {
                partition: each
                for partition, each in offsets.items()
                if each.offset != NO_OFFSET and not each.metadata.startswith(f"{MARK} ")
            }
    return groups


def translated(
    mirror: str,
    offsets: Mapping[TopicPartition, GroupOffset],
    copies: Mapping[TopicPartition, TopicPartition],
    maps: Mapping[TopicPartition, OffsetTranslation],
) -> dict[TopicPartition, GroupOffset]:
    """Return a group's offsets at the target, of the partitions that have copies with records."""
    found: dict[TopicPartition, GroupOffset] = {}
    for partition, each in offsets.items():
        copy, offset_translation = copies.get(partition), maps.get(partition)
        offset = None if offset_translation is None else offset_translation.translate(each.offset)
        if copy is not None and offset is not None:
            found[copy] = GroupOffset(offset, mark_of(mirror, each.offset))
    return found


def to_commit(
    mirror: str,
    wanted: Mapping[TopicPartition, GroupOffset],
    present: Mapping[TopicPartition, GroupOffset],
) -> dict[TopicPartition, GroupOffset]:
    """Return the offsets to commit: where there is none, or another one that this mirror has committed."""
    return {
        partition: offset
        for partition, offset in wanted.items()
        if (there := present.get(partition, GroupOffset(NO_OFFSET))).offset == NO_OFFSET
        or (there.metadata.startswith(f"{MARK} {mirror} ") and there.offset != offset.offset)
    }


def sync_groups(
    session: Session, mirror: str, groups: Mapping[str, Mapping[TopicPartition, GroupOffset]]
) -> Steps[SyncedGroups]:
    """Commit translated offsets at the target.

    Raises:
        ClientError: the target did not answer.
    """
    committed, in_use, problems = 0, list[str](), dict[str, str]()
    for group, wanted in groups.items():
        if not wanted:
            continue
        try:
            present = yield from committed_offsets(session, group, list(wanted))
        except ErrorResponse as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            present = {}
        changes = to_commit(mirror, wanted, present)
        if not changes:
            continue
        outcomes = yield from commit_offsets(session, group, changes)
        errors = [each for each in outcomes.values() if isinstance(each, ClientError)]
        committed += len(outcomes) - len(errors)
        if any(isinstance(each, ErrorResponse) and each.code in _IN_USE for each in errors):
            in_use.append(group)
        elif errors:
            problems[group] = str(errors[0])
    return SyncedGroups(committed, tuple(in_use), problems)
