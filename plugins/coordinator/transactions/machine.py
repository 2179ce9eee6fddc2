"""The transitions of a transaction: pure functions of its state and of a request.

They raise the error for the client, or return the new state, which has to be in the log before the client is
answered; None when nothing changes. Times are milliseconds since the epoch. Source: Kafka 4.4's
`TransactionCoordinator` and `TransactionMetadata`; KIP-360, KIP-890.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs

from tidelog.kernel.errors import (
    BrokerError,
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    ProducerFenced,
    TransactionAbortable,
)
from tidelog.kernel.seams.coordination.transactions import (
    EPOCH_PER_TRANSACTION,
    FIRST_TRANSACTION_VERSION,
    ProducerIdentity,
    TransactionState,
)
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.transactions.states import (
    AT_REST,
    ENDS,
    ENDS_WITH_EPOCHS,
    EPOCHS_ACCEPTED,
    ONGOING,
    PREPARED,
    Event,
    Verdict,
    move,
)
from tidelog.plugins.coordinator.transactions.transaction import (
    LAST_EPOCH_GIVEN_OUT,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    NO_TIMEOUT_MS,
    Transaction,
)

FIRST_EPOCH: Final = 0


def first(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """Return the state of a transactional id that was never used before."""
    return Transaction(
        transactional_id,
        producer_id,
        FIRST_EPOCH,
        timeout_ms,
        TransactionState.EMPTY,
        last_update_ms=now_ms,
    )


def init_needs_producer_id(known: Transaction | None, current: ProducerIdentity | None) -> bool:
    """Return whether `init` needs a producer id that was never used."""
    if known is None:
        return True
    return (
        known.state in AT_REST
        and known.is_exhausted
        and (current is None or current.epoch == known.producer_epoch)
    )


def init(
    known: Transaction,
    timeout_ms: int,
    current: ProducerIdentity | None,
    now_ms: int,
    new_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """Give a producer that starts its next epoch, unless a transaction is open.

    The result is in state Empty, or unchanged in state Ongoing when `fence` has to come before.

    Raises:
        ProducerFenced: `current` is not the newest identity.
        ConcurrentTransactions: a decision is being carried out.
    """
    check_not_prepared(known)
    if current is not None and not _is_known(known, current):
        raise ProducerFenced(_mismatch(known, current))
    if known.state is ONGOING:
        return known
    if init_needs_producer_id(known, current):
        identity = ProducerIdentity(new_producer_id, FIRST_EPOCH)
        last_epoch = NO_EPOCH if current is None else known.producer_epoch
    else:
        identity, last_epoch = _next_epoch(known, current)
    return attrs.evolve(
        known,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        last_producer_epoch=last_epoch,
        previous_producer_id=known.producer_id,
        timeout_ms=timeout_ms,
        state=move(known.state, Event.INIT),
        partitions=frozenset(),
        start_ms=NO_TIME,
        last_update_ms=now_ms,
    )


def _is_known(known: Transaction, current: ProducerIdentity) -> bool:
    """Return whether the producer may have that identity, also from before its epochs ran out."""
    return current.producer_id == known.producer_id or (
        current.producer_id == known.previous_producer_id and current.epoch >= LAST_EPOCH_GIVEN_OUT
    )


def _next_epoch(known: Transaction, current: ProducerIdentity | None) -> tuple[ProducerIdentity, int]:
    """Return the producer's next identity, and the epoch before it that a retry may have."""
    bumped = ProducerIdentity(known.producer_id, known.producer_epoch + 1)
    if current is None:
        return bumped, NO_EPOCH
    if current.epoch == known.producer_epoch:
        return bumped, known.producer_epoch
    if current.epoch == known.last_producer_epoch:
        return known.producer, known.last_producer_epoch
    raise ProducerFenced(_mismatch(known, current))


def check_not_prepared(known: Transaction) -> None:
    """Check that no decision of the transaction is being carried out.

    This comes before any check of the producer, whose next identity counts only afterwards.

    Raises:
        ConcurrentTransactions: the client has to retry.
    """
    if known.state in PREPARED:
        raise ConcurrentTransactions(f"a transaction of {known.transactional_id!r} is being completed")


def check_producer(known: Transaction | None, producer: ProducerIdentity) -> Transaction:
    """Return the transaction, if that producer may continue it.

    Raises:
        InvalidProducerIdMapping: the transactional id is unknown, or has another producer id.
        ProducerFenced: it has another epoch.
        ConcurrentTransactions: a decision is being carried out.
    """
    if known is None:
        raise InvalidProducerIdMapping("the transactional id is not known here")
    check_not_prepared(known)
    if known.producer_id != producer.producer_id:
        raise InvalidProducerIdMapping(_mismatch(known, producer))
    if known.producer_epoch != producer.epoch:
        raise ProducerFenced(_mismatch(known, producer))
    return known


def add(
    known: Transaction | None,
    producer: ProducerIdentity,
    partitions: Collection[TopicPartition],
    version: int,
    now_ms: int,
) -> Transaction | None:
    """Add partitions to the transaction, which begins with that unless one is open.

    Raises:
        InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions: see `check_producer`.
    """
    known = check_producer(known, producer)
    if known.state is ONGOING and known.partitions.issuperset(partitions):
        return None
    return attrs.evolve(
        known,
        state=move(known.state, Event.ADD),
        partitions=known.partitions.union(partitions),
        start_ms=known.start_ms if known.state is ONGOING else now_ms,
        last_update_ms=now_ms,
        previous_producer_id=known.producer_id,
        client_version=version,
    )


def verify(
    known: Transaction | None, producer: ProducerIdentity, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, BrokerError | None]:
    """Return for each partition why the transaction does not include it, None if it does.

    Raises:
        InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions: see `check_producer`.
    """
    known = check_producer(known, producer)
    return {
        partition: None
        if partition in known.partitions
        else TransactionAbortable(f"{partition} is not part of the transaction of {known.transactional_id!r}")
        for partition in partitions
    }


def end_needs_producer_id(known: Transaction | None, version: int) -> bool:
    """Return whether ending the transaction may need a producer id that was never used."""
    return known is not None and version >= EPOCH_PER_TRANSACTION and known.is_exhausted


def end(
    known: Transaction | None,
    producer: ProducerIdentity,
    *,
    commit: bool,
    version: int,
    now_ms: int,
    new_producer_id: int = NO_PRODUCER_ID,
) -> Transaction | None:
    """Commit or abort: return the decision, PrepareCommit or PrepareAbort, None if it was carried out.

    Raises:
        InvalidProducerIdMapping, ProducerFenced: the producer has another id or epoch.
        ConcurrentTransactions: a decision is being carried out.
        InvalidTransactionState: there is nothing to end, or the opposite was decided.
    """
    if known is None:
        raise InvalidProducerIdMapping("the transactional id is not known here")
    check_not_prepared(known)
    if version >= EPOCH_PER_TRANSACTION:
        verdict = _verdict_by_epoch(known, producer, commit)
    else:
        verdict = _verdict(known, producer, commit)
    if verdict is None:
        wanted = "commit" if commit else "abort"
        raise InvalidTransactionState(
            f"a transaction of {known.transactional_id!r} in state {known.state.title} cannot {wanted}"
        )
    if verdict is Verdict.DONE:
        return None
    return _decided(known, commit, version, now_ms, new_producer_id)


def _verdict(known: Transaction, producer: ProducerIdentity, commit: bool) -> Verdict | None:
    if known.producer_id != producer.producer_id:
        raise InvalidProducerIdMapping(_mismatch(known, producer))
    if known.producer_epoch != producer.epoch:
        raise ProducerFenced(_mismatch(known, producer))
    return ENDS.get((known.state, commit))


def _verdict_by_epoch(known: Transaction, producer: ProducerIdentity, commit: bool) -> Verdict | None:
    ran_out = (
        producer == (known.previous_producer_id, LAST_EPOCH_GIVEN_OUT) and known.producer_epoch == FIRST_EPOCH
    )
    if known.producer_id != producer.producer_id and not ran_out:
        raise InvalidProducerIdMapping(_mismatch(known, producer))
    is_retry = ran_out or known.producer_epoch == producer.epoch + 1
    is_current = known.producer_epoch == producer.epoch
    if not (is_retry or is_current) or is_retry not in EPOCHS_ACCEPTED[known.state]:
        raise ProducerFenced(_mismatch(known, producer))
    return ENDS_WITH_EPOCHS.get((known.state, commit, is_retry))


def fence(known: Transaction, now_ms: int, new_producer_id: int = NO_PRODUCER_ID) -> Transaction:
    """Abort an open transaction that its producer does not end, and fence that producer.

    Raises:
        InvalidTransactionState: nothing is open.
    """
    fencing = attrs.evolve(known, state=move(known.state, Event.FENCE))
    return _decided(fencing, False, EPOCH_PER_TRANSACTION, now_ms, new_producer_id)


def _decided(
    known: Transaction, commit: bool, version: int, now_ms: int, new_producer_id: int
) -> Transaction:
    """Return the decision; with an epoch for each transaction the markers already have the next one."""
    if known.producer_epoch == MAX_EPOCH:
        version = FIRST_TRANSACTION_VERSION
    bumps = version >= EPOCH_PER_TRANSACTION
    return attrs.evolve(
        known,
        state=move(known.state, Event.COMMIT if commit else Event.ABORT),
        producer_epoch=known.producer_epoch + 1 if bumps else known.producer_epoch,
        last_producer_epoch=known.producer_epoch if bumps else known.last_producer_epoch,
        previous_producer_id=known.producer_id,
        next_producer_id=new_producer_id if bumps and known.is_exhausted else NO_PRODUCER_ID,
        start_ms=now_ms if known.state in AT_REST else known.start_ms,
        last_update_ms=now_ms,
        partitions=frozenset() if known.state in AT_REST else known.partitions,
        client_version=version,
    )


def complete(known: Transaction, now_ms: int) -> Transaction:
    """Return the transaction after all of its markers were written.

    Raises:
        InvalidTransactionState: nothing was decided.
    """
    rotates = known.next_producer_id != NO_PRODUCER_ID
    return attrs.evolve(
        known,
        state=move(known.state, Event.MARKED),
        producer_id=known.next_producer_id if rotates else known.producer_id,
        producer_epoch=FIRST_EPOCH if rotates else known.producer_epoch,
        previous_producer_id=known.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )


def is_overdue(known: Transaction, now_ms: int) -> bool:
    """Return whether the transaction is open for longer than its producer's transaction timeout.

    One that is part of a two-phase commit has none: only its producer knows the decision (KIP-939).
    """
    if known.timeout_ms == NO_TIMEOUT_MS:
        return False
    return known.state is ONGOING and known.start_ms + known.timeout_ms < now_ms


def is_expired(known: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """Return whether the transactional id was not used for so long that it is removed."""
    return known.state in AT_REST and known.last_update_ms <= now_ms - expiration_ms


def _mismatch(known: Transaction, producer: ProducerIdentity) -> str:
    return (
        f"{known.transactional_id!r} has producer id {known.producer_id} and epoch {known.producer_epoch}, "
        f"the request has {producer.producer_id} and {producer.epoch}"
    )
