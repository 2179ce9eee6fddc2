"""Settings of a producer: Kafka's client keys in Python spelling, as keyword arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from tidelog.plugins.client.requests import SOFTWARE_NAME
from tidelog.plugins.client.security import SecurityOptions, SecuritySettings
from tidelog.plugins.client.settings import ClientSettings, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.producer.interceptors import ProducerInterceptor
    from tidelog.plugins.client.producer.partitioners import AnyPartitioner

Acks: TypeAlias = Literal[0, 1, -1, "all"]
WhenFull: TypeAlias = Literal["wait", "raise", "drop_oldest"]
RecordEncoder: TypeAlias = "Callable[[Any], bytes | None]"

MOST_IN_FLIGHT_WITH_IDEMPOTENCE: Final = 5
"""Brokers remember the last five batches of a producer in each partition."""
ALL_REPLICAS: Final = -1
_ANY_NUMBER: Final = 0x7FFFFFFF


class ProducerOptions(SecurityOptions, total=False):
    """Keyword arguments of a producer; `ProducerSettings` has what each means and its default."""

    client_id: str
    acks: Acks
    batch_size: int
    batch_num_messages: int
    linger_ms: float
    buffer_memory: int
    queue_buffering_max_messages: int
    when_full: WhenFull
    max_block_ms: float
    max_request_size: int
    compression_type: str
    compression_level: int | None
    enable_idempotence: bool | None
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: float
    request_timeout_ms: float
    retries: int
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    metadata_max_age_ms: float
    socket_connection_setup_timeout_ms: float
    transactional_id: str | None
    transaction_timeout_ms: int
    partitioner: AnyPartitioner
    key_encoder: RecordEncoder | None
    value_encoder: RecordEncoder | None
    interceptors: Sequence[ProducerInterceptor]


def _at_least(least: float) -> Any:
    def check(_settings: ProducerSettings, attribute: attrs.Attribute[Any], value: float) -> None:
        if value < least:
            raise ValueError(f"{attribute.name} is {value}, and has to be at least {least}")

    return check


def _one_of(*values: object) -> Any:
    def check(_settings: ProducerSettings, attribute: attrs.Attribute[Any], value: object) -> None:
        if value not in values:
            raise ValueError(f"{attribute.name} is {value!r}, and has to be one of {values}")

    return check


@attrs.frozen(kw_only=True)
class ProducerSettings(SecuritySettings):
    """Settings of a producer, named as in Kafka's Java client, or else in librdkafka.

    Attributes:
        client_id: the client id of requests, which brokers log
        acks: "all" (-1) waits for all in-sync replicas, 1 for the leader, 0 for no response
        batch_size: bytes of records that are sent as one batch, before compression
        batch_num_messages: records that are sent as one batch
        linger_ms: how long a batch waits for more records. With 0 it waits while another one of its partition
            is on its way, and no longer.
        buffer_memory: bytes of all records that are not acknowledged
        queue_buffering_max_messages: number of these records
        when_full: what `send` does beyond these two: wait, raise `QueueFull`, or drop the oldest records that
            are not sent yet
        max_block_ms: how long `send` waits for room, and records for a topic to be created
        max_request_size: bytes of one request, and of one record
        compression_type: none, gzip, snappy, lz4 or zstd
        compression_level: level of the codec, None for its default
        enable_idempotence: whether retries append nothing twice; None: if acks is all and the broker can
        max_in_flight_requests_per_connection: requests to one broker that wait for their responses
        delivery_timeout_ms: after that time a record fails that is not acknowledged
        request_timeout_ms: for one response, after which its connection is closed
        retries: attempts after the first one, within `delivery_timeout_ms`
        retry_backoff_ms: pause before the first retry; it doubles with each
        retry_backoff_max_ms: the longest pause
        metadata_max_age_ms: age at which metadata is requested again though nothing has failed
        socket_connection_setup_timeout_ms: for one address
        transactional_id: identifies a transactional producer over restarts
        transaction_timeout_ms: after that time the coordinator aborts an open transaction
        partitioner: a name of `partitioners.PARTITIONERS`, or a callable
        key_encoder: makes bytes of a key; None: keys are bytes
        value_encoder: makes bytes of a value; None: values are bytes
        interceptors: called before a record is queued and after it is acknowledged, in this order
    """

    client_id: str = SOFTWARE_NAME
    acks: Acks = attrs.field(default="all", validator=_one_of(0, 1, -1, "all"))
    batch_size: int = attrs.field(default=128 * 1024, validator=_at_least(0))
    batch_num_messages: int = attrs.field(default=10_000, validator=_at_least(1))
    linger_ms: float = attrs.field(default=0, validator=_at_least(0))
    buffer_memory: int = attrs.field(default=32 * 1024 * 1024, validator=_at_least(1))
    queue_buffering_max_messages: int = attrs.field(default=100_000, validator=_at_least(1))
    when_full: WhenFull = attrs.field(default="wait", validator=_one_of("wait", "raise", "drop_oldest"))
    max_block_ms: float = attrs.field(default=60_000, validator=_at_least(0))
    max_request_size: int = attrs.field(default=1024 * 1024, validator=_at_least(1))
    compression_type: str = "none"
    compression_level: int | None = None
    enable_idempotence: bool | None = None
    max_in_flight_requests_per_connection: int = attrs.field(default=5, validator=_at_least(1))
    delivery_timeout_ms: float = attrs.field(default=120_000, validator=_at_least(1))
    request_timeout_ms: float = attrs.field(default=30_000, validator=_at_least(1))
    retries: int = attrs.field(default=0x7FFFFFFF, validator=_at_least(0))
    retry_backoff_ms: float = attrs.field(default=100, validator=_at_least(0))
    retry_backoff_max_ms: float = attrs.field(default=1000, validator=_at_least(0))
    metadata_max_age_ms: float = attrs.field(default=300_000, validator=_at_least(1))
    socket_connection_setup_timeout_ms: float = attrs.field(default=10_000, validator=_at_least(1))
    transactional_id: str | None = None
    transaction_timeout_ms: int = attrs.field(default=60_000, validator=_at_least(1))
    partitioner: AnyPartitioner = "murmur2"
    key_encoder: RecordEncoder | None = None
    value_encoder: RecordEncoder | None = None
    interceptors: Sequence[ProducerInterceptor] = ()

    def __attrs_post_init__(self) -> None:
        """Check what depends on more than one setting.

        Raises:
            ValueError: idempotence or transactions are wanted, and the others do not allow them.
        """
        if not self.wants_idempotence:
            return
        if self.required_acks != ALL_REPLICAS:
            raise ValueError(f"an idempotent or transactional producer needs acks all, not {self.acks}")
        most = MOST_IN_FLIGHT_WITH_IDEMPOTENCE
        if self.max_in_flight_requests_per_connection > most:
            raise ValueError(
                f"max_in_flight_requests_per_connection is {self.max_in_flight_requests_per_connection}, and "
                f"an idempotent producer may have {most}: brokers remember so many of its batches"
            )
        if self.transactional_id is not None and self.enable_idempotence is False:
            raise ValueError("a transactional producer is idempotent: enable_idempotence cannot be False")

    @property
    def required_acks(self) -> int:
        """Return acks as in requests."""
        return ALL_REPLICAS if self.acks == "all" else self.acks

    @property
    def wants_idempotence(self) -> bool:
        """Return whether idempotence was asked for, so that a broker without it is an error."""
        return bool(self.enable_idempotence) or self.transactional_id is not None

    @property
    def tries_idempotence(self) -> bool:
        """Return whether the producer is idempotent if the broker can."""
        if self.wants_idempotence:
            return True
        return (
            self.enable_idempotence is None
            and self.required_acks == ALL_REPLICAS
            and self.max_in_flight_requests_per_connection <= MOST_IN_FLIGHT_WITH_IDEMPOTENCE
        )

    @property
    def retry(self) -> RetryPolicy:
        """Return when a batch is sent again."""
        return RetryPolicy(
            backoff_s=self.retry_backoff_ms / 1000, max_backoff_s=self.retry_backoff_max_ms / 1000
        )

    def client(self) -> ClientSettings:
        """Return the settings of the engine under the producer."""
        return ClientSettings(
            client_id=self.client_id,
            security=self.security(),
            request_timeout_s=self.request_timeout_ms / 1000,
            operation_timeout_s=self.max_block_ms / 1000,
            connect_timeout_s=self.socket_connection_setup_timeout_ms / 1000,
            max_block_s=self.max_block_ms / 1000,
            # Operations are repeated until their time is up.
            retry=attrs.evolve(self.retry, retries=_ANY_NUMBER),
        )
