"""Keys are hashed as any MD5 does it, one at a time or many at once."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.cleaner.compaction.blocks import block_of
from tidelog.plugins.cleaner.compaction import hashing
from tidelog.plugins.cleaner.compaction.hashing import hash_keys


def digests(keys: Sequence[bytes | None]) -> list[bytes]:
    """The hashes of those that are there."""
    return [md5(key, usedforsecurity=False).digest() for key in keys if key is not None]


def hashes(keys: Sequence[bytes | None]) -> list[bytes]:
    """What `hash_keys` returns for a block with them."""
    block = block_of(keys)
    return [row.tobytes() for row in hash_keys(block, block.key_size >= 0)]


sizes = st.integers(0, 70) | st.sampled_from([3, 4, 5, 51, 52, 53, 54, 55, 56, 57, 63, 64, 65, 200])
some_keys = st.lists(
    st.none() | sizes.flatmap(lambda size: st.binary(min_size=size, max_size=size)), max_size=12
)


@given(some_keys, st.sampled_from([1, 2, 3, 100]), st.sampled_from([1, 2, 5, 8192]))
def test_hash_keys_is_md5(keys: list[bytes | None], least: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "_LEAST_TOGETHER", least)
        patch.setattr(hashing, "_MOST_TOGETHER", most)
        assert hashes(keys) == digests(keys)


def test_hash_keys_of_twenty_thousand_keys_is_md5() -> None:
    random = Random(1)
    keys = [random.randbytes(random.randrange(60)) for _ in range(20_000)]
    assert hashes(keys) == digests(keys)


def test_hash_keys_of_one_size_is_md5() -> None:
    for size in range(57):
        keys = [bytes([number]) * size for number in range(0, 256, 17)] * 20
        assert hashes(keys) == digests(keys)
