"""The `OffsetService`: requests are validated, written to the log and applied, at once and in this order.

Source: Kafka's OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit; KIP-211, KIP-447, KIP-496.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.kernel.errors import (
    BatchTooLarge,
    BrokerError,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    MessageTooLarge,
    OffsetMetadataTooLarge,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from tidelog.kernel.pace import ITEMS_PER_STEP, run_to_end
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
from tidelog.plugins.coordinator.groups.group import Group
from tidelog.plugins.coordinator.groups.registry import GroupRegistry
from tidelog.plugins.coordinator.offsets.records import OffsetChange, PartitionKey
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.offsets.table import NO_OFFSETS, OffsetTable
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime, Durable

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topics


END_OF_TIME_MS: Final = 2**63 - 1
"""The latest time that a record can hold."""


class Offsets:
    """Validates what clients ask of committed offsets; their state is in the `store`."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        store: OffsetStore,
        groups: GroupRegistry,
        create_group: Callable[[str], object],
        topics: Topics,
        metadata_max: int,
    ) -> None:
        """Serve the offsets in `store`.

        `create_group` creates the group of a client that commits without being a member; `metadata_max` is
        `offset.metadata.max.bytes`, in characters.
        """
        self._runtime = runtime
        self._store = store
        self._groups = groups
        self._create_group = create_group
        self._topics = topics
        self._metadata_max = metadata_max

    def commit(self, request: OffsetCommit) -> CommitOutcome:
        """Commit offsets; they are in the log, and fetches return them, when this returns."""
        return self._commit(request, None)

    def commit_pending(self, request: OffsetCommit, producer_id: int, producer_epoch: int) -> CommitOutcome:
        """Commit offsets in the producer's transaction; they count once its marker commits them.

        Raises:
            BrokerError: as `commit`; InvalidProducerEpoch: a newer instance of the producer was here.
        """
        return self._commit(request, (producer_id, producer_epoch))

    def _commit(self, request: OffsetCommit, producer: tuple[int, int] | None) -> CommitOutcome:
        partition, table = self._active(request.group_id)
        errors, changes = self._changes(request)
        return CommitOutcome(errors, self._write(partition, table, changes, producer))

    def fetch(self, request: OffsetFetch) -> FetchedOffsets:
        """Return what a group has committed."""
        return run_to_end(self.fetch_in_steps(request))

    def fetch_in_steps(self, request: OffsetFetch) -> Generator[None, None, FetchedOffsets]:
        """Return the same; yield after some of all offsets of a group, those that were loaded are decoded."""
        group_id = request.group_id
        _, table = self._active(group_id)
        try:
            self._groups.get(group_id).check_fetch(request)
        except GroupIdNotFound:
            offsets = NO_OFFSETS
        else:
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

    def delete(self, group_id: str, partitions: Sequence[PartitionKey]) -> CommitOutcome:
        """Remove what a group has committed in these partitions, unless it is subscribed to their topic."""
        if not group_id:
            raise InvalidGroupId("a group without an id has no offsets to delete")
        partition, table = self._active(group_id)
        group = self._groups.get(group_id)
        group.check_delete_offsets()
        errors = [self._refuse_deletion(group, topic) for topic, _ in partitions]
        committed = table.committed(group_id)
        changes = [
            OffsetChange(group_id, tp, None)
            for tp, error in zip(partitions, errors, strict=True)
            if not error and committed.get(tp) is not None
        ]
        return CommitOutcome(errors, self._write(partition, table, changes))

    def _active(self, group_id: str) -> tuple[int, OffsetTable]:
        """Return the partition of the log that a group is in, and its offsets; raises as `check_active`."""
        partition = self._runtime.active_partition_for(group_id)
        return partition, self._store.table(partition)

    def _changes(self, request: OffsetCommit) -> tuple[list[BrokerError | None], list[OffsetChange]]:
        """Return for each offset why it is refused or None, and the changes of those that are not."""
        errors = [self._refuse_place(offset) for offset in request.offsets]
        if all(errors):
            return errors, []
        self._check_commit(request)
        now_ms = self._runtime.clock()
        expire_ms = _expiry_ms(now_ms, request.retention_time_ms)
        metadata_max = self._metadata_max
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
            topic_id = offset.topic_id or self._topics.get(offset.topic).topic_id.bytes
            committed = CommittedOffset(
                offset.offset, offset.leader_epoch, metadata, commit_ms, expire_ms, topic_id
            )
            changes.append(OffsetChange(request.group_id, (offset.topic, offset.partition), committed))
        return errors, changes

    def _check_commit(self, request: OffsetCommit) -> None:
        """Check that the client may commit; one that is no member creates the group that it commits for.

        Raises:
            GroupIdNotFound, IllegalGeneration: there is no such group, by `request.knows_epochs`.
            BrokerError: as `Group.check_commit`.
        """
        group = self._groups.find(request.group_id)
        if group is not None:
            group.check_commit(request)
        elif request.generation < 0:
            self._create_group(request.group_id)
        elif request.knows_epochs:
            raise GroupIdNotFound(f"Group {request.group_id} not found.")
        else:
            raise IllegalGeneration(f"there is no group {request.group_id!r}, so it has no generation")

    def _refuse_place(self, offset: OffsetToCommit) -> BrokerError | None:
        topic = self._topics.find(offset.topic)
        if topic is None or not 0 <= offset.partition < len(topic.partitions):
            return UnknownTopicOrPartition(f"there is no {offset.topic}-{offset.partition} to commit")
        return None

    def _refuse_deletion(self, group: Group, topic: str) -> BrokerError | None:
        if self._topics.find(topic) is None:
            return UnknownTopicOrPartition(f"there is no topic {topic!r}")
        if group.subscribes(topic):
            return GroupSubscribedToTopic(f"group {group.group_id!r} is subscribed to {topic!r}")
        return None

    def _write(
        self,
        partition: int,
        table: OffsetTable,
        changes: Sequence[OffsetChange],
        producer: tuple[int, int] | None = None,
    ) -> Durable | None:
        if not changes:
            return None
        try:
            return self._runtime.write(partition, table, changes, producer=producer)
        except (MessageTooLarge, BatchTooLarge) as error:
            raise InvalidCommitOffsetSize(f"too much is committed at once: {error}") from error


def _expiry_ms(now_ms: int, retention_ms: int) -> int:
    """Return when an offset expires whose client set a retention time, `NO_TIMESTAMP` without one.

    Kafka's own sum overflows for a very long time, and the offset then expires at once.
    """
    return NO_TIMESTAMP if retention_ms == NO_RETENTION else min(now_ms + retention_ms, END_OF_TIME_MS)
