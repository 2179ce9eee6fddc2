"""Records of an internal topic that cannot be read: the error, and how a message names such a record."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.errors import StorageError

_TYPE_BYTES: Final = 2
_LENGTH_BYTES: Final = 2
_SHOWN_BYTES: Final = 64
"""As much of a key as a log line shows."""


class UnreadableRecord(StorageError):
    """A record is malformed, or of a version that is newer than this broker."""


def describe_key(key: bytes) -> str:
    """Return the type, the group and the bytes of a key of `__consumer_offsets`, as far as they can be read.

    Keys of all types begin with the type (int16) and the id of the group (a string with an int16 length).
    """
    shown = key[:_SHOWN_BYTES].hex() + ("..." if len(key) > _SHOWN_BYTES else "")
    begins = _TYPE_BYTES + _LENGTH_BYTES
    length = int.from_bytes(key[_TYPE_BYTES:begins], signed=True)
    if len(key) < begins or not 0 <= length <= len(key) - begins:
        return f"key {shown}"
    kind = int.from_bytes(key[:_TYPE_BYTES], signed=True)
    group = key[begins : begins + length].decode(errors="replace")
    return f"key of type {kind}, group {group[:_SHOWN_BYTES]!r}, {shown}"
