"""Transactions of a producer: what may be sent, and what an error of a batch or of the coordinator means.

The states and their rules are those of `TransactionalProducer`; here they meet the queue. A batch is sent
once its partition is part of the transaction. After a batch has failed the transaction can only be aborted,
which drops what is not sent, and begins the sequence numbers of all partitions again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.client.errors import ClientError, IllegalTransactionState
from tidelog.plugins.client.operations.group_offsets import GroupOffset
from tidelog.plugins.client.operations.transactions import (
    abort_transaction,
    add_partitions,
    commit_transaction,
    init_transactions,
    send_offsets,
)
from tidelog.plugins.client.producers import ProducerTransactionState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.operations.group_offsets import GroupMetadata
    from tidelog.plugins.client.producer.sequence_numbers import SequenceNumbers
    from tidelog.plugins.client.producers import TransactionalProducer
    from tidelog.plugins.client.steps import Steps

_NOT_READY: Final = "init_transactions() was not called"


class ProducerTransactions:
    """The transactions of one producer; `state` is None before `init`."""

    def __init__(
        self, engine: Engine, numbers: SequenceNumbers, transactional_id: str, timeout_ms: int
    ) -> None:
        self.transactional_id = transactional_id
        self.producer: TransactionalProducer | None = None
        self._engine = engine
        self._numbers = numbers
        self._timeout_ms = timeout_ms
        self._adding: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()

    def check_open(self) -> None:
        """Check that a record may be sent.

        Raises:
            IllegalTransactionState: no transaction is open, or it has failed.
            FencedProducer: a newer producer has the transactional id.
        """
        self._ready().check_open()

    def begin(self) -> None:
        """Open a transaction. Raises as `TransactionalProducer.begin_transaction`."""
        self._ready().begin_transaction()

    def begin_abort(self) -> None:
        """Refuse more records. Raises as `TransactionalProducer.begin_abort`."""
        self._ready().begin_abort()

    def admits(self, partition: TopicPartition, changed: Callable[[ClientError | None], None]) -> bool:
        """Return whether batches of a partition may be sent; have it added to the transaction if not.

        `changed` is called when it is added, or cannot be.
        """
        producer = self._ready()
        if not producer.missing_partitions([partition]):
            return True
        if producer.state is ProducerTransactionState.OPEN and partition not in self._adding:
            self._wanted.add(partition)
            # All that are wanted now are added by one request.
            if len(self._wanted) == 1:
                self._engine.soon(lambda: self._add(producer, changed))
        return False

    def failed(self, error: ClientError) -> ClientError:
        """Record that a batch of the transaction has failed: it can only be aborted.

        Return the error, which is `FencedProducer` if there is a newer producer.
        """
        return error if self.producer is None else self.producer.fail(error)

    def init(self) -> Steps[None]:
        """Get a producer id and fence older producers with the same transactional id."""
        producer = yield from init_transactions(
            self._engine.session, self.transactional_id, timeout_ms=self._timeout_ms
        )
        self.producer = producer
        self._numbers.assign(producer.producer_id, producer.producer_epoch)

    def commit(self) -> Steps[None]:
        """Commit the open transaction, all of whose batches are acknowledged."""
        yield from commit_transaction(self._engine.session, self._ready())

    def abort(self, restart_numbers: Callable[[], None]) -> Steps[None]:
        """Abort the transaction, of which nothing is queued or in flight any more.

        Where a batch has failed the producer continues with a new epoch, and `restart_numbers` is called.
        """
        producer = self._ready()
        before = (producer.producer_id, producer.producer_epoch)
        yield from abort_transaction(self._engine.session, producer)
        if before != (producer.producer_id, producer.producer_epoch):
            self._numbers.assign(producer.producer_id, producer.producer_epoch)
            restart_numbers()

    def send_offsets(
        self, group: str | GroupMetadata, offsets: Mapping[TopicPartition, int | GroupOffset]
    ) -> Steps[None]:
        """Commit offsets of a group with the transaction."""
        given = {part: GroupOffset(each) if isinstance(each, int) else each for part, each in offsets.items()}
        yield from send_offsets(self._engine.session, self._ready(), group, given)

    @property
    def has_failed(self) -> bool:
        """Return whether the open transaction can only be aborted."""
        return self.producer is not None and self.producer.state is ProducerTransactionState.FAILED

    @property
    def error(self) -> ClientError | None:
        """Return why it has failed."""
        return None if self.producer is None else self.producer.last_error

    def _ready(self) -> TransactionalProducer:
        if self.producer is None:
            raise IllegalTransactionState(self.transactional_id, _NOT_READY)
        return self.producer

    def _add(self, producer: TransactionalProducer, changed: Callable[[ClientError | None], None]) -> None:
        wanted, self._wanted = self._wanted, set()
        self._adding |= wanted

        def done(outcome: Any) -> None:
            self._adding -= wanted
            if isinstance(outcome, ClientError):
                producer.fail(outcome)
                changed(outcome)
            else:
                changed(None)

        if not self._engine.is_closed:
            timeout_s = self._engine.session.settings.operation_timeout_s
            self._engine.spawn(
                add_partitions(self._engine.session, producer, wanted), done, timeout_s=timeout_s
            )
