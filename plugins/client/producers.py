"""State of idempotent and transactional producers: ids, sequence numbers, and the transaction.

Source: KIP-98; KIP-360 for the epoch after an error.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import ProducerStamp
from tidelog.plugins.client.errors import (
    ErrorResponse,
    FencedProducer,
    IllegalTransactionState,
    ProducerInDoubt,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.plugins.client.errors import ClientError

_SEQUENCE_MASK: Final = 0x7FFFFFFF
_FENCING: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


@attrs.define
class IdempotentProducer:
    """Producer id with its epoch, and the next sequence number of each partition.

    Between `sending` and `appended` or `refused` a batch is in doubt. If it stays in doubt, because the
    broker did not answer, this producer cannot send more batches to the partition.
    """

    _is_transactional: ClassVar[bool] = False

    producer_id: int
    producer_epoch: int
    _next: dict[TopicPartition, int] = attrs.field(factory=dict[TopicPartition, int], init=False)
    _in_doubt: set[TopicPartition] = attrs.field(factory=set[TopicPartition], init=False)

    def next_stamp(self, partition: TopicPartition) -> ProducerStamp:
        """Return the producer id, epoch and base sequence of the next batch for a partition.

        Raises:
            ProducerInDoubt: the last batch is in doubt, or in flight.
        """
        if partition in self._in_doubt:
            raise ProducerInDoubt(str(partition))
        return self._stamp(partition)

    def sending(self, partition: TopicPartition) -> None:
        """Mark the partition's next batch as sent."""
        self._in_doubt.add(partition)

    def appended(self, partition: TopicPartition, records: int) -> None:
        """Advance the sequence number by the number of `records` of the batch, which is in the log."""
        self._next[partition] = (self._next.get(partition, 0) + records) & _SEQUENCE_MASK
        self._in_doubt.discard(partition)

    def reserve(self, partition: TopicPartition, records: int) -> ProducerStamp:
        """Return the stamp of the next batch; further ones may be reserved before there is a response.

        The partition is in doubt until `settled`. After an error only a new epoch continues.
        """
        stamp = self._stamp(partition)
        self._next[partition] = (stamp.base_sequence + records) & _SEQUENCE_MASK
        self._in_doubt.add(partition)
        return stamp

    def settled(self, partition: TopicPartition) -> None:
        """Record that the reserved batches of a partition are in the log."""
        self._in_doubt.discard(partition)

    def refused(self, partition: TopicPartition, error: ClientError) -> ClientError:
        """Keep the sequence number: because of `error`, which is returned, the batch is not in the log."""
        self._in_doubt.discard(partition)
        return error

    def _stamp(self, partition: TopicPartition) -> ProducerStamp:
        return ProducerStamp(
            self.producer_id, self.producer_epoch, self._next.get(partition, 0), self._is_transactional
        )

    def renew(self, producer_id: int, producer_epoch: int) -> None:
        """Continue with a new epoch, whose sequence numbers begin at 0."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._next.clear()
        # With the new epoch, the broker appends nothing that was sent with the one before.
        self._in_doubt.clear()


class ProducerTransactionState(Enum):
    """What a transactional producer can do."""

    READY = "no transaction is open"
    OPEN = "a transaction is open"
    FAILED = "the transaction has failed and can only be aborted"
    COMMITTING = "the transaction is being committed"
    ABORTING = "the transaction is being aborted"
    FENCED = "a newer producer has the transactional id"


@attrs.define
class TransactionalProducer(IdempotentProducer):
    """Idempotent producer whose batches and group offsets take effect with its transaction, or not at all.

    It can be pickled, so that another process can end the transaction.

    Attributes:
        transactional_id: identifies the producer over restarts; a new producer fences the one before
        timeout_ms: after that time the coordinator aborts an open transaction
        state: what it can do now
        last_error: why the state is FAILED or FENCED
    """

    _is_transactional = True

    transactional_id: str = attrs.field(kw_only=True)
    timeout_ms: int = attrs.field(kw_only=True)
    state: ProducerTransactionState = attrs.field(default=ProducerTransactionState.READY, init=False)
    last_error: ClientError | None = attrs.field(default=None, init=False)
    _partitions: set[TopicPartition] = attrs.field(factory=set[TopicPartition], init=False)
    _groups: set[str] = attrs.field(factory=set[str], init=False)

    def begin_transaction(self) -> None:
        """Open a transaction; no request is sent.

        Raises:
            IllegalTransactionState: a transaction is open.
            FencedProducer: a newer producer has the transactional id.
        """
        self._require(ProducerTransactionState.READY)
        self.state = ProducerTransactionState.OPEN

    def next_stamp(self, partition: TopicPartition) -> ProducerStamp:
        """Return the stamp of the next batch for a partition that was added to the transaction.

        Raises:
            IllegalTransactionState: no transaction is open, or it has failed.
            FencedProducer: a newer producer has the transactional id.
        """
        self.check_open()
        return super().next_stamp(partition)

    def reserve(self, partition: TopicPartition, records: int) -> ProducerStamp:
        """Return the stamp of the next batch, as `IdempotentProducer.reserve`; raises as `check_open`."""
        self.check_open()
        return super().reserve(partition, records)

    def refused(self, partition: TopicPartition, error: ClientError) -> ClientError:
        """Fail the transaction, which cannot be complete any more; return what `fail` returns."""
        return self.fail(super().refused(partition, error))

    def check_open(self) -> None:
        """Check that records and offsets can be added.

        Raises:
            IllegalTransactionState: no transaction is open, or it has failed.
            FencedProducer: a newer producer has the transactional id.
        """
        self._require(ProducerTransactionState.OPEN)

    def missing_partitions(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that are not part of the transaction yet."""
        return [partition for partition in partitions if partition not in self._partitions]

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that the coordinator has added partitions to the transaction."""
        self._partitions.update(partitions)

    def has_group(self, group: str) -> bool:
        """Return whether offsets of the group are part of the transaction."""
        return group in self._groups

    def add_group(self, group: str) -> None:
        """Record that the coordinator has added the offsets of a group to the transaction."""
        self._groups.add(group)

    def fail(self, error: ClientError) -> ClientError:
        """Record an error after which the transaction can only be aborted, and return it.

        An error that says that a newer producer exists becomes `FencedProducer`, after which nothing can be
        done.
        """
        if isinstance(error, ErrorResponse) and error.code in _FENCING:
            error = FencedProducer(error.code, f"transactional id {self.transactional_id!r}", error.detail)
            self.state = ProducerTransactionState.FENCED
        elif self.state is ProducerTransactionState.OPEN:
            self.state = ProducerTransactionState.FAILED
        self.last_error = error
        return error

    def begin_commit(self) -> None:
        """Decide to commit; after an error of the coordinator only another commit is possible.

        Raises:
            IllegalTransactionState: no transaction is open, or it has failed.
            ProducerInDoubt: a batch of it is in doubt.
            FencedProducer: a newer producer has the transactional id.
        """
        self._require(ProducerTransactionState.OPEN, ProducerTransactionState.COMMITTING)
        if self._in_doubt:
            raise ProducerInDoubt(str(min(self._in_doubt)))
        self.state = ProducerTransactionState.COMMITTING

    def begin_abort(self) -> None:
        """Decide to abort.

        Raises:
            IllegalTransactionState: no transaction is open, or its commit is in doubt.
            FencedProducer: a newer producer has the transactional id.
        """
        self._require(
            ProducerTransactionState.OPEN, ProducerTransactionState.FAILED, ProducerTransactionState.ABORTING
        )
        self.state = ProducerTransactionState.ABORTING

    @property
    def is_empty(self) -> bool:
        """Return whether the coordinator has no such transaction, so that it ends without a request."""
        return not self._partitions and not self._groups and self.last_error is None

    @property
    def needs_new_epoch(self) -> bool:
        """Return whether the sequence numbers are in doubt, so that a new epoch has to begin them at 0."""
        return bool(self._in_doubt) or self.last_error is not None

    def ended(self) -> None:
        """Record that the transaction has ended."""
        self.state, self.last_error = ProducerTransactionState.READY, None
        self._partitions.clear()
        self._groups.clear()

    def _require(self, *states: ProducerTransactionState) -> None:
        if self.state in states:
            return
        if self.state is ProducerTransactionState.FENCED and self.last_error is not None:
            raise self.last_error
        raise IllegalTransactionState(self.transactional_id, self.state.value, self.last_error)
