"""Producer id and sequence numbers of an idempotent producer: no batch is appended twice, order is kept.

Each partition has its own epoch: when a batch of it fails for good, the numbers after it can no longer be
sent, so that the partition begins at 0 with a new epoch once nothing of it is in flight. A batch that may be
in the log is never numbered again: it fails instead.

Sources: KIP-98; KIP-360 and KIP-588 for new epochs; Apache Kafka, `TransactionManager`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.plugins.client.batches import NO_PRODUCER, ProducerStamp
from tidelog.plugins.client.errors import DeliveryInDoubt
from tidelog.plugins.client.producer.accumulator import is_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.producer.accumulator import PartitionQueue
    from tidelog.plugins.client.producer.delivery import Batch

MAX_EPOCH: Final = 0x7FFF - 1
"""As in Kafka's clients, the last one is left to the coordinator, which fences with it."""
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_NONE: Final = -1


class SequenceNumbers:
    """Producer id and epoch; `is_known` when requests may be sent with them.

    Attributes:
        is_enabled: the producer is idempotent; False where the broker cannot
        is_transactional: batches belong to a transaction
    """

    def __init__(self, *, is_enabled: bool, is_transactional: bool = False) -> None:
        self.is_enabled = is_enabled
        self.is_transactional = is_transactional
        self.producer_id = _NONE
        self.epoch = _NONE

    @property
    def is_known(self) -> bool:
        """Return whether there is a producer id, or none is needed."""
        return not self.is_enabled or self.producer_id != _NONE

    def assign(self, producer_id: int, epoch: int) -> None:
        """Continue with what InitProducerId has returned."""
        self.producer_id, self.epoch = producer_id, epoch

    def disable(self) -> None:
        """Continue without idempotence."""
        self.is_enabled = False

    def number(self, queue: PartitionQueue, batch: Batch) -> None:
        """Give a batch that is about to be sent its sequence number, unless it has one."""
        if not self.is_enabled or batch.sequence != _NONE:
            return
        if queue.producer_id == _NONE:
            queue.producer_id, queue.epoch = self.producer_id, self.epoch
        batch.sequence = queue.next_sequence
        queue.next_sequence = (queue.next_sequence + len(batch.records)) & _SEQUENCE_MASK

    def stamp(self, queue: PartitionQueue, batch: Batch) -> ProducerStamp:
        """Return what the header of the batch has of the producer."""
        if not self.is_enabled:
            return NO_PRODUCER
        return ProducerStamp(queue.producer_id, queue.epoch, batch.sequence, self.is_transactional)

    def acknowledged(self, queue: PartitionQueue) -> None:
        """Record that the broker has a batch of the partition with these numbers."""
        if self.is_enabled:
            queue.is_known = True

    def is_lowest(self, queue: PartitionQueue, batch: Batch) -> bool:
        """Return whether no batch before this one is still to be acknowledged."""
        return not any(is_before(each, batch) for each in (*queue.in_flight, *queue.batches))

    def failed(self, queue: PartitionQueue, batch: Batch) -> None:
        """Record that a batch failed for good: its number is not sent again, so those after it cannot be."""
        if self.is_enabled and batch.sequence != _NONE:
            queue.needs_epoch = True

    def renew(self, queue: PartitionQueue) -> Iterator[tuple[Batch, ClientError]]:
        """Begin a partition at 0 with a new epoch; nothing of it is in flight.

        Yield the batches that cannot be numbered again since they may be in the log, with their error.
        """
        kept = [batch for batch in queue.batches if not batch.is_in_doubt]
        doubtful = [batch for batch in queue.batches if batch.is_in_doubt]
        queue.batches.clear()
        queue.batches.extend(kept)
        self.restart(queue)
        if self.epoch >= MAX_EPOCH:
            self.producer_id = _NONE
        else:
            self.epoch += 1
        for batch in doubtful:
            yield batch, DeliveryInDoubt(str(batch.partition), batch.last_error)

    def restart(self, queue: PartitionQueue) -> None:
        """Begin a partition at 0, with the producer id and epoch at its next batch."""
        for batch in queue.batches:
            batch.sequence = _NONE
        queue.needs_epoch = queue.is_known = False
        queue.next_sequence = 0
        queue.producer_id = queue.epoch = _NONE
