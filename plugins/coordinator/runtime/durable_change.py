"""Durable changes: each type of record that coordinators keep is one class.

    key    key type int16, then the key's schema in version 0
    value  version int16, then the value's schema in that version; without a value the record is a tombstone

Source: Apache Kafka's `CoordinatorRecord` and `CoordinatorRecordSerde`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar

from tidelog.kernel.errors import StorageError
from tidelog.plugins.coordinator.runtime.batches import StateRecord
from tidelog.plugins.schema import CodecError, decode, decoder, encode, encode_in_steps
from tidelog.plugins.schema.declare import versions_of
from tidelog.plugins.schema.errors import DecodeError

TYPE_BYTES: Final = 2
"""Size of the type that a key begins with, and of the version that a value begins with."""

_LENGTH_BYTES: Final = 2
_SHOWN_BYTES: Final = 64
"""As much of a key as a log line shows."""

StateT = TypeVar("StateT")


class UnreadableRecord(StorageError):
    """A record of an internal topic is malformed, or of a version that is newer than this broker."""


class VersionedValue(NamedTuple):
    """The value of a record as a message of `value_schema`, and the version to write it in."""

    version: int
    message: object


class DurableChange(ABC, Generic[StateT]):
    """One change of a coordinator's state, which is one record of its log.

    A subclass is all that there is to know about one type of record: the type of its key, the schemas of its
    key and of all versions of its value, how both are made of the change and read back, and what the change
    does to the state. A service decides on changes, appends their records, and applies them; loading the log
    reads the same classes back and applies them in the same way, so that both always agree.

    Subclasses are frozen attrs classes, or have slots where many are made. One class stands for the newest
    value of a key and for its tombstone, which removes the key.

    Attributes:
        key_type: what the keys of these records begin with
        key_schema: the message behind the type, in its version 0
        value_schema: the message of the value, whose version range is what can be read
    """

    __slots__ = ()

    key_type: ClassVar[int]
    key_schema: ClassVar[type[Any]]
    value_schema: ClassVar[type[Any]]

    @abstractmethod
    def key(self) -> object:
        """Return the key as a message of `key_schema`."""

    @abstractmethod
    def value(self) -> tuple[int, object] | None:
        """Return the value to write as a `VersionedValue`, None for a tombstone."""

    @abstractmethod
    def apply(self, state: StateT) -> None:
        """Make the change in memory; its record is in the log."""

    def apply_pending(self, state: StateT, producer_id: int, record_offset: int) -> None:
        """Make the change of the record at `record_offset`, in a producer's open transaction.

        It counts at once, as in Kafka, unless its type waits for the end of the transaction.
        """
        self.apply(state)

    @classmethod
    @abstractmethod
    def from_messages(cls, key: Any, value: Any) -> Self:
        """Return the change of a key and a value (None for a tombstone).

        Raises:
            ValueError: the messages are well-formed, but no such change exists.
        """

    def key_bytes(self) -> bytes:
        """Return the key of the record to append."""
        return self.key_type.to_bytes(TYPE_BYTES) + encode(self.key(), 0)

    def to_record(self) -> StateRecord:
        """Return the record to append."""
        value = self.value()
        if value is None:
            return StateRecord(self.key_bytes(), None)
        version, message = value
        return StateRecord(self.key_bytes(), version.to_bytes(TYPE_BYTES) + encode(message, version))

    def to_record_in_steps(self) -> Generator[None, None, StateRecord]:
        """Return the record to append; yield after each small piece of a value that may be large."""
        yield
        return self.to_record()

    def record_in_steps(self, value: tuple[int, object] | None) -> Generator[None, None, StateRecord]:
        """Return the record of a value that may be large; yield after each small piece."""
        if value is None:
            return StateRecord(self.key_bytes(), None)
        version, message = value
        encoded = yield from encode_in_steps(message, version)
        return StateRecord(self.key_bytes(), version.to_bytes(TYPE_BYTES) + encoded)

    @classmethod
    def from_record(cls, key: bytes, value: bytes | None) -> Self:
        """Return the change of a record that was read back; its key has this class's type.

        Raises:
            UnreadableRecord: it is malformed, or of a version that is newer than this broker.
        """
        try:
            return cls.from_messages(cls.decode_key(key), None if value is None else cls.decode_value(value))
        except (CodecError, ValueError) as error:
            raise UnreadableRecord(f"a record of type {cls.key_type} cannot be decoded: {error}") from None

    @classmethod
    def decode_key(cls, key: bytes) -> Any:
        """Return the message of a key.

        Raises:
            DecodeError: it is malformed, or has bytes behind the message.
        """
        return decode(cls.key_schema, 0, key[TYPE_BYTES:])

    @classmethod
    def decode_value(cls, value: bytes) -> Any:
        """Return the message of a value of any version. What later brokers add behind it is skipped.

        Raises:
            DecodeError: it is malformed, or of a version that this broker does not know.
        """
        schema, version = cls.value_schema, int.from_bytes(value[:TYPE_BYTES], signed=True)
        known = versions_of(schema)
        if len(value) < TYPE_BYTES or not known.covers(version):
            reason = f"this broker knows versions {known.low} to {known.high}"
            raise DecodeError(schema.__name__, version, "", reason)
        return decoder(schema, version)(value, TYPE_BYTES)[0]


def describe_key(key: bytes) -> str:
    """Return the type, the group and the bytes of a key of `__consumer_offsets`, as far as they can be read.

    Keys of all types begin with the type (int16) and the id of the group (a string with an int16 length).
    """
    shown = key[:_SHOWN_BYTES].hex() + ("..." if len(key) > _SHOWN_BYTES else "")
    begins = TYPE_BYTES + _LENGTH_BYTES
    length = int.from_bytes(key[TYPE_BYTES:begins], signed=True)
    if len(key) < begins or not 0 <= length <= len(key) - begins:
        return f"key {shown}"
    kind = int.from_bytes(key[:TYPE_BYTES], signed=True)
    group = key[begins : begins + length].decode(errors="replace")
    return f"key of type {kind}, group {group[:_SHOWN_BYTES]!r}, {shown}"
