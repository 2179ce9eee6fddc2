"""The four codecs keep the contract of the seam."""

from __future__ import annotations

from typing import ClassVar

from tidelog.kernel.testing.compression import CompressionCodecConformance
from tidelog.plugins.compression import plugin as compression


class TestGzip(CompressionCodecConformance, plugin=compression):
    codec_name: ClassVar[str | None] = "gzip"


class TestSnappy(CompressionCodecConformance, plugin=compression):
    codec_name: ClassVar[str | None] = "snappy"


class TestLz4(CompressionCodecConformance, plugin=compression):
    codec_name: ClassVar[str | None] = "lz4"


class TestZstd(CompressionCodecConformance, plugin=compression):
    codec_name: ClassVar[str | None] = "zstd"
