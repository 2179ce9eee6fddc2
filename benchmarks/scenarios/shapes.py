"""Shapes of a throughput load, and which of them are measured."""

from __future__ import annotations

from itertools import product

import attrs

VALUE_SIZES = {100: "100B", 1_000: "1KB"}
# 16 KiB is the Java client's default batch.size; a million bytes is librdkafka's, and under the broker's
# default limit (message.max.bytes, 1,048,588), so that no limit has to be raised on either side.
BATCH_SIZES = {16_384: "16KB", 100_000: "100KB", 1_000_000: "1MB"}
BARE_BATCH_SIZES = (16_384, 1_000_000)
"""Of rows without compression."""
CODECS = ("lz4", "zstd", "snappy", "gzip")
PARTITIONS = (1, 16)


@attrs.frozen
class Shape:
    """Bytes of a value, bytes of a batch before compression, codec, number of partitions."""

    value_bytes: int
    batch_bytes: int
    compression: str = "none"
    partitions: int = 1

    @property
    def name(self) -> str:
        """As in row names."""
        sizes = f"{VALUE_SIZES[self.value_bytes]}-{BATCH_SIZES[self.batch_bytes]}"
        return f"{sizes}-{self.compression}-{self.partitions}p"

    @property
    def title(self) -> str:
        """As in tables."""
        value, batch = VALUE_SIZES[self.value_bytes], BATCH_SIZES[self.batch_bytes]
        partitions = f"{self.partitions} partition{'s' if self.partitions > 1 else ''}"
        return f"{value} records, {batch} batches, {self.compression}, {partitions}"


FULL_MATRIX = (
    *(Shape(*shape) for shape in product(VALUE_SIZES, BARE_BATCH_SIZES, ("none",), PARTITIONS)),
    *(Shape(*shape) for shape in product(VALUE_SIZES, BATCH_SIZES, CODECS)),
)
DEFAULT_MATRIX = (
    *(Shape(*shape) for shape in product((1_000,), BARE_BATCH_SIZES, ("none",), PARTITIONS)),
    Shape(100, 16_384),
    *(Shape(1_000, 100_000, codec) for codec in CODECS),
    Shape(1_000, 1_000_000, "lz4"),
)
SMOKE_MATRIX = (Shape(1_000, 16_384), Shape(100, 1_000_000, "lz4", 16))
