"""The transactions in memory, as the log tells them: by partition of the log and transactional id.

What is read back of the log is only looked at where it matters: records of one id follow each other in great
numbers, and most ids that are at rest are never asked for again before they expire.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.kernel.errors import CorruptBatch
from tidelog.plugins.coordinator.records.transactions import (
    STATUS_AT,
    decode_key,
    decode_value,
    encode_key,
)
from tidelog.plugins.coordinator.transactions.states import ONGOING, PREPARED
from tidelog.plugins.coordinator.transactions.transaction import Transaction

_log = logging.getLogger(__name__)

_SHOWN_BYTES: Final = 64
_NEEDED_AT_ONCE: Final = frozenset({ONGOING, *PREPARED})


class Held(NamedTuple):
    """A transaction and the partition of the log that it is in."""

    partition: int
    transaction: Transaction


class TransactionTable:
    """All transactional ids, with the open transactions at hand by producer id and the decided ones by name.

    A producer id has at most one open transaction, since an id belongs to one transactional id.
    """

    def __init__(self) -> None:
        self.ongoing: dict[int, Held] = {}
        self.prepared: dict[str, int] = {}
        self._partitions: dict[int, dict[str, Transaction]] = {}
        self._unread: dict[int, dict[bytes, bytes]] = {}

    def __iter__(self) -> Iterator[Held]:
        """All of them; the table may change between one and the next."""
        unread = [(partition, key) for partition, records in self._unread.items() for key in records]
        for partition, transactions in tuple(self._partitions.items()):
            for transaction in tuple(transactions.values()):
                yield Held(partition, transaction)
        for partition, key in unread:
            found = self._read(partition, key)
            if found is not None:
                yield Held(partition, found)

    def load(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Remember the newest value of a key that was read back; None takes it away."""
        unread = self._unread.setdefault(partition, {})
        if value is None:
            unread.pop(key, None)
        else:
            unread[key] = value

    def loaded(self, partition: int) -> None:
        """The partition was read to its end: what is open or decided is needed now."""
        for key, value in tuple(self._unread.get(partition, {}).items()):
            if len(value) <= STATUS_AT or value[STATUS_AT] in _NEEDED_AT_ONCE:
                self._read(partition, key)

    def get(self, partition: int, transactional_id: str) -> Transaction | None:
        """The transaction of an id, None for an unknown one."""
        found = self._partitions.get(partition, {}).get(transactional_id)
        if found is None and self._unread.get(partition):
            return self._read(partition, encode_key(transactional_id))
        return found

    def unfinished(self, producer_id: int) -> Held | None:
        """The transaction of a producer that is open or decided, None if it has none."""
        held = self.ongoing.get(producer_id)
        if held is not None:
            return held
        for transactional_id, partition in self.prepared.items():
            transaction = self._partitions[partition][transactional_id]
            if transaction.producer_id == producer_id:
                return Held(partition, transaction)
        return None

    def put(self, partition: int, transaction: Transaction) -> None:
        """What is in the log from now on."""
        transactional_id = transaction.transactional_id
        transactions = self._partitions.setdefault(partition, {})
        self._let_go(transactions.get(transactional_id))
        transactions[transactional_id] = transaction
        if transaction.state is ONGOING:
            self.ongoing[transaction.producer_id] = Held(partition, transaction)
        elif transaction.state in PREPARED:
            self.prepared[transactional_id] = partition

    def remove(self, partition: int, transactional_id: str) -> None:
        """The id is forgotten."""
        self._let_go(self._partitions.get(partition, {}).pop(transactional_id, None))

    def forget(self, partition: int) -> None:
        """The log's partition is gone with all that it told."""
        self._unread.pop(partition, None)
        for transaction in self._partitions.pop(partition, {}).values():
            self._let_go(transaction)

    def _read(self, partition: int, key: bytes) -> Transaction | None:
        """Decode what was read back. What is malformed or newer than this broker is logged and left out."""
        value = self._unread.get(partition, {}).pop(key, None)
        if value is None:
            return None
        try:
            transactional_id = decode_key(key)
            found = None if transactional_id is None else decode_value(transactional_id, value)
        except CorruptBatch as error:
            _log.error(
                "a record of __transaction_state-%d cannot be read and is left out (key %s): %s",
                partition,
                key[:_SHOWN_BYTES].hex(),
                error,
            )
            return None
        if found is not None:
            self.put(partition, found)
        return found

    def _let_go(self, transaction: Transaction | None) -> None:
        if transaction is None:
            return
        if transaction.state is ONGOING:
            self.ongoing.pop(transaction.producer_id, None)
        elif transaction.state in PREPARED:
            self.prepared.pop(transaction.transactional_id, None)
