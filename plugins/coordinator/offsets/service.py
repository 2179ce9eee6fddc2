"""Committed offsets: decided, written to the log, taken into memory, in this order and at once.

Source: seed 003, "Offset Commit/Fetch API"; KIP-211, KIP-447, KIP-496.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from tidelog.kernel.clock import Clock
from tidelog.kernel.errors import (
    BatchTooLarge,
    BrokerError,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    MessageTooLarge,
    OffsetMetadataTooLarge,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from tidelog.kernel.partition.partition import AppendResult
from tidelog.kernel.seams.coordination.offsets import (
    NO_RETENTION,
    NO_TIMESTAMP,
    CommitOutcome,
    CommittedOffset,
    FetchedOffsets,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.topics import Topics
from tidelog.plugins.coordinator.log import StateLog, StateRecord
from tidelog.plugins.coordinator.offsets.guard import CommitGuard
from tidelog.plugins.coordinator.offsets.pending import PendingOffset, PendingOffsets
from tidelog.plugins.coordinator.offsets.table import OffsetTable, Place
from tidelog.plugins.coordinator.records.offsets import (
    offset_key,
    offset_value,
    read_offset_key,
    read_offset_value,
)
from tidelog.plugins.coordinator.records.unreadable import UnreadableRecord
from tidelog.plugins.protocol_kafka.codecs.errors import CodecError

END_OF_TIME_MS: Final = 2**63 - 1
"""The latest time that a record can hold."""
BEHIND_ALL: Final = 2**63
"""A record that is written now stands behind every other in the log."""


@attrs.frozen
class OffsetSettings:
    """Limits of what clients may commit; `metadata_max` is in characters."""

    metadata_max: int


class Offsets:
    """The `OffsetService` of a coordinator, and what its other services need of offsets."""

    def __init__(
        self,
        log: StateLog,
        partition_for: Callable[[str], int],
        guard: CommitGuard,
        topics: Topics,
        clock: Clock,
        settings: OffsetSettings,
    ) -> None:
        """`partition_for` gives the partition of the log that a group's state is in."""
        self.table = OffsetTable()
        self.pending = PendingOffsets()
        self._log = log
        self._partition_for = partition_for
        self._guard = guard
        self._topics = topics
        self._clock = clock
        self._settings = settings

    def commit(self, request: OffsetCommit) -> CommitOutcome:
        """See `OffsetService`."""
        partition = self._active_partition(request.group_id)
        errors, places, records = self._decide(request)
        if not records:
            return CommitOutcome(errors)
        result = self._append(partition, records)
        committed = self.table.get(partition, request.group_id).committed
        for place, offset in places:
            committed[place] = offset
            if self.pending:
                self.pending.supersede(request.group_id, place, BEHIND_ALL)
        return self._outcome(errors, partition, result)

    def commit_pending(self, request: OffsetCommit, producer_id: int, producer_epoch: int) -> CommitOutcome:
        """Commit offsets in the producer's transaction; they count once `complete_transaction` says so.

        Raises:
            BrokerError: as `commit`; InvalidProducerEpoch: a newer instance of the producer was here.
        """
        partition = self._active_partition(request.group_id)
        errors, places, records = self._decide(request)
        if not records:
            return CommitOutcome(errors)
        result = self._append(partition, records, (producer_id, producer_epoch))
        for record_offset, (place, offset) in enumerate(places, result.base_offset):
            self.pending.add(
                partition, producer_id, request.group_id, place, PendingOffset(record_offset, offset)
            )
        return self._outcome(errors, partition, result)

    def complete_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """A marker of the producer's is in that partition of the log: what is pending counts, or goes."""
        for group_id, place, record_offset, offset in self.pending.end(partition, producer_id):
            if commit and offset is not None:
                self.table.get(partition, group_id).committed[place] = offset
                self.pending.supersede(group_id, place, record_offset)

    def fetch(self, request: OffsetFetch) -> FetchedOffsets:
        """See `OffsetService`."""
        group_id = request.group_id
        partition = self._active_partition(group_id)
        try:
            self._guard.check_fetch(request)
        except GroupIdNotFound:
            offsets: Mapping[Place, CommittedOffset] = {}
        else:
            found = self.table.find(partition, group_id)
            offsets = found.committed if found else {}
        fetched: dict[str, dict[int, CommittedOffset | BrokerError | None]] = {}
        if request.topics is None:
            for (topic, index), offset in offsets.items():
                fetched.setdefault(topic, {})[index] = offset
        else:
            for topic, indexes in request.topics.items():
                fetched[topic] = {index: offsets.get((topic, index)) for index in indexes}
        if request.require_stable and self.pending:
            self._mark_unstable(group_id, fetched)
        return fetched

    def delete(self, group_id: str, partitions: Sequence[Place]) -> CommitOutcome:
        """See `OffsetService`."""
        if not group_id:
            raise InvalidGroupId("a group without an id has no offsets to delete")
        partition = self._active_partition(group_id)
        self._guard.check_delete(group_id)
        errors = [self._refuse_deletion(group_id, topic) for topic, _ in partitions]
        found = self.table.find(partition, group_id)
        committed = found.committed if found else {}
        going = [
            place for place, error in zip(partitions, errors, strict=True) if not error and place in committed
        ]
        if not going:
            return CommitOutcome(errors)
        result = self._append(partition, [_tombstone(group_id, place) for place in going])
        self.remove(group_id, going)
        return self._outcome(errors, partition, result)

    def holds(self, group_id: str) -> bool:
        """Whether the group has committed anything, pending or not; cheap."""
        found = self.table.find(self._partition_for(group_id), group_id)
        return bool(found) or bool(self.pending.places(group_id))

    def tombstones(self, group_id: str) -> list[StateRecord]:
        """What takes all offsets of a group away, also those that are pending: for DeleteGroups."""
        found = self.table.find(self._partition_for(group_id), group_id)
        places = dict.fromkeys([*(found.committed if found else ()), *self.pending.places(group_id)])
        return [_tombstone(group_id, place) for place in places]

    def forget(self, group_id: str) -> None:
        """The group's tombstones are in the log."""
        found = self.table.find(self._partition_for(group_id), group_id)
        self.remove(group_id, [*(found.committed if found else ()), *self.pending.places(group_id)])

    def remove(self, group_id: str, places: Sequence[Place]) -> None:
        """Tombstones of these places are in the log."""
        partition = self._partition_for(group_id)
        found = self.table.find(partition, group_id)
        for place in places:
            if found is not None:
                found.committed.pop(place, None)
            self.pending.remove(group_id, place)
        self.table.drop_if_empty(partition, group_id)

    def replay(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Take a record that was read back into memory.

        Raises:
            UnreadableRecord: it is malformed, or newer than this broker. A value is only looked at closely
                when somebody asks for its group.
        """
        try:
            group_id = self.table.load(partition, key, value)
            if self.pending:
                self._replay_over_pending(key, value)
        except CodecError as error:
            raise UnreadableRecord(str(error)) from None
        if group_id is not None:
            self._guard.begin_simple(group_id)

    def replay_transactional(
        self, partition: int, producer_id: int, record_offset: int, key: bytes, value: bytes
    ) -> None:
        """Take an offset of a transaction that was read back into memory; a tombstone goes to `replay`.

        Raises:
            UnreadableRecord: it is malformed, or newer than this broker.
        """
        try:
            read = read_offset_key(key)
            committed = read_offset_value(value)
        except CodecError as error:
            raise UnreadableRecord(str(error)) from None
        place = read.topic, read.partition
        self.pending.add(partition, producer_id, read.group, place, PendingOffset(record_offset, committed))
        self._guard.begin_simple(read.group)

    def loaded(self, partition: int) -> None:
        """The partition was read to its end."""
        self.table.end_loading(partition)

    def forget_partition(self, partition: int) -> None:
        """The partition is gone."""
        self.table.forget(partition)
        self.pending.forget(partition)

    def _active_partition(self, group_id: str) -> int:
        partition = self._partition_for(group_id)
        self._log.check_active(partition)
        return partition

    def _decide(
        self, request: OffsetCommit
    ) -> tuple[list[BrokerError | None], list[tuple[Place, CommittedOffset]], list[StateRecord]]:
        """For each offset why it is refused; of the others where they go and their records."""
        errors = [self._refuse_place(offset) for offset in request.offsets]
        if all(errors):
            return errors, [], []
        self._guard.check_commit(request)
        now_ms = self._clock()
        expire_ms = _expiry_ms(now_ms, request.retention_time_ms)
        metadata_max = self._settings.metadata_max
        places: list[tuple[Place, CommittedOffset]] = []
        records: list[StateRecord] = []
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
            committed = CommittedOffset(
                offset.offset, offset.leader_epoch, metadata, commit_ms, expire_ms, offset.topic_id
            )
            topic, number = offset.topic, offset.partition
            places.append(((topic, number), committed))
            records.append(StateRecord(offset_key(request.group_id, topic, number), offset_value(committed)))
        return errors, places, records

    def _refuse_place(self, offset: OffsetToCommit) -> BrokerError | None:
        topic = self._topics.find(offset.topic)
        if topic is None or not 0 <= offset.partition < len(topic.partitions):
            return UnknownTopicOrPartition(f"there is no {offset.topic}-{offset.partition} to commit")
        return None

    def _refuse_deletion(self, group_id: str, topic: str) -> BrokerError | None:
        if self._topics.find(topic) is None:
            return UnknownTopicOrPartition(f"there is no topic {topic!r}")
        if self._guard.subscribes(group_id, topic):
            return GroupSubscribedToTopic(f"group {group_id!r} reads {topic!r}")
        return None

    def _append(
        self, partition: int, records: Sequence[StateRecord], producer: tuple[int, int] | None = None
    ) -> AppendResult:
        try:
            return self._log.append(partition, records, producer=producer)
        except (MessageTooLarge, BatchTooLarge) as error:
            raise InvalidCommitOffsetSize(f"too much is committed at once: {error}") from error

    def _outcome(
        self, errors: Sequence[BrokerError | None], partition: int, result: AppendResult
    ) -> CommitOutcome:
        wait = partial(self._log.committed, partition, result) if result.flush_due else None
        return CommitOutcome(errors, wait)

    def _mark_unstable(
        self, group_id: str, fetched: dict[str, dict[int, CommittedOffset | BrokerError | None]]
    ) -> None:
        for topic, index in self.pending.places(group_id):
            if index in fetched.get(topic, ()):
                fetched[topic][index] = UnstableOffsetCommit(
                    f"a transaction may still move group {group_id!r} in {topic}-{index}"
                )

    def _replay_over_pending(self, key: bytes, value: bytes | None) -> None:
        read = read_offset_key(key)
        if value is None:
            self.pending.remove(read.group, (read.topic, read.partition))
        else:
            self.pending.supersede(read.group, (read.topic, read.partition), BEHIND_ALL)


def _expiry_ms(now_ms: int, retention_ms: int) -> int:
    """Return when an offset expires that a client wants kept for so long, `NO_TIMESTAMP` without a wish.

    Kafka's own sum overflows for a very long time, and the offset then goes at once.
    """
    return NO_TIMESTAMP if retention_ms == NO_RETENTION else min(now_ms + retention_ms, END_OF_TIME_MS)


def _tombstone(group_id: str, place: Place) -> StateRecord:
    return StateRecord(offset_key(group_id, *place), None)
