"""The markers that end a transaction, in every partition that it includes."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.errors import (
    BrokerError,
    InvalidProducerEpoch,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from tidelog.plugins.coordinator.runtime.topic_log import OFFSETS_TOPIC

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.replica import ReplicaManager
    from tidelog.kernel.seams.coordination.transactions import EndOfTransaction
    from tidelog.kernel.seams.storage import TopicPartition
    from tidelog.kernel.topics import Topics
    from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime

_log = logging.getLogger(__name__)

MARKERS_PER_SLICE: Final = 32
"""Markers that are written before other tasks run."""


class Markers:
    """Writes markers, and waits for the disk where one may not be acknowledged at once."""

    def __init__(self, topics: Topics, replicas: ReplicaManager, groups: CoordinatorRuntime) -> None:
        """Create it; `groups` is the runtime whose log has the offsets that transactions commit."""
        self._topics = topics
        self._replicas = replicas
        self._groups = groups

    async def write(
        self, end: EndOfTransaction, partitions: Collection[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """End a transaction in these partitions; return those that could not be written to.

        A partition that is gone, or that a newer marker has reached, needs none.
        """
        failed: set[TopicPartition] = set()
        async with trio.open_nursery() as flushes:
            for count, place in enumerate(sorted(partitions), 1):
                try:
                    due = self._append(place, end)
                except UnknownTopicOrPartition:
                    _log.info("%s is gone, a transaction ends without it", place)
                except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
                    _log.info("%s needs no marker: %s", place, error)
                except BrokerError as error:
                    _log.warning("%s: no marker for producer %d: %s", place, end.producer.producer_id, error)
                    failed.add(place)
                else:
                    if due is not None:
                        flushes.start_soon(_flush, *due, failed)
                if count % MARKERS_PER_SLICE == 0:
                    await trio.lowlevel.checkpoint()
        return frozenset(failed)

    async def write_one(self, place: TopicPartition, end: EndOfTransaction) -> None:
        """End a transaction in one partition.

        Raises:
            BrokerError: the partition is gone, refuses the marker, or cannot be written to.
        """
        due = self._append(place, end)
        if due is not None:
            log, offset = due
            await log.wait_flushed(offset)

    def _append(self, place: TopicPartition, end: EndOfTransaction) -> tuple[UnifiedLog, int] | None:
        """Append a marker; return the log and the offset to wait for, None if it is durable."""
        of_offsets = place.topic == OFFSETS_TOPIC
        if of_offsets:
            # A log that is still being loaded would miss the marker.
            self._groups.log.check_active(place.partition)
        due = self._append_to_log(place, end)
        if of_offsets:
            self._groups.complete_transaction(place.partition, end.producer.producer_id, end.commit)
        return due

    def _append_to_log(self, place: TopicPartition, end: EndOfTransaction) -> tuple[UnifiedLog, int] | None:
        if place.topic == OFFSETS_TOPIC and self._topics.find(place.topic) is None:
            # Offsets that are kept in memory alone have no log.
            return None
        log = self._replicas.log_of(*place)
        result = log.append_marker(
            end.producer.producer_id,
            end.producer.epoch,
            end.coordinator_epoch,
            commit=end.commit,
            transaction_version=end.version,
        )
        return (log, result.last_offset) if result.flush_due else None


async def _flush(log: UnifiedLog, offset: int, failed: set[TopicPartition]) -> None:
    try:
        await log.wait_flushed(offset)
    except BrokerError as error:
        _log.warning("%s: a marker is not on disk: %s", log.topic_partition, error)
        failed.add(log.topic_partition)
