"""Whether a client may commit or see the offsets of a consumer group.

Source: KIP-848, "OffsetCommit API"; KIP-1251: an epoch may be behind, as long as the partition has been the
member's since.
"""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, IllegalGeneration, StaleMemberEpoch, UnsupportedVersion
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch
from tidelog.plugins.coordinator.consumer_groups import checks
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.member import Member, partition_epoch
from tidelog.plugins.coordinator.consumer_groups.settings import TopicCatalogue


def check_commit(group: ConsumerGroup, commit: OffsetCommit, topics: TopicCatalogue) -> None:
    """Anybody may while the group is empty; else its members may, for what is theirs.

    Raises:
        UnknownMemberId: it is no member.
        UnsupportedVersion: a member of the consumer protocol asks in a version that knows no epochs.
        StaleMemberEpoch, IllegalGeneration: it is not the member's epoch (in the member's protocol).
    """
    if commit.generation < 0 and not group.members:
        return
    if commit.is_transactional and commit.generation < 0 and not commit.member_id:
        # Old clients do not tell who they are when they commit in a transaction.
        return
    member = checks.known_member(group, commit.member_id)
    if not member.is_classic and not commit.knows_epochs:
        raise UnsupportedVersion("members of the consumer protocol commit with version 9 of OffsetCommit")
    if commit.generation == member.current.epoch:
        return
    if commit.generation > member.current.epoch:
        raise _wrong_epoch(member, commit.generation)
    for offset in commit.offsets:
        entry = topics.by_name(offset.topic)
        topic_id = offset.topic_id or (entry.topic_id if entry else b"")
        epoch = partition_epoch(member.current.assigned, topic_id, offset.partition)
        if epoch is None:
            epoch = partition_epoch(member.current.revoking, topic_id, offset.partition)
        if epoch is None or commit.generation < epoch:
            raise _wrong_epoch(member, commit.generation)


def check_fetch(group: ConsumerGroup, fetch: OffsetFetch) -> None:
    """Anybody may who does not say that it is a member.

    Raises:
        UnknownMemberId, StaleMemberEpoch, IllegalGeneration
    """
    if fetch.member_id is None and fetch.member_epoch < 0:
        return
    member = checks.known_member(group, fetch.member_id or "")
    if fetch.member_epoch != member.current.epoch:
        raise _wrong_epoch(member, fetch.member_epoch)


def _wrong_epoch(member: Member, epoch: int) -> BrokerError:
    kind = IllegalGeneration if member.is_classic else StaleMemberEpoch
    return kind(f"member {member.member_id} is in epoch {member.current.epoch}, not {epoch}")
