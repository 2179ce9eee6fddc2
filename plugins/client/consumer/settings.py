"""Settings of consumers: Kafka's client keys in Python spelling, as keyword arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from tidelog.plugins.client.consumer.assignors import ASSIGNORS
from tidelog.plugins.client.operations.fetching import FetchLimits
from tidelog.plugins.client.requests import SOFTWARE_NAME
from tidelog.plugins.client.security import SecurityOptions, SecuritySettings
from tidelog.plugins.client.settings import ClientSettings, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.consumer.interceptors import ConsumerInterceptor

IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]
GroupProtocol: TypeAlias = Literal["classic", "consumer"]
RecordDecoder: TypeAlias = "Callable[[bytes], Any]"

_DURATION: Final = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,3})?)S)?)?", re.ASCII
)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1000)
_CLASSIC_ALONE: Final = ("partition_assignment_strategy", "session_timeout_ms", "heartbeat_interval_ms")
"""In the consumer protocol the coordinator decides these."""
_RESETS: Final = ("earliest", "latest", "none")


class SimpleConsumerOptions(SecurityOptions, total=False):
    """Keyword arguments of a simple consumer; `SimpleConsumerSettings` has what each means."""

    client_id: str
    client_rack: str
    isolation_level: IsolationLevel
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    fetch_max_wait_ms: int
    request_timeout_ms: float
    default_api_timeout_ms: float
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    socket_connection_setup_timeout_ms: float


class ConsumerOptions(SimpleConsumerOptions, total=False):
    """Keyword arguments of a consumer; `ConsumerSettings` has what each means and its default."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: GroupProtocol
    group_remote_assignor: str | None
    partition_assignment_strategy: str | Sequence[str]
    session_timeout_ms: float
    heartbeat_interval_ms: float
    max_poll_interval_ms: float
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: float
    max_poll_records: int
    queued_max_messages_kbytes: int
    check_crcs: bool
    metadata_max_age_ms: float
    key_decoder: RecordDecoder | None
    value_decoder: RecordDecoder | None
    interceptors: Sequence[ConsumerInterceptor]


def _at_least(least: float) -> Any:
    def check(_settings: Any, attribute: attrs.Attribute[Any], value: float) -> None:
        if value < least:
            raise ValueError(f"{attribute.name} is {value}, and has to be at least {least}")

    return check


@attrs.frozen(kw_only=True)
class SimpleConsumerSettings(SecuritySettings):
    """Settings of a simple consumer, named as in Kafka's Java client.

    Attributes:
        client_id: the client id of requests, which brokers log
        client_rack: rack of the consumer, so that brokers can name a replica that is nearer
        isolation_level: read_committed leaves out records of transactions that are open or aborted
        fetch_min_bytes: a broker waits for at least so many bytes
        fetch_max_bytes: of one response; its first batch is returned whole even if it is larger
        max_partition_fetch_bytes: of one partition in a response; the same holds
        fetch_max_wait_ms: the longest time for which a broker waits
        request_timeout_ms: for one response, after which its connection is closed
        default_api_timeout_ms: for a call with all of its retries
        retry_backoff_ms: pause before the first retry; it doubles with each
        retry_backoff_max_ms: the longest pause
        socket_connection_setup_timeout_ms: for one address
    """

    client_id: str = SOFTWARE_NAME
    client_rack: str = ""
    isolation_level: IsolationLevel = attrs.field(
        default="read_uncommitted", validator=attrs.validators.in_(("read_uncommitted", "read_committed"))
    )
    fetch_min_bytes: int = attrs.field(default=1, validator=_at_least(0))
    fetch_max_bytes: int = attrs.field(default=50 * 1024 * 1024, validator=_at_least(1))
    max_partition_fetch_bytes: int = attrs.field(default=1024 * 1024, validator=_at_least(1))
    fetch_max_wait_ms: int = attrs.field(default=500, validator=_at_least(0))
    request_timeout_ms: float = attrs.field(default=30_000, validator=_at_least(1))
    default_api_timeout_ms: float = attrs.field(default=60_000, validator=_at_least(1))
    retry_backoff_ms: float = attrs.field(default=100, validator=_at_least(0))
    retry_backoff_max_ms: float = attrs.field(default=1000, validator=_at_least(0))
    socket_connection_setup_timeout_ms: float = attrs.field(default=10_000, validator=_at_least(1))

    @property
    def is_committed_only(self) -> bool:
        """Return whether records of open and aborted transactions are left out."""
        return self.isolation_level == "read_committed"

    @property
    def api_timeout_s(self) -> float:
        """Return `default_api_timeout_ms` in seconds."""
        return self.default_api_timeout_ms / 1000

    def limits(self) -> FetchLimits:
        """Return the limits of a fetch."""
        return FetchLimits(
            max_bytes=self.fetch_max_bytes,
            min_bytes=self.fetch_min_bytes,
            max_wait_ms=self.fetch_max_wait_ms,
            read_committed=self.is_committed_only,
            max_partition_bytes=min(self.max_partition_fetch_bytes, self.fetch_max_bytes),
            rack=self.client_rack,
        )

    def client(self) -> ClientSettings:
        """Return the settings of the engine under the consumer."""
        return ClientSettings(
            client_id=self.client_id,
            security=self.security(),
            request_timeout_s=self.request_timeout_ms / 1000,
            operation_timeout_s=self.api_timeout_s,
            connect_timeout_s=self.socket_connection_setup_timeout_ms / 1000,
            retry=RetryPolicy(
                backoff_s=self.retry_backoff_ms / 1000, max_backoff_s=self.retry_backoff_max_ms / 1000
            ),
        )


def _check_reset(_settings: Any, _attribute: attrs.Attribute[Any], value: str) -> None:
    if value not in _RESETS:
        reset_duration_ms(value)


def _strategies_of(value: str | Sequence[str]) -> list[str]:
    names = value.split(",") if isinstance(value, str) else value
    return [name.strip() for name in names if name.strip()]


def _check_strategies(_settings: Any, attribute: attrs.Attribute[Any], value: str | Sequence[str]) -> None:
    names = _strategies_of(value)
    unknown = [name for name in names if name not in ASSIGNORS]
    if unknown or not names:
        raise ValueError(f"{attribute.name} is {value!r}, and has to name some of {', '.join(ASSIGNORS)}")


@attrs.frozen(kw_only=True)
class ConsumerSettings(SimpleConsumerSettings):
    """Settings of a consumer, named as in Kafka's Java client, or else in librdkafka.

    Attributes:
        group_id: the group that partitions are shared with and offsets are committed for; None for neither
        group_instance_id: makes a static member (KIP-345), which keeps its partitions over a restart
        group_protocol: `classic`, in which a member divides the partitions, or `consumer`, in which the
            coordinator does (KIP-848, Apache Kafka 4.0 and later)
        group_remote_assignor: name of the coordinator's assignor in the consumer protocol, such as uniform or
            range; None for its default
        partition_assignment_strategy: names of assignors, comma-separated or as a sequence, the preferred one
            first: range, roundrobin, sticky, cooperative-sticky. With the last one alone a rebalance leaves
            partitions where they are (KIP-429)
        session_timeout_ms: without a heartbeat for so long a classic group drops the member
        heartbeat_interval_ms: time between two heartbeats in a classic group
        max_poll_interval_ms: a member that does not poll for so long leaves the group until it polls again
        auto_offset_reset: where a partition without a committed offset, or with one that its log does not
            have, begins: earliest, latest, `by_duration:` with an ISO 8601 duration such as PT1H (KIP-1106),
            or none, which raises `NoOffset`
        enable_auto_commit: commit what was returned, at a call of `poll` and at the end
        auto_commit_interval_ms: the least time between two of these commits
        max_poll_records: records of one `poll`
        queued_max_messages_kbytes: KiB that are fetched ahead of what was returned
        check_crcs: verify the CRC of each batch
        metadata_max_age_ms: age at which metadata is requested again though nothing has failed
        key_decoder: makes an object of the bytes of a key that is not null; None: keys are bytes
        value_decoder: the same for values
        interceptors: called before records are returned and after offsets are committed, in this order
    """

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: GroupProtocol = attrs.field(
        default="classic", validator=attrs.validators.in_(("classic", "consumer"))
    )
    group_remote_assignor: str | None = None
    partition_assignment_strategy: str | Sequence[str] = attrs.field(
        default=("range", "cooperative-sticky"), validator=_check_strategies
    )
    session_timeout_ms: float = attrs.field(default=45_000, validator=_at_least(1))
    heartbeat_interval_ms: float = attrs.field(default=3000, validator=_at_least(1))
    max_poll_interval_ms: float = attrs.field(default=300_000, validator=_at_least(1))
    auto_offset_reset: str = attrs.field(default="latest", validator=_check_reset)
    enable_auto_commit: bool = True
    auto_commit_interval_ms: float = attrs.field(default=5000, validator=_at_least(0))
    max_poll_records: int = attrs.field(default=500, validator=_at_least(1))
    queued_max_messages_kbytes: int = attrs.field(default=64 * 1024, validator=_at_least(1))
    check_crcs: bool = True
    metadata_max_age_ms: float = attrs.field(default=300_000, validator=_at_least(1))
    key_decoder: RecordDecoder | None = None
    value_decoder: RecordDecoder | None = None
    interceptors: Sequence[ConsumerInterceptor] = ()

    def __attrs_post_init__(self) -> None:
        """Refuse options of the other protocol, which would have no effect."""
        fields = attrs.fields_dict(type(self))
        of_other = _CLASSIC_ALONE if self.group_protocol == "consumer" else ("group_remote_assignor",)
        for name in of_other:
            if getattr(self, name) != fields[name].default:
                raise ValueError(f"{name} has no effect with group_protocol={self.group_protocol!r}")

    @property
    def strategies(self) -> list[str]:
        """Return the names of the assignors, the preferred one first."""
        return _strategies_of(self.partition_assignment_strategy)


def reset_duration_ms(reset: str) -> int:
    """Return the milliseconds of a reset by duration.

    Raises:
        ValueError: it has another form.
    """
    found = _DURATION.fullmatch(reset)
    if found is None or not any(found.groups()):
        raise ValueError(
            f"auto_offset_reset is {reset!r}, and has to be earliest, latest, none or by_duration: with an "
            "ISO 8601 duration, such as by_duration:PT1H"
        )
    return round(
        sum(float(part) * unit for part, unit in zip(found.groups(), _UNITS_MS, strict=True) if part)
    )
