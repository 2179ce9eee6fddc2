"""Lookup of unknown positions, and validation of those whose partition has a new leader (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.client.consumer.group_errors import GroupReaction, GroupRequest, reaction_to
from tidelog.plugins.client.consumer.positions import NO_EPOCH
from tidelog.plugins.client.consumer.starting_offsets import starting_offsets
from tidelog.plugins.client.errors import ClientError, LogTruncated, UnsupportedByBroker
from tidelog.plugins.client.operations.leader_epochs import end_of_epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.assigned_partitions import AssignedPartitions
    from tidelog.plugins.client.consumer.group_subscription import GroupSubscription
    from tidelog.plugins.client.consumer.positions import PartitionPosition
    from tidelog.plugins.client.consumer.prefetching import PartitionPrefetcher
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.operations.group_offsets import GroupOffset
    from tidelog.plugins.client.operations.leader_epochs import EpochEnd
    from tidelog.plugins.client.operations.sending import Outcomes


class PositionLookup:
    """Requests what positions lack; `changed` is called when one is known. The engine's side calls it."""

    def __init__(
        self,
        engine: Engine,
        settings: ConsumerSettings,
        positions: AssignedPartitions,
        prefetcher: PartitionPrefetcher,
        group: GroupSubscription,
        changed: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._positions = positions
        self._prefetcher = prefetcher
        self._group = group
        self._changed = changed

    def look_up(self) -> None:
        """Request what is missing and not requested yet."""
        now = self._engine.clock()
        cluster = self._engine.session.cluster
        unset: dict[TopicPartition, tuple[PartitionPosition, int]] = {}
        for partition, state in self._positions.items():
            if state.is_busy or state.retry_at > now or state.has_error:
                continue
            if state.position is None:
                state.is_busy = True
                unset[partition] = (state, state.version)
            elif cluster.leader(partition) is not None and self._prefetcher.needs_check(state):
                self._check(state, cluster.leader_epoch(partition))
        if unset:
            self._find(unset)

    def _find(self, unset: Mapping[TopicPartition, tuple[PartitionPosition, int]]) -> None:
        resets = {partition: state.reset for partition, (state, _) in unset.items()}
        operation = starting_offsets(self._engine.session, self._settings, self._group, resets)
        timeout_s = self._settings.api_timeout_s
        self._engine.spawn(operation, lambda found: self._found(unset, found), timeout_s=timeout_s)

    def _found(
        self,
        asked: Mapping[TopicPartition, tuple[PartitionPosition, int]],
        outcome: Outcomes[TopicPartition, GroupOffset] | ClientError,
    ) -> None:
        for partition, (state, version) in asked.items():
            if not self._positions.is_current(state, version):
                continue
            state.is_busy = False
            found = outcome if isinstance(outcome, ClientError) else outcome[partition]
            if isinstance(found, ClientError):
                self._prefetcher.failed(state, found, is_passing=self._is_passing(found))
            else:
                state.failures = 0
                is_committed = state.reset is None and self._settings.group_id is not None
                state.seek(found.offset, found.leader_epoch)
                state.committed = found.offset if is_committed else None
        self._changed()

    def _is_passing(self, error: ClientError) -> bool:
        """Return whether a member does not have its present epoch or membership yet."""
        reaction = reaction_to(GroupRequest.FETCH_OFFSETS, error)
        return self._group.membership is not None and reaction is GroupReaction.RETRY

    def _check(self, state: PartitionPosition, current_epoch: int) -> None:
        """Validate the position at a new leader, unless there is nothing to compare."""
        if state.fetch_epoch == NO_EPOCH or current_epoch == NO_EPOCH:
            state.checked_epoch = current_epoch
            return
        state.is_busy = True
        version = state.version
        operation = end_of_epoch(self._engine.session, state.partition, state.fetch_epoch, current_epoch)
        self._engine.spawn(operation, lambda found: self._checked(state, version, current_epoch, found))

    def _checked(
        self, state: PartitionPosition, version: int, current_epoch: int, outcome: EpochEnd | ClientError
    ) -> None:
        if not self._positions.is_current(state, version):
            return
        state.is_busy = False
        if isinstance(outcome, UnsupportedByBroker):
            state.checked_epoch = current_epoch
        elif isinstance(outcome, ClientError):
            self._prefetcher.failed(state, outcome)
        else:
            state.failures = 0
            state.checked_epoch = current_epoch
            if outcome.end_offset < state.fetch_offset or outcome.epoch < 0:
                self._truncated(state, outcome)
        self._changed()

    def _truncated(self, state: PartitionPosition, end: EpochEnd) -> None:
        """Continue where the log of a new leader ends that lacks what was fetched."""
        position = state.position or 0
        if end.end_offset >= position:
            # What was returned is still there.
            state.seek(position, end.epoch)
        elif self._settings.auto_offset_reset != "none" and end.end_offset >= 0:
            state.seek(end.end_offset, end.epoch)
        else:
            state.drop_buffer()
            state.buffer.append(LogTruncated(str(state.partition), position, end.end_offset))
