"""Records of the transaction log: Kafka's bytes, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.seams.coordination.transactions import TransactionState
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.records.transactions import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tidelog.plugins.coordinator.transactions.transaction import Transaction

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


@given(st.text(max_size=20))
def test_a_key_comes_back(transactional_id: str) -> None:
    assert decode_key(encode_key(transactional_id)) == transactional_id


@given(TRANSACTIONS)
def test_a_transaction_comes_back(transaction: Transaction) -> None:
    assert decode_value("orders", encode_value(transaction)) == transaction


def test_the_bytes_are_those_of_kafka() -> None:
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
    assert encode_key("tx") == b"\0\0\0\x02tx"
    assert encode_value(transaction) == (
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
    assert encode_value(transaction, 0) == (
        b"\0\0"
        b"\0\0\0\0\0\0\0\x05"
        b"\0\x03"
        b"\0\0\xea\x60"
        b"\x01"
        b"\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x01"
        b"\0\0\0\0\0\0\0\x02"
        b"\0\0\0\0\0\0\0\x01"
    )


def test_an_empty_transaction_has_no_list_of_partitions() -> None:
    empty = Transaction("tx", 5, 0, 60_000, TransactionState.EMPTY, last_update_ms=7)
    assert b"\0\0\xea\x60\0\0" in encode_value(empty)
    assert decode_value("tx", encode_value(empty)) == empty


def test_a_key_that_is_newer_than_this_broker_is_passed_over() -> None:
    assert decode_key(b"\0\x01whatever") is None


def test_a_value_that_is_newer_than_this_broker_is_refused_by_its_version() -> None:
    with pytest.raises(CorruptBatch, match="'tx' has version 2; this broker knows versions up to 1"):
        decode_value("tx", b"\0\x02whatever")


def test_more_behind_a_value_is_for_later_brokers() -> None:
    value = encode_value(Transaction("tx", 5, 0, 60_000, TransactionState.EMPTY, last_update_ms=7))
    later = value[:-1] + b"\1\x09\2ab"
    assert decode_value("tx", later + b"more") == decode_value("tx", value)


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0\0\x05abc"])
def test_a_broken_key(key: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode_key(key)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\x01abc", b"\0\0" + bytes(14) + b"\x63" + bytes(20)])
def test_a_broken_value(value: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode_value("tx", value)
