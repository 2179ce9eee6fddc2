"""The options of the writers: those of Spark's own Kafka sink, and `exactlyOnce`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from tidelog.kernel.records.compression import NO_COMPRESSION, registered_codecs
from tidelog.plugins.client import ClientSettings
from tidelog.plugins.client.batches import codec_of
from tidelog.plugins.spark_sink.connection_options import (
    CONNECTION_NAMES,
    bootstrap_servers,
    client_settings,
)
from tidelog.plugins.spark_sink.option_values import (
    InvalidOption,
    OptionValues,
    boolean,
    number,
    one_of,
    seconds,
)

NAMES: Final = (
    *CONNECTION_NAMES,
    "topic",
    "exactlyOnce",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.type",
    "kafka.delivery.timeout.ms",
    "kafka.enable.idempotence",
    "kafka.max.request.size",
    "kafka.partitioner.ignore.keys",
    "kafka.transaction.timeout.ms",
)
"""All options of the writers, in the spelling of their documentation."""
_OF_SPARK: Final = ("checkpointLocation", "queryName")
"""Options of every streaming query, which Spark passes on."""
_INSTEAD: Final = {
    "kafka.key.serializer": "keys are written as they are; convert the column",
    "kafka.value.serializer": "values are written as they are; convert the column",
    "kafka.transactional.id": "a streaming query has a transactional id for each of its tasks",
    "kafka.linger.ms": "rows arrive in blocks, each of which is written at once",
}
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
        batch_bytes: about the size of a record batch before compression
        max_record_bytes: a larger record is refused
        ignore_keys: whether keys do not choose partitions
        transaction_timeout_ms: for the write of one task
        client: settings of the task's client
    """

    bootstrap_servers: str
    topic: str | None
    exactly_once: bool
    idempotent: bool
    acks: int
    compression: str
    batch_bytes: int
    max_record_bytes: int
    ignore_keys: bool
    transaction_timeout_ms: int
    client: ClientSettings

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
    options = OptionValues.known(given, (*NAMES, *_OF_SPARK, *also), _INSTEAD)
    acks = _ACKS[options.read("kafka.acks", one_of(*_ACKS), "all")]
    exactly_once = options.read("exactlyOnce", boolean, streaming)
    idempotent = options.read("kafka.enable.idempotence", boolean, acks == -1)
    if exactly_once and not streaming:
        raise InvalidOption("exactlyOnce is for streaming queries: a batch query may write twice")
    for name, wanted in (("exactlyOnce", exactly_once), ("kafka.enable.idempotence", idempotent)):
        if wanted and acks != -1:
            raise InvalidOption(f"{name} needs the option kafka.acks to be all; or set {name} to false")
    return WriterOptions(
        bootstrap_servers=bootstrap_servers(options),
        topic=options.values.get("topic"),
        exactly_once=exactly_once,
        idempotent=idempotent,
        acks=acks,
        compression=options.read(
            "kafka.compression.type",
            one_of(*_compressions()),
            "none",
        ),
        batch_bytes=options.read("kafka.batch.size", number(1), DEFAULT_BATCH_BYTES),
        max_record_bytes=options.read("kafka.max.request.size", number(1), DEFAULT_MAX_REQUEST_BYTES),
        ignore_keys=options.read("kafka.partitioner.ignore.keys", boolean, False),
        transaction_timeout_ms=options.read("kafka.transaction.timeout.ms", number(1), 15 * 60_000),
        client=_client_settings(options),
    )


def _client_settings(options: OptionValues) -> ClientSettings:
    settings = client_settings(options, operation_timeout_s=120.0)
    timeout_s = options.read("kafka.delivery.timeout.ms", seconds, settings.operation_timeout_s)
    return attrs.evolve(settings, operation_timeout_s=timeout_s)
