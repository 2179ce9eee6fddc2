"""States of producers without a broker."""

from __future__ import annotations

import pickle

import pytest

from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client.errors import (
    ErrorResponse,
    FencedProducer,
    IllegalTransactionState,
    ProducerInDoubt,
    RequestTimedOut,
)
from tidelog.plugins.client.producers import ProducerTransactionState, TransactionalProducer
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

PARTITION = TopicPartition("orders", 0)
TIMED_OUT = RequestTimedOut("Produce v11", 30.0)
FENCING = [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]


def producer(*, begin: bool = True) -> TransactionalProducer:
    made = TransactionalProducer(7, 2, transactional_id="tx", timeout_ms=60_000)
    if begin:
        made.begin_transaction()
    return made


def test_transactional_producer_stamps_batches_as_transactional() -> None:
    stamp = producer().next_stamp(PARTITION)
    assert (stamp.producer_id, stamp.producer_epoch, stamp.base_sequence, stamp.is_transactional) == (
        7,
        2,
        0,
        True,
    )


def test_transactional_producer_needs_an_open_transaction() -> None:
    made = producer(begin=False)
    for call in (lambda: made.next_stamp(PARTITION), made.check_open, made.begin_commit, made.begin_abort):
        with pytest.raises(IllegalTransactionState, match="'tx': no transaction is open"):
            call()
    made.begin_transaction()
    with pytest.raises(IllegalTransactionState, match="a transaction is open"):
        made.begin_transaction()


def test_transactional_producer_cannot_commit_after_a_refused_batch() -> None:
    made = producer()
    made.sending(PARTITION)
    made.refused(PARTITION, ErrorResponse(ErrorCode.MESSAGE_TOO_LARGE, "orders-0"))
    for call in (lambda: made.next_stamp(PARTITION), made.begin_commit):
        with pytest.raises(IllegalTransactionState, match=r"can only be aborted; .* MESSAGE_TOO_LARGE"):
            call()
    made.begin_abort()
    assert made.needs_new_epoch


def test_transactional_producer_cannot_commit_a_batch_in_doubt() -> None:
    made = producer()
    made.sending(PARTITION)
    with pytest.raises(ProducerInDoubt):
        made.begin_commit()
    assert made.needs_new_epoch
    made.begin_abort()


@pytest.mark.parametrize("code", FENCING)
def test_transactional_producer_is_fenced_for_good(code: ErrorCode) -> None:
    made = producer()
    error = made.refused(PARTITION, ErrorResponse(code, "orders-0"))
    assert isinstance(error, FencedProducer)
    assert made.state is ProducerTransactionState.FENCED
    for call in (made.check_open, made.begin_commit, made.begin_abort, made.begin_transaction):
        with pytest.raises(FencedProducer, match=f"transactional id 'tx': {code.name}"):
            call()


def test_transactional_producer_can_only_commit_once_more_when_a_commit_is_in_doubt() -> None:
    made = producer()
    made.begin_commit()
    made.fail(TIMED_OUT)
    with pytest.raises(IllegalTransactionState, match="is being committed"):
        made.begin_abort()
    made.begin_commit()
    made.ended()
    assert made.state is ProducerTransactionState.READY


def test_transactional_producer_ends_a_transaction_without_partitions_and_groups_by_itself() -> None:
    made = producer()
    seen = [made.is_empty]
    made.add_group("g")
    seen.append(made.is_empty)
    made.ended()
    made.begin_transaction()
    seen.append(made.is_empty)
    made.fail(TIMED_OUT)  # the coordinator may have added a partition all the same
    seen.append(made.is_empty)
    assert seen == [True, False, True, False]


def test_transactional_producer_begins_again_at_sequence_0_with_a_new_epoch() -> None:
    made = producer()
    made.sending(PARTITION)
    made.appended(PARTITION, 5)
    assert made.next_stamp(PARTITION).base_sequence == 5
    made.renew(7, 3)
    stamp = made.next_stamp(PARTITION)
    assert (stamp.producer_epoch, stamp.base_sequence) == (3, 0)


def test_transactional_producer_can_be_pickled_with_its_transaction() -> None:
    made = producer()
    made.add_partitions([PARTITION])
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.missing_partitions([PARTITION, TopicPartition("orders", 1)]) == [TopicPartition("orders", 1)]


def test_reserved_batches_are_numbered_before_there_is_a_response() -> None:
    with pytest.raises(IllegalTransactionState):
        producer(begin=False).reserve(PARTITION, 3)
    made = producer()
    stamps = [made.reserve(PARTITION, records) for records in (3, 2, 1)]
    assert [stamp.base_sequence for stamp in stamps] == [0, 3, 5]
    assert all(stamp.is_transactional for stamp in stamps)
    with pytest.raises(ProducerInDoubt):
        made.begin_commit()
    made.settled(PARTITION)
    made.begin_commit()
