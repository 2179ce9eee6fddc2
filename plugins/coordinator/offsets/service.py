"""The `OffsetService`: the machine decides, the changes are written to the log and applied, at once.

Source: Kafka's OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BatchTooLarge, InvalidCommitOffsetSize, InvalidGroupId, MessageTooLarge
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.seams.coordination.offsets import (
    CommitOutcome,
    FetchedOffsets,
    OffsetCommit,
    OffsetFetch,
)
from tidelog.plugins.coordinator.groups.registry import GroupRegistry
from tidelog.plugins.coordinator.offsets import machine
from tidelog.plugins.coordinator.offsets.records import OffsetChange, PartitionKey
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.offsets.table import OffsetTable
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime, Durable

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topics


class Offsets:
    """Serves what clients ask of committed offsets; their state is in the `store`."""

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
        group_id = request.group_id
        partition, table = self._active(group_id)
        group = self._groups.find(group_id)
        errors, changes, is_checked = machine.commit_offsets(
            group, request, self._topics, self._metadata_max, self._runtime.clock()
        )
        if is_checked and group is not None:
            # The member is alive, whether or not the log accepts what it commits.
            group.extend_session_of_commit(request)
        durable = self._write(partition, table, changes, producer)
        if is_checked and group is None:
            self._create_group(group_id)
        return CommitOutcome(errors, durable)

    def fetch(self, request: OffsetFetch) -> FetchedOffsets:
        """Return what a group has committed."""
        return run_to_end(self.fetch_in_steps(request))

    def fetch_in_steps(self, request: OffsetFetch) -> Generator[None, None, FetchedOffsets]:
        """Return the same; yield after some of all offsets of a group, those that were loaded are decoded."""
        _, table = self._active(request.group_id)
        return (yield from machine.fetch_offsets(self._groups.find(request.group_id), table, request))

    def delete(self, group_id: str, partitions: Sequence[PartitionKey]) -> CommitOutcome:
        """Remove what a group has committed in these partitions, unless it is subscribed to their topic."""
        if not group_id:
            raise InvalidGroupId("a group without an id has no offsets to delete")
        partition, table = self._active(group_id)
        group = self._groups.get(group_id)
        errors, changes, _ = machine.delete_offsets(group, table, partitions, self._topics)
        return CommitOutcome(errors, self._write(partition, table, changes))

    def _active(self, group_id: str) -> tuple[int, OffsetTable]:
        """Return the partition of the log that a group is in, and its offsets; raises as `check_active`."""
        partition = self._runtime.active_partition_for(group_id)
        return partition, self._store.table(partition)

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
