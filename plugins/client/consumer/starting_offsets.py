"""Where partitions begin to be read: at the committed offset of the group, or where the reset policy says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.plugins.client.consumer.settings import reset_duration_ms
from tidelog.plugins.client.errors import ClientError, NoOffset
from tidelog.plugins.client.operations.group_offsets import GroupOffset, committed_offsets
from tidelog.plugins.client.operations.offsets import list_offsets
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.group_subscription import GroupSubscription
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.operations.sending import Outcomes
    from tidelog.plugins.client.steps import Session, Steps

_SPECIAL: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


def starting_offsets(
    session: Session,
    settings: ConsumerSettings,
    group: GroupSubscription,
    resets: Mapping[TopicPartition, str | None],
) -> Steps[Outcomes[TopicPartition, GroupOffset]]:
    """Return the offset of each partition, by its reset; None: the committed one if there is any.

    Raises:
        ClientError: no broker answered, or the group has committed an offset that cannot be read.
    """
    outcomes: Outcomes[TopicPartition, GroupOffset] = {}
    unset = [partition for partition, reset in resets.items() if reset is None]
    if settings.group_id is not None and unset:
        committed = yield from group.as_member(lambda member: committed_offsets(session, member, unset))
        outcomes |= {partition: found for partition, found in committed.items() if found.offset >= 0}
    timestamps: dict[TopicPartition, int] = {}
    for partition, reset in resets.items():
        if partition in outcomes:
            continue
        policy = reset or settings.auto_offset_reset
        if policy == "none":
            outcomes[partition] = NoOffset(str(partition), "none is committed")
        elif policy in _SPECIAL:
            timestamps[partition] = _SPECIAL[policy]
        else:
            timestamps[partition] = max(0, session.now_ms() - reset_duration_ms(policy))
    if timestamps:
        outcomes |= yield from _offsets_at(session, settings, timestamps)
    return outcomes


def _offsets_at(
    session: Session, settings: ConsumerSettings, timestamps: Mapping[TopicPartition, int]
) -> Steps[Outcomes[TopicPartition, GroupOffset]]:
    found = yield from list_offsets(
        session, timestamps, timestamps, read_committed=settings.is_committed_only
    )
    newer = [part for part, each in found.items() if not isinstance(each, ClientError) and each.offset < 0]
    if newer:  # no record is that new
        found |= yield from list_offsets(
            session, newer, LATEST_TIMESTAMP, read_committed=settings.is_committed_only
        )
    return {
        part: each if isinstance(each, ClientError) else GroupOffset(each.offset, "", each.leader_epoch)
        for part, each in found.items()
    }
