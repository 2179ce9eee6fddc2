"""The markers that end a transaction, in every partition that has part in it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

import trio

from tidelog.kernel.errors import (
    BrokerError,
    InvalidProducerEpoch,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from tidelog.plugins.coordinator.transactions.states import PREPARE_COMMIT

if TYPE_CHECKING:
    from tidelog.kernel.partition import Partition
    from tidelog.kernel.storage import TopicPartition
    from tidelog.kernel.topics import Topics
    from tidelog.plugins.coordinator.transactions.transaction import Transaction

_log = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
MARKERS_PER_SLICE: Final = 32
"""Written before others get their turn."""


class PendingOffsets(Protocol):
    """The offsets that transactions commit, as far as markers need to know of them."""

    def check_active(self, partition: int) -> None:
        """Raise a BrokerError if the offsets in that partition cannot be settled yet."""
        ...

    def complete_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """Let a producer's pending offsets in that partition count, or forget them."""
        ...


class Markers:
    """Writes markers; a partition that is gone, or that a newer marker has reached, needs none."""

    def __init__(self, topics: Topics, offsets: PendingOffsets) -> None:
        self._topics = topics
        self._offsets = offsets

    async def write(
        self, transaction: Transaction, partitions: Collection[TopicPartition], coordinator_epoch: int
    ) -> frozenset[TopicPartition]:
        """End the transaction in these partitions; those that could not be written to are given back."""
        failed: set[TopicPartition] = set()
        due: list[tuple[Partition, int]] = []
        for count, place in enumerate(sorted(partitions), 1):
            try:
                self._write(transaction, place, coordinator_epoch, due)
            except UnknownTopicOrPartition:
                _log.info("%s is gone, a transaction ends without it", place)
            except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
                _log.info("%s needs no marker: %s", place, error)
            except BrokerError as error:
                _log.warning("%s: no marker for %r: %s", place, transaction.transactional_id, error)
                failed.add(place)
            if count % MARKERS_PER_SLICE == 0:
                await trio.lowlevel.checkpoint()
        if due:
            async with trio.open_nursery() as flushes:
                for partition, offset in due:
                    flushes.start_soon(_flush, partition, offset, failed)
        return frozenset(failed)

    def _write(
        self,
        transaction: Transaction,
        place: TopicPartition,
        coordinator_epoch: int,
        due: list[tuple[Partition, int]],
    ) -> None:
        commit = transaction.state is PREPARE_COMMIT
        of_offsets = place.topic == OFFSETS_TOPIC
        if of_offsets:
            self._offsets.check_active(place.partition)
        topic = self._topics.find(place.topic)
        if topic is not None and 0 <= place.partition < len(topic.partitions):
            partition = topic.partitions[place.partition]
            result = partition.append_marker(
                transaction.producer_id,
                transaction.producer_epoch,
                coordinator_epoch,
                commit=commit,
                transaction_version=transaction.client_version,
            )
            if result.flush_due:
                due.append((partition, result.last_offset))
        if of_offsets:
            self._offsets.complete_transaction(place.partition, transaction.producer_id, commit)


async def _flush(partition: Partition, offset: int, failed: set[TopicPartition]) -> None:
    try:
        await partition.wait_flushed(offset)
    except BrokerError as error:
        _log.warning("%s: a marker is not on disk: %s", partition.topic_partition, error)
        failed.add(partition.topic_partition)
