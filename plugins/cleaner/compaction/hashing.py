"""MD5 of keys: as long as two keys do not have the same one, none is taken for the other.

The hashes of many short keys are computed together, a step for all of them at once. Sources: seed 001, "The
dedupe hash table, SkimpyOffsetMap"; RFC 1321.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5
from math import sin
from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.columns import Column, Mask

HASH_BYTES: Final = 16
Words = npt.NDArray[np.uint32]

_MOST_SHORT_BYTES: Final = 55
"""Of a key that fills one block of 64 bytes, with the end mark and its size."""
_LEAST_TOGETHER: Final = 256
"""From so many keys on, a step for all of them takes less time than all steps for each of them."""
_MOST_TOGETHER: Final = 8192
"""What they need fits into the caches of a processor."""
_WORDS: Final = 16
_WORD_BYTES: Final = 4
_SIZE_WORD: Final = 14
_WORD_MASK: Final = 2**32 - 1
_START: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
_ROTATIONS: Final = (7, 12, 17, 22) * 4 + (5, 9, 14, 20) * 4 + (4, 11, 16, 23) * 4 + (6, 10, 15, 21) * 4
_CONSTANTS: Final = [int(abs(sin(step + 1)) * 2**32) for step in range(64)]
_WORD_OF_STEP: Final = [
    *range(16),
    *[(5 * step + 1) % 16 for step in range(16)],
    *[(3 * step + 5) % 16 for step in range(16)],
    *[7 * step % 16 for step in range(16)],
]
# By the bytes of a key from a word on, -1 and less to 4 and more: what of the word is the key's, and the end
# mark behind it.
_KEY_MASKS: Final = np.array([0, 0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.uint32)
_END_MARKS: Final = np.array([0, 0x80, 0x8000, 0x800000, 0x80000000, 0], np.uint32)


def hash_keys(block: RecordBlock, keyed: Mask) -> npt.NDArray[np.uint8]:
    """Return the hashes of the keys of the records in `keyed`, a row of 16 bytes for each."""
    starts, sizes = block.key_start[keyed], block.key_size[keyed]
    hashes = np.empty((len(starts), HASH_BYTES), np.uint8)
    short = np.flatnonzero(sizes <= _MOST_SHORT_BYTES)
    if len(short) < _LEAST_TOGETHER:
        short = short[:0]
    content = block.data
    if short.size and int((starts + sizes)[short].max()) + _WORD_BYTES > len(content):
        # The last word of a key reaches beyond the data.
        content += bytes(_WORD_BYTES)
    for first in range(0, len(short), _MOST_TOGETHER):
        some = short[first : first + _MOST_TOGETHER]
        hashes[some] = _hash_short(content, starts[some], sizes[some])
    is_other = np.ones(len(starts), np.bool_)
    is_other[short] = False
    others = np.flatnonzero(is_other)
    if others.size:
        data = block.data
        places = zip(starts[others].tolist(), (starts + sizes)[others].tolist(), strict=True)
        digests = [md5(data[start:end], usedforsecurity=False).digest() for start, end in places]
        hashes[others] = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, HASH_BYTES)
    return hashes


def _hash_short(content: bytes, starts: Column, sizes: Column) -> npt.NDArray[np.uint8]:
    words: Words = np.ndarray((len(content) - 3,), "<u4", content, strides=(1,))
    message: list[Words | int] = [0] * _WORDS
    # Words that all keys fill have neither bytes of others nor an end mark.
    filled, after_last = int(sizes.min()) // 4, int(sizes.max()) // 4 + 1
    for index in range(filled):
        message[index] = words[starts + 4 * index]
    for index in range(filled, after_last):
        left = np.clip(sizes - 4 * index, -1, 4) + 1
        inside = np.minimum(starts + 4 * index, len(words) - 1)
        message[index] = (words[inside] & _KEY_MASKS[left]) | _END_MARKS[left]
    message[_SIZE_WORD] = (sizes * 8).astype(np.uint32)
    return _md5(message, len(starts))


def _md5(message: Sequence[Words | int], count: int) -> npt.NDArray[np.uint8]:
    """Return the hashes of messages of one block: 16 words, each with a number for all or one for each."""
    begin = [np.full(count, word, np.uint32) for word in _START]
    a, b, c, d = [each.copy() for each in begin]
    mixed, shifted = np.empty(count, np.uint32), np.empty(count, np.uint32)
    for step in range(64):
        _mix(step // 16, b, c, d, mixed)
        mixed += a
        word = message[_WORD_OF_STEP[step]]
        if isinstance(word, int):
            mixed += np.uint32((word + _CONSTANTS[step]) & _WORD_MASK)
        else:
            mixed += word
            mixed += np.uint32(_CONSTANTS[step])
        rotation = _ROTATIONS[step]
        np.left_shift(mixed, np.uint32(rotation), out=shifted)
        mixed >>= np.uint32(32 - rotation)
        mixed |= shifted
        np.add(mixed, b, out=a)
        a, b, c, d = d, a, b, c
    sums = [one + other for one, other in zip((a, b, c, d), begin, strict=True)]
    return np.stack(sums, axis=1).astype("<u4").view(np.uint8)


def _mix(turn: int, b: Words, c: Words, d: Words, out: Words) -> None:
    """Write the function of one of the four rounds to `out`."""
    if turn == 0:
        np.bitwise_xor(c, d, out=out)
        out &= b
        out ^= d
    elif turn == 1:
        np.bitwise_xor(b, c, out=out)
        out &= d
        out ^= c
    elif turn == 2:
        np.bitwise_xor(b, c, out=out)
        out ^= d
    else:
        np.invert(d, out=out)
        out |= b
        out ^= c
