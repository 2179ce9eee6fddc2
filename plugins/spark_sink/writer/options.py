"""The options of the writers: those of Spark's own Kafka sink, and `exactlyOnce`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from tidelog.plugins.client import ClientSettings, RetryPolicy
from tidelog.plugins.client.batches import CODECS
from tidelog.plugins.client.errors import InvalidAddress
from tidelog.plugins.client.settings import parse_addresses
from tidelog.plugins.spark_sink.option_values import (
    InvalidWriterOption,
    OptionValues,
    boolean,
    one_of,
    positive,
    seconds,
)

BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"
NAMES: Final = (
    "topic",
    "exactlyOnce",
    BOOTSTRAP_SERVERS,
    "kafka.acks",
    "kafka.batch.size",
    "kafka.client.id",
    "kafka.compression.type",
    "kafka.default.api.timeout.ms",
    "kafka.delivery.timeout.ms",
    "kafka.enable.idempotence",
    "kafka.max.request.size",
    "kafka.partitioner.ignore.keys",
    "kafka.request.timeout.ms",
    "kafka.retry.backoff.max.ms",
    "kafka.retry.backoff.ms",
    "kafka.security.protocol",
    "kafka.socket.connection.setup.timeout.ms",
    "kafka.transaction.timeout.ms",
)
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
        return CODECS[self.compression]


def parse_writer_options(given: Mapping[str, str], *, streaming: bool) -> WriterOptions:
    """Validate the options of a writer.

    Raises:
        InvalidWriterOption: one of them is unknown or missing, has a wrong value, or contradicts another one.
    """
    options = OptionValues.known(given, (*NAMES, *_OF_SPARK), _INSTEAD)
    acks = _ACKS[options.read("kafka.acks", one_of(*_ACKS), "all")]
    exactly_once = options.read("exactlyOnce", boolean, streaming)
    idempotent = options.read("kafka.enable.idempotence", boolean, acks == -1)
    if exactly_once and not streaming:
        raise InvalidWriterOption("exactlyOnce is for streaming queries: a batch query may write twice")
    for name, wanted in (("exactlyOnce", exactly_once), ("kafka.enable.idempotence", idempotent)):
        if wanted and acks != -1:
            raise InvalidWriterOption(f"{name} needs the option kafka.acks to be all; or set {name} to false")
    options.read("kafka.security.protocol", one_of("plaintext"), "plaintext")
    return WriterOptions(
        bootstrap_servers=_bootstrap_servers(options),
        topic=options.values.get("topic"),
        exactly_once=exactly_once,
        idempotent=idempotent,
        acks=acks,
        compression=options.read("kafka.compression.type", one_of(*CODECS), "none"),
        batch_bytes=options.read("kafka.batch.size", positive, DEFAULT_BATCH_BYTES),
        max_record_bytes=options.read("kafka.max.request.size", positive, DEFAULT_MAX_REQUEST_BYTES),
        ignore_keys=options.read("kafka.partitioner.ignore.keys", boolean, False),
        transaction_timeout_ms=options.read("kafka.transaction.timeout.ms", positive, 15 * 60_000),
        client=_client_settings(options),
    )


def _bootstrap_servers(options: OptionValues) -> str:
    servers = options.values.get(BOOTSTRAP_SERVERS)
    if servers is None:
        raise InvalidWriterOption(
            f"the option {BOOTSTRAP_SERVERS} is missing: host:port of one broker or several"
        )
    try:
        parse_addresses(servers)
    except InvalidAddress as error:
        raise InvalidWriterOption(f"the option {BOOTSTRAP_SERVERS}: {error}") from error
    return servers


def _client_settings(options: OptionValues) -> ClientSettings:
    defaults = ClientSettings()
    operation_s = options.read("kafka.default.api.timeout.ms", seconds, 120.0)
    return ClientSettings(
        client_id=options.values.get("kafka.client.id", "tidelog-spark"),
        request_timeout_s=options.read("kafka.request.timeout.ms", seconds, defaults.request_timeout_s),
        operation_timeout_s=options.read("kafka.delivery.timeout.ms", seconds, operation_s),
        connect_timeout_s=options.read(
            "kafka.socket.connection.setup.timeout.ms", seconds, defaults.connect_timeout_s
        ),
        # Limited by the time that an operation may take, not by a number.
        retry=RetryPolicy(
            retries=2**31,
            backoff_s=options.read("kafka.retry.backoff.ms", seconds, defaults.retry.backoff_s),
            max_backoff_s=options.read("kafka.retry.backoff.max.ms", seconds, defaults.retry.max_backoff_s),
        ),
    )
