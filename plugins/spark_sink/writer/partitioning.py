"""Partitions of records, as Kafka's default partitioner chooses them.

A key's partition is its murmur2 hash modulo the number of partitions. Records without a key go to one
partition until so many bytes are written to it, and then to another one.
Source: Apache Kafka's `Utils.murmur2` and `BuiltInPartitioner` (KIP-794).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.plugins.client.producer.hashing import murmur2

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.kernel.records.columns import Column

Hashes = npt.NDArray[np.uint32]

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_SHIFT: Final = 24
_POSITIVE: Final = 0x7FFFFFFF
_FEW_KEYS: Final = 32
"""From so few on, hashing each key on its own takes less time than one step in all of them."""


def key_partitions(keys: pa.BinaryArray, partitions: int) -> Column:
    """Return the partition of each key; that of a null key has no meaning."""
    return (murmur2_of_each(keys) & np.uint32(_POSITIVE)).astype(np.int64) % partitions


def sticky_partitions(sizes: Column, partitions: int, first: int, run_bytes: int) -> Column:
    """Return partitions for records without keys: runs of about `run_bytes`, each to the next partition.

    `sizes` are the bytes of each record, `first` counts the runs before.
    """
    runs = (np.cumsum(sizes) - sizes) // run_bytes
    return (runs + first) % partitions


def murmur2_of_each(keys: pa.BinaryArray) -> Hashes:
    """Return the murmur2 hash of each value, with the seed of Kafka's producers."""
    data, starts, sizes = binary_layout(keys)
    hashes = (np.uint32(_SEED) ^ sizes.astype(np.uint32)).astype(np.uint32)
    words = _words(data)
    left = sizes // 4
    active, position = np.flatnonzero(left), 0
    while len(active) > _FEW_KEYS:
        word = words[starts[active] + position]
        hashes[active] = hashes[active] * np.uint32(_MULTIPLIER) ^ _mixed(word)
        position += 4
        active = active[left[active] * 4 > position]
    hashes = _finished(_add_rest(hashes, data, starts, sizes))
    # From their first bytes on: what the steps have made of these keys is not used.
    for index in active.tolist():
        first = int(starts[index])
        hashes[index] = murmur2(data[first : first + int(sizes[index])].tobytes())
    return hashes


def binary_layout(keys: pa.BinaryArray) -> tuple[npt.NDArray[np.uint8], Column, Column]:
    """Return the bytes of an array, and where each value begins and how many bytes it has."""
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(keys) + 1, keys.offset * 4).astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    return data, offsets[:-1], np.diff(offsets)


def _words(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Return the four bytes from each position on as an integer, the first byte lowest."""
    count = max(len(data) - 3, 0)
    view: Any = np.ndarray((count,), "<u4", data, strides=(1,)) if count else np.empty(0, np.uint32)
    words: npt.NDArray[np.uint32] = view
    return words


def _mixed(word: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    word = word * np.uint32(_MULTIPLIER)
    word ^= word >> np.uint32(_SHIFT)
    return word * np.uint32(_MULTIPLIER)


def _add_rest(hashes: Hashes, data: npt.NDArray[np.uint8], starts: Column, sizes: Column) -> Hashes:
    """Add the last one to three bytes of each value, if its size is no multiple of four."""
    rest, after_words = sizes % 4, starts + sizes // 4 * 4
    for place in (2, 1, 0):
        some = np.flatnonzero(rest > place)
        hashes[some] ^= data[after_words[some] + place].astype(np.uint32) << np.uint32(8 * place)
    some = np.flatnonzero(rest)
    hashes[some] *= np.uint32(_MULTIPLIER)
    return hashes


def _finished(hashes: Hashes) -> Hashes:
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(_MULTIPLIER)
    hashes ^= hashes >> np.uint32(15)
    return hashes
