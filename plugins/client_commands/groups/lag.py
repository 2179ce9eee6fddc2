"""The lag of a group: how far its committed offsets are behind the ends of the partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.group_offsets import NO_OFFSET, committed_offsets
from tidelog.plugins.client.operations.offsets import FoundOffset
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client import BlockingClient
    from tidelog.plugins.client.operations.groups import GroupDescription, GroupMember


@attrs.frozen
class PartitionLag:
    """A partition of a group.

    Attributes:
        partition: topic and partition
        committed: the next offset to read, None if nothing was committed
        end: the offset of the next record, None if the partition cannot be asked, as after its deletion
        member: the member to which it is assigned
    """

    partition: TopicPartition
    committed: int | None
    end: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """How many offsets lie between both, None if either is unknown."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def lag_of(client: BlockingClient, group: GroupDescription) -> list[PartitionLag]:
    """Return all partitions that have a committed offset or are assigned, by topic and number.

    Raises:
        ClientError: the broker did not answer, or refuses.
    """
    try:
        offsets = client.run(committed_offsets, group.group_id)
    except ErrorResponse as error:
        # A group of another kind, such as of Kafka Connect, may have no offsets at all.
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        offsets = {}
    owners = {place: member for member in group.members for place in member.partitions or ()}
    places = sorted({*offsets, *owners})
    ends = client.list_offsets(places) if places else {}
    rows: list[PartitionLag] = []
    for place in places:
        committed, end = offsets.get(place), ends[place]
        rows.append(
            PartitionLag(
                place,
                None if committed is None or committed.offset == NO_OFFSET else committed.offset,
                end.offset if isinstance(end, FoundOffset) else None,
                owners.get(place),
            )
        )
    return rows
