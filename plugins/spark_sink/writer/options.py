"""The options of the writers: those of Spark's own Kafka sink, and `exactlyOnce`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from tidelog.kernel.records.compression import NO_COMPRESSION, registered_codecs
from tidelog.plugins.client import ClientSettings
from tidelog.plugins.client.batches import codec_of
from tidelog.plugins.spark_sink.connection_options import bootstrap_servers, client_settings
from tidelog.plugins.spark_sink.kafka_keys import CONNECTION_OPTIONS, PRODUCER_KEYS, PRODUCER_OPTIONS
from tidelog.plugins.spark_sink.option_values import (
    InvalidOption,
    OptionValues,
    boolean,
    number,
    one_of,
    pause,
    seconds,
)

NAMES: Final = (*CONNECTION_OPTIONS, "topic", "includeHeaders", "exactlyOnce", *PRODUCER_OPTIONS)
"""All options of the writers, in the spelling of their documentation."""
_OF_SPARK: Final = ("checkpointLocation", "queryName")
"""Options of every streaming query, which Spark passes on."""
_ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}

DEFAULT_BATCH_BYTES: Final = 512 * 1024
"""Larger than the 16 KB of Kafka's producers, which send records as they come: rows arrive in blocks."""
DEFAULT_MAX_REQUEST_BYTES: Final = 1024 * 1024
"""As `max.request.size` of Kafka's producers: brokers accept batches of about that size by default."""


@attrs.frozen
class WriterOptions:
    """What the options of a writer say.

    Attributes:
        bootstrap_servers: `host:port`, several separated by commas
        topic: the topic of all rows, None for that in each row
        exactly_once: whether a replayed micro-batch of a streaming query is not written again
        idempotent: whether the broker drops batches that are sent again
        acks: -1 for all in-sync replicas, 1 for the leader, 0 for none
        compression: codec by Kafka's name
        compression_level: of that codec, None for its default
        batch_bytes: about the size of a record batch before compression
        max_record_bytes: a larger record is refused
        ignore_keys: whether keys do not choose partitions
        transaction_timeout_ms: for the write of one task
        client: settings of the task's client
        without_effect: options that were given and change nothing
    """

    bootstrap_servers: str
    topic: str | None
    exactly_once: bool
    idempotent: bool
    acks: int
    compression: str
    compression_level: int | None
    batch_bytes: int
    max_record_bytes: int
    ignore_keys: bool
    transaction_timeout_ms: int
    client: ClientSettings
    without_effect: tuple[str, ...]

    @property
    def codec(self) -> int:
        """Return the codec id of the compression."""
        return codec_of(self.compression)


def _compressions() -> list[str]:
    return [NO_COMPRESSION, *(codec.name for codec in registered_codecs())]


def parse_writer_options(
    given: Mapping[str, str], *, streaming: bool, also: Sequence[str] = ()
) -> WriterOptions:
    """Validate the options of a writer; `also` are names that only reading uses.

    Raises:
        InvalidOption: one of them is unknown or missing, has a wrong value, or contradicts another one.
    """
    options = OptionValues.known(given, (*NAMES, *_OF_SPARK, *also), PRODUCER_KEYS)
    acks = _ACKS[options.read("kafka.acks", one_of(*_ACKS), "all")]
    exactly_once = options.read("exactlyOnce", boolean, streaming)
    idempotent = options.read("kafka.enable.idempotence", boolean, acks == -1)
    if exactly_once and not streaming:
        raise InvalidOption("exactlyOnce is for streaming queries: a batch query may write twice")
    for name, wanted in (("exactlyOnce", exactly_once), ("kafka.enable.idempotence", idempotent)):
        if wanted and acks != -1:
            raise InvalidOption(f"{name} needs the option kafka.acks to be all; or set {name} to false")
    options.read("includeHeaders", boolean, None)
    compression = options.read("kafka.compression.type", one_of(*_compressions()), NO_COMPRESSION)
    levels = {codec: options.read(name, parse, None) for codec, (name, parse) in _LEVELS.items()}
    return WriterOptions(
        bootstrap_servers=bootstrap_servers(options),
        topic=options.values.get("topic"),
        exactly_once=exactly_once,
        idempotent=idempotent,
        acks=acks,
        compression=compression,
        compression_level=levels.get(compression),
        batch_bytes=max(options.read("kafka.batch.size", number(0), DEFAULT_BATCH_BYTES), 1),
        max_record_bytes=options.read("kafka.max.request.size", number(1), DEFAULT_MAX_REQUEST_BYTES),
        ignore_keys=options.read("kafka.partitioner.ignore.keys", boolean, False),
        transaction_timeout_ms=options.read("kafka.transaction.timeout.ms", number(1), 15 * 60_000),
        client=_client_settings(options),
        without_effect=options.without_effect,
    )


def _client_settings(options: OptionValues) -> ClientSettings:
    settings = client_settings(options, operation_timeout_s=120.0)
    return attrs.evolve(
        settings,
        operation_timeout_s=options.read("kafka.delivery.timeout.ms", seconds, settings.operation_timeout_s),
        max_block_s=options.read("kafka.max.block.ms", pause, settings.max_block_s),
        retry=attrs.evolve(
            settings.retry, retries=options.read("kafka.retries", number(0), settings.retry.retries)
        ),
    )


def _gzip_level(text: str) -> int:
    level = number(-1, 9)(text)
    if level == 0:
        raise ValueError("a number from 1 to 9, or -1")
    return level


_LEVELS: Final[Mapping[str, tuple[str, Callable[[str], int]]]] = {
    "gzip": ("kafka.compression.gzip.level", _gzip_level),
    "lz4": ("kafka.compression.lz4.level", number(1, 17)),
    "zstd": ("kafka.compression.zstd.level", number(-131072, 22)),
}
