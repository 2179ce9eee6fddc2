"""The types of keys that consumer groups have in `__consumer_offsets`, and the version of their values."""

from __future__ import annotations

from typing import Final

EPOCH: Final = 3
PARTITION_METADATA: Final = 4
MEMBER: Final = 5
ASSIGNMENT_EPOCH: Final = 6
TARGET: Final = 7
CURRENT: Final = 8
REGEX: Final = 16

KEY_TYPES: Final = frozenset((EPOCH, PARTITION_METADATA, MEMBER, ASSIGNMENT_EPOCH, TARGET, CURRENT, REGEX))
"""All of them; others belong to somebody else."""

VALUE_VERSION: Final = b"\0\0"
"""What a value begins with: version 0 as two bytes."""


def key_type(key: bytes) -> int:
    """The type that a key in `__consumer_offsets` begins with, -1 for none."""
    return int.from_bytes(key[:2]) if len(key) >= 2 else -1
