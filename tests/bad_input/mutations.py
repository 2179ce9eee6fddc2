"""Two ways to spoil a good request: its bytes, and the values of its fields."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import attrs

from tidelog.plugins.protocol_kafka.messages.fetch import FetchReplicaState
from tidelog.plugins.schema import EncodeError

from .raw import framed
from .requests import ask

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from tidelog.plugins.protocol_kafka.messages.api import Api

# The only structure in a request that cannot be changed.
FROZEN = FetchReplicaState
EDGES = (0, 1, -1, -2, 127, 255, 0x7FFF, -0x8000, 0x7FFFFFFF, -0x80000000, (1 << 63) - 1, -(1 << 63))
TEXTS = (None, "", ".", "a/b", "\0", "x" * 300, "\N{GRINNING FACE}" * 8000, "__cluster_metadata")
COPIES = 40


def spoiled_bytes(frame: bytes, chance: random.Random) -> bytes:
    """The request with one to three changes in its bytes, in a frame of the right length."""
    payload = bytearray(frame[4:])
    for _ in range(chance.randint(1, 3)):
        chance.choice(_BYTE_CHANGES)(payload, chance)
    return framed(bytes(payload))


def _flip(payload: bytearray, chance: random.Random) -> None:
    if payload:
        payload[chance.randrange(len(payload))] ^= 1 << chance.randrange(8)


def _cut(payload: bytearray, chance: random.Random) -> None:
    del payload[chance.randint(0, len(payload)) :]


def _insert(payload: bytearray, chance: random.Random) -> None:
    position = chance.randint(0, len(payload))
    payload[position:position] = chance.randbytes(chance.randint(1, 9))


def _remove(payload: bytearray, chance: random.Random) -> None:
    position = chance.randint(0, len(payload))
    del payload[position : position + chance.randint(1, 9)]


def _overwrite(payload: bytearray, chance: random.Random) -> None:
    """An edge value where a length or a count may be."""
    code, size = chance.choice(((">b", 1), (">h", 2), (">i", 4), (">q", 8)))
    edges = [edge for edge in EDGES if -(1 << 8 * size - 1) <= edge < 1 << 8 * size - 1]
    position = chance.randint(0, len(payload))
    payload[position : position + size] = struct.pack(code, chance.choice(edges))


_BYTE_CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip,
    _cut,
    _insert,
    _remove,
    _overwrite,
)


def spoiled_fields(api: Api, version: int, request: object, chance: random.Random) -> bytes | None:
    """The request, spoiled in place by one or two odd values; None when that version cannot carry them."""
    for _ in range(chance.randint(1, 2)):
        owner, field = chance.choice(list(_fields(request)))
        setattr(owner, field.name, _odd(getattr(owner, field.name), chance))
    try:
        return ask(api, version, request).data
    except (EncodeError, TypeError, AttributeError):
        return None


def _fields(message: Any) -> Iterator[tuple[Any, attrs.Attribute[Any]]]:
    for field in attrs.fields(type(message)):
        value = getattr(message, field.name)
        yield message, field
        for nested in value if isinstance(value, list) else [value]:
            if attrs.has(type(nested)) and not isinstance(nested, FROZEN):
                yield from _fields(nested)


def _odd(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice(EDGES)
    if isinstance(value, list):
        return chance.choice((None, [], value * 2, value * COPIES))
    if isinstance(value, bytes | memoryview):
        return chance.choice((None, b"", chance.randbytes(16), bytes(value) * 2))
    return chance.choice(TEXTS)
