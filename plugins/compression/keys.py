"""Configuration keys of compression levels, for the broker and for topics."""

from __future__ import annotations

from tidelog.kernel.config.key import BrokerDefault, ConfigKey
from tidelog.kernel.config.types import ValueType, integer

DEFAULT_GZIP_LEVEL = -1
DEFAULT_LZ4_LEVEL = 9
DEFAULT_ZSTD_LEVEL = 3
BEST_GZIP_LEVEL, BEST_LZ4_LEVEL, BEST_ZSTD_LEVEL = 9, 17, 22
FASTEST_ZSTD_LEVEL = -131072


def _gzip_level() -> ValueType[int]:
    allowed = f"1 to {BEST_GZIP_LEVEL}, or {DEFAULT_GZIP_LEVEL}"
    whole = integer()

    def parse(text: str) -> int:
        level = whole.parse(text)
        if level != DEFAULT_GZIP_LEVEL and not 1 <= level <= BEST_GZIP_LEVEL:
            raise ValueError(f"is out of range ({allowed})")
        return level

    return ValueType("int", allowed, parse)


_GZIP_DOC = (
    "The level of gzip where `compression.type` has records recompressed with it; -1: zlib's default, 6."
)
_LZ4_DOC = (
    "The level of lz4 where `compression.type` has records recompressed with it; 9: the fast compressor, as "
    "in Apache Kafka."
)
_ZSTD_DOC = "The level of zstd where `compression.type` has records recompressed with it."

GZIP_LEVEL = ConfigKey(
    name="compression.gzip.level",
    type=_gzip_level(),
    default=DEFAULT_GZIP_LEVEL,
    dynamic=True,
    documentation=_GZIP_DOC,
)
TOPIC_GZIP_LEVEL = ConfigKey(
    name="compression.gzip.level",
    type=_gzip_level(),
    default=DEFAULT_GZIP_LEVEL,
    scope="topic",
    broker_defaults=(BrokerDefault(GZIP_LEVEL),),
    documentation=_GZIP_DOC,
)
LZ4_LEVEL = ConfigKey(
    name="compression.lz4.level",
    type=integer(1, BEST_LZ4_LEVEL),
    default=DEFAULT_LZ4_LEVEL,
    dynamic=True,
    documentation=_LZ4_DOC,
)
TOPIC_LZ4_LEVEL = ConfigKey(
    name="compression.lz4.level",
    type=integer(1, BEST_LZ4_LEVEL),
    default=DEFAULT_LZ4_LEVEL,
    scope="topic",
    broker_defaults=(BrokerDefault(LZ4_LEVEL),),
    documentation=_LZ4_DOC,
)
ZSTD_LEVEL = ConfigKey(
    name="compression.zstd.level",
    type=integer(FASTEST_ZSTD_LEVEL, BEST_ZSTD_LEVEL),
    default=DEFAULT_ZSTD_LEVEL,
    dynamic=True,
    documentation=_ZSTD_DOC,
)
TOPIC_ZSTD_LEVEL = ConfigKey(
    name="compression.zstd.level",
    type=integer(FASTEST_ZSTD_LEVEL, BEST_ZSTD_LEVEL),
    default=DEFAULT_ZSTD_LEVEL,
    scope="topic",
    broker_defaults=(BrokerDefault(ZSTD_LEVEL),),
    documentation=_ZSTD_DOC,
)
