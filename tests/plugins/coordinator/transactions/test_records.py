"""`TransactionChange`: Kafka's bytes, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.seams.coordination.transactions import TransactionState
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.runtime.durable_change import UnreadableRecord
from tidelog.plugins.coordinator.transactions.records import TransactionChange, TransactionLogValue
from tidelog.plugins.coordinator.transactions.transaction import Transaction
from tidelog.plugins.schema import encode

ID = st.integers(0, 2**63 - 1)
EPOCH = st.integers(0, 2**15 - 1)
TIME = st.integers(-1, 2**63 - 1)
PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.text("abc._-", min_size=1, max_size=5), st.integers(0, 99)), max_size=5
)
TRANSACTIONS = st.builds(
    Transaction,
    transactional_id=st.just("orders"),
    producer_id=ID,
    producer_epoch=EPOCH,
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from([state for state in TransactionState if state is not TransactionState.EMPTY]),
    partitions=PARTITIONS,
    start_ms=TIME,
    last_update_ms=TIME,
    previous_producer_id=st.just(-1) | ID,
    next_producer_id=st.just(-1) | ID,
    client_version=st.sampled_from([0, 1, 2]),
)


def value_of(transaction: Transaction, version: int = 1) -> bytes:
    """The value that is written, or that a broker with that version would write."""
    value = TransactionChange.to(transaction).value()
    assert value is not None
    assert isinstance(value.message, TransactionLogValue)
    return version.to_bytes(2) + encode(value.message, version)


def read(value: bytes, transactional_id: str = "tx") -> Transaction | None:
    """The transaction of a value."""
    return TransactionChange.from_record(
        TransactionChange(transactional_id, None).to_record().key, value
    ).transaction


@given(st.text(max_size=20))
def test_from_record_reads_a_tombstone(transactional_id: str) -> None:
    tombstone = TransactionChange(transactional_id, None)
    assert TransactionChange.from_record(*tombstone.to_record()) == tombstone


@given(TRANSACTIONS)
def test_from_record_reads_what_to_record_wrote(transaction: Transaction) -> None:
    change = TransactionChange.to(transaction)
    assert TransactionChange.from_record(*change.to_record()) == change


def test_to_record_writes_the_bytes_of_kafka() -> None:
    transaction = Transaction(
        "tx",
        5,
        3,
        60_000,
        TransactionState.ONGOING,
        frozenset((TopicPartition("t", 1), TopicPartition("t", 0))),
        start_ms=1,
        last_update_ms=2,
        client_version=2,
    )
    key, value = TransactionChange.to(transaction).to_record()
    assert key == b"\0\0\0\x02tx"
    assert value == value_of(transaction)
    assert value == (
        b"\0\x01"
        b"\0\0\0\0\0\0\0\x05"
        b"\0\x03"
        b"\0\0\xea\x60"
        b"\x01"
        b"\x02\x02t\x03\0\0\0\0\0\0\0\x01\0"
        b"\0\0\0\0\0\0\0\x02"
        b"\0\0\0\0\0\0\0\x01"
        b"\x01\x02\x02\0\x02"
    )
    assert value_of(transaction, 0) == (
        b"\0\0"
        b"\0\0\0\0\0\0\0\x05"
        b"\0\x03"
        b"\0\0\xea\x60"
        b"\x01"
        b"\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x01"
        b"\0\0\0\0\0\0\0\x02"
        b"\0\0\0\0\0\0\0\x01"
    )


def test_transaction_change_in_state_empty_has_null_transaction_partitions() -> None:
    empty = Transaction("tx", 5, 0, 60_000, TransactionState.EMPTY, last_update_ms=7)
    assert b"\0\0\xea\x60\0\0" in value_of(empty)
    assert read(value_of(empty)) == empty


def test_from_record_refuses_a_newer_value_by_its_version() -> None:
    with pytest.raises(UnreadableRecord, match="TransactionLogValue v2: this broker knows versions 0 to 1"):
        read(b"\0\x02whatever")


def test_more_behind_a_value_is_for_later_brokers() -> None:
    value = value_of(Transaction("tx", 5, 0, 60_000, TransactionState.EMPTY, last_update_ms=7))
    later = value[:-1] + b"\1\x09\2ab"
    assert read(later + b"more") == read(value)


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0\0\x05abc"])
def test_from_record_refuses_a_malformed_key(key: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        TransactionChange.from_record(key, None)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\x01abc", b"\0\0" + bytes(14) + b"\x63" + bytes(20)])
def test_from_record_refuses_a_malformed_value(value: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        read(value)
