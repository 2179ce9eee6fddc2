"""Conformance of compression codecs: a suite that every codec passes.

class TestMyCodec(CompressionCodecConformance, plugin=my_plugin): ...
"""

from __future__ import annotations

import pickle
import random
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any, ClassVar

import pytest

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.compression import LEAST_MEMORY_BYTES, compress, register_codecs, unpack
from tidelog.kernel.seams.compression import MAX_CODEC_ID, CompressionCodec

MIB = 1024 * 1024
BOMB_BYTES = 64 * MIB
BOMB_LIMIT_BYTES = 4 * MIB
FLIPS = 200
CONTENTS = (
    b"",
    b"x",
    b"the quick brown fox jumps over the lazy dog " * 3000,
    random.Random(7).randbytes(200_000),
    bytes(MIB),
)


def expect_bytes(found: bytes, expected: bytes) -> None:
    """Fail unless both are equal, in a sentence: pytest compares a megabyte byte by byte, for minutes.

    Raises:
        AssertionError: they differ.
    """
    if found != expected:
        pairs = zip(found, expected, strict=False)
        same = next((at for at, (one, other) in enumerate(pairs) if one != other), "the end of one")
        raise AssertionError(f"{len(found)} bytes, not the {len(expected)} expected: they differ at {same}")


class CompressionCodecConformance:
    """Everything that the kernel relies on; `plugin` is the module with the hook of the codec to prove.

    `codec_name` chooses one where the plugin offers several.
    """

    plugin: ClassVar[ModuleType]
    codec_name: ClassVar[str | None] = None

    def __init_subclass__(cls, plugin: ModuleType | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if plugin is not None:
            cls.plugin = plugin

    @pytest.fixture
    def codec(self) -> CompressionCodec:
        """Return the codec under test, registered."""
        offered: Sequence[CompressionCodec] = list(self.plugin.tidelog_compression_codecs())
        (chosen,) = [each for each in offered if self.codec_name in (None, each.name)]
        register_codecs([chosen])
        return chosen

    def test_id_fits_the_attributes_of_a_batch(self, codec: CompressionCodec) -> None:
        assert 1 <= codec.id <= MAX_CODEC_ID

    def test_codec_can_be_sent_to_another_process(self, codec: CompressionCodec) -> None:
        assert pickle.loads(pickle.dumps(codec)).id == codec.id  # noqa: S301

    @pytest.mark.parametrize("magic", [0, 1, 2])
    @pytest.mark.parametrize("content", CONTENTS, ids=["empty", "one", "text", "random", "zeros"])
    def test_unpack_returns_what_was_packed(
        self, codec: CompressionCodec, content: bytes, magic: int
    ) -> None:
        packed = compress(codec.id, content, magic=magic)
        expect_bytes(b"".join(unpack(codec.id, packed, len(content), magic=magic)), content)

    def test_pack_takes_pieces_of_any_size(self, codec: CompressionCodec) -> None:
        content = CONTENTS[2]
        cuts = [0, 1, 1, 70, 40_000, 100_000, len(content)]
        pieces = [content[start:end] for start, end in pairwise(cuts)]
        packed = b"".join(codec.pack(pieces, None))
        expect_bytes(b"".join(unpack(codec.id, packed, len(content))), content)

    def test_pack_takes_every_level_at_the_ends_of_the_range(self, codec: CompressionCodec) -> None:
        key = codec.level_key
        levels = [] if key is None else [key.default, *map(int, _bounds(key.type.allowed))]
        for level in levels:
            packed = compress(codec.id, CONTENTS[2], level)
            expect_bytes(b"".join(unpack(codec.id, packed, MIB)), CONTENTS[2])

    def test_unpack_refuses_bytes_that_end_early(self, codec: CompressionCodec) -> None:
        packed = compress(codec.id, CONTENTS[3])
        for cut in (0, 1, len(packed) // 2, len(packed) - 1):
            with pytest.raises(CorruptBatch):
                list(unpack(codec.id, packed[:cut], MIB))

    def test_unpack_of_changed_bytes_raises_corrupt_batch_or_stays_within_the_limit(
        self, codec: CompressionCodec
    ) -> None:
        choose = random.Random(11)
        packed = compress(codec.id, CONTENTS[2][:5000])
        for _ in range(FLIPS):
            changed = bytearray(packed)
            changed[choose.randrange(len(changed))] ^= choose.randrange(1, 256)
            try:
                assert sum(map(len, unpack(codec.id, changed, 6000))) <= 6000
            except CorruptBatch:
                continue

    def test_unpack_of_a_bomb_takes_no_more_memory_than_it_says(self, codec: CompressionCodec) -> None:
        zeros = bytes(MIB)
        bomb = b"".join(codec.pack([zeros] * (BOMB_BYTES // MIB), None))
        tracemalloc.start()
        try:
            with pytest.raises(CorruptBatch, match="unpack to more than"):
                for _ in unpack(codec.id, bomb, BOMB_LIMIT_BYTES):
                    pass
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak <= max(codec.memory_for(bomb), LEAST_MEMORY_BYTES) + BOMB_LIMIT_BYTES

    def test_no_piece_is_larger_than_the_memory_that_it_says(self, codec: CompressionCodec) -> None:
        packed = compress(codec.id, bytes(BOMB_BYTES))
        most_bytes = max(codec.memory_for(packed), LEAST_MEMORY_BYTES)
        assert max(map(len, unpack(codec.id, packed, BOMB_BYTES))) <= most_bytes


def _bounds(allowed: str) -> list[str]:
    """Return the ends of a range such as `1 to 9, or -1`."""
    return allowed.partition(",")[0].split(" to ")
