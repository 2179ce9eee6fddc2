"""The options of the source: those of Spark's own Kafka source, and `localLogDirs`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import attrs

from tidelog.plugins.client import ClientSettings, FetchLimits, RetryPolicy
from tidelog.plugins.client.errors import InvalidAddress
from tidelog.plugins.client.settings import parse_addresses
from tidelog.plugins.spark_sink.source.errors import InvalidOption
from tidelog.plugins.spark_sink.source.limits import (
    BATCH_END,
    BATCH_START,
    STREAM_START,
    Limit,
    parse_limit,
    refuse_value,
)
from tidelog.plugins.spark_sink.source.positions import EARLIEST, LATEST
from tidelog.plugins.spark_sink.source.subscriptions import SUBSCRIPTIONS, Subscription

T = TypeVar("T")

BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"
_ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_TRIGGERS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
NAMES: Final = (
    *SUBSCRIPTIONS,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    *_ENDS,
    *_TRIGGERS,
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "localLogDirs",
    BOOTSTRAP_SERVERS,
    "kafka.client.id",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.request.timeout.ms",
    "kafka.default.api.timeout.ms",
    "kafka.socket.connection.setup.timeout.ms",
    "kafka.retry.backoff.ms",
    "kafka.retry.backoff.max.ms",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.min.bytes",
    "kafka.max.partition.fetch.bytes",
    "kafka.security.protocol",
)
"""All options of the source, in the spelling of their documentation; Spark does not distinguish case."""
_INSTEAD: Final = {
    "kafka.auto.offset.reset": "set startingOffsets: the query itself stores how far it has read",
    "kafka.enable.auto.commit": "the query itself stores how far it has read",
    "kafka.key.deserializer": "keys are binary; convert the column",
    "kafka.value.deserializer": "values are binary; convert the column",
    "kafka.interceptor.classes": "there is no Java consumer that could call them",
}
FETCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one response: large enough that waiting for the next one hardly counts."""
_TIME: Final = re.compile(r"(?P<number>\d+)\s*(?P<unit>us|ms|s|m|min|h|d)?")
_MS_BY_UNIT: Final = {
    "us": 0.001,
    "ms": 1,
    None: 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


@attrs.frozen
class SourceOptions:
    """What the options of a query say, validated; `Options.parse` has their documentation's defaults.

    Attributes:
        bootstrap_servers: `host:port`, several separated by commas
        subscription: which partitions are read
        start: where the query begins
        end: where a batch query ends
        fail_on_data_loss: whether records that are gone fail the query
        include_headers: whether there is a column of headers
        max_offsets: offsets in a micro-batch at most, None for no limit
        min_offsets: offsets in a micro-batch at least, None for any
        max_trigger_delay_ms: after so many a micro-batch may have fewer
        min_partitions: tasks of a batch at least, None for one for each partition
        max_records_per_task: offsets that one task reads at most, None for no limit
        offset_attempts: how often offsets are requested
        offset_retry_s: pause before they are requested again, in seconds
        client: settings of the driver's client
        poll_timeout_s: how long a task waits for records that it must find, in seconds
        fetch: limits of a task's requests
        group: the group whose offsets follow the query, None for none
        local_log_dirs: log directories of brokers on the same host
    """

    bootstrap_servers: str
    subscription: Subscription
    start: Limit
    end: Limit
    fail_on_data_loss: bool
    include_headers: bool
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: float
    min_partitions: int | None
    max_records_per_task: int | None
    offset_attempts: int
    offset_retry_s: float
    client: ClientSettings
    poll_timeout_s: float
    fetch: FetchLimits
    group: str | None
    local_log_dirs: tuple[Path, ...]

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.fetch.read_committed

    @property
    def task_client(self) -> ClientSettings:
        """Settings of a task's client, which repeats a request until `poll_timeout_s` have passed."""
        return attrs.evolve(self.client, operation_timeout_s=self.poll_timeout_s)


def parse_options(given: Mapping[str, str], *, streaming: bool, also: tuple[str, ...] = ()) -> SourceOptions:
    """Validate the options of a query; `also` are names that others use, as a sink over the same table.

    Raises:
        InvalidOption: one of them is unknown or missing, or has a wrong value.
    """
    options = _Options(_known(given, also))
    if streaming:
        for name in _ENDS:
            if name in options.values:
                raise InvalidOption(f"the option {name} is for batch queries: a streaming query has no end")
    start, end = _limits(options, streaming=streaming)
    max_offsets = options.read("maxOffsetsPerTrigger", _positive, None)
    min_offsets = options.read("minOffsetsPerTrigger", _positive, None)
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise InvalidOption(
            f"minOffsetsPerTrigger is {min_offsets}, above maxOffsetsPerTrigger, which is {max_offsets}"
        )
    return SourceOptions(
        bootstrap_servers=_bootstrap_servers(options),
        subscription=_subscription(options),
        start=start,
        end=end,
        fail_on_data_loss=options.read("failOnDataLoss", _boolean, True),
        include_headers=options.read("includeHeaders", _boolean, False),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_trigger_delay_ms=options.read("maxTriggerDelay", _time_ms, 15 * 60_000.0),
        min_partitions=options.read("minPartitions", _positive, None),
        max_records_per_task=options.read("maxRecordsPerPartition", _positive, None),
        offset_attempts=options.read("fetchOffset.numRetries", _positive, 3),
        offset_retry_s=options.read("fetchOffset.retryIntervalMs", _natural, 1000) / 1000,
        client=_client_settings(options),
        poll_timeout_s=options.read("kafkaConsumer.pollTimeoutMs", _positive, 120_000) / 1000,
        fetch=_fetch_limits(options),
        group=options.values.get("kafka.group.id"),
        local_log_dirs=options.read("localLogDirs", _folders, ()),
    )


def ignored_in_batches(given: Mapping[str, str]) -> list[str]:
    """Return the options that only have a meaning for streaming queries."""
    names = {name.lower() for name in given}
    return [name for name in _TRIGGERS if name.lower() in names]


def _known(given: Mapping[str, str], also: tuple[str, ...]) -> dict[str, str]:
    spelling = {name.lower(): name for name in (*NAMES, *also)}
    known: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in spelling:
            raise _unknown(name, list(spelling.values()))
        known[spelling[name.lower()]] = value
    return known


def _unknown(name: str, names: list[str]) -> InvalidOption:
    instead = _INSTEAD.get(name.lower())
    if instead is not None:
        return InvalidOption(f"the option {name} has no meaning here: {instead}")
    by_lower = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.0)[0]
    return InvalidOption(f"there is no option {name}; the nearest one is {by_lower[near]}")


@attrs.frozen
class _Options:
    values: Mapping[str, str]

    def read(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Return a parsed option.

        Raises:
            InvalidOption: `parse` raises ValueError, whose text says what the value has to be.
        """
        text = self.values.get(name)
        if text is None:
            return default
        try:
            return parse(text.strip())
        except ValueError as error:
            raise InvalidOption(f"the option {name} has to be {error}, not {text!r}") from None


def _limits(options: _Options, *, streaming: bool) -> tuple[Limit, Limit]:
    strategy = options.read("startingOffsetsByTimestampStrategy", _strategy, "error")
    must_match = strategy == "error"
    end = parse_limit(options.values, BATCH_END, must_match=False)
    if streaming:
        return parse_limit(options.values, STREAM_START, must_match=must_match), end
    start = parse_limit(options.values, BATCH_START, must_match=must_match)
    refuse_value(start, LATEST, "latest (-1)")
    refuse_value(end, EARLIEST, "earliest (-2)")
    return start, end


def _bootstrap_servers(options: _Options) -> str:
    servers = options.values.get(BOOTSTRAP_SERVERS)
    if servers is None:
        raise InvalidOption(f"the option {BOOTSTRAP_SERVERS} is missing: host:port of one broker or several")
    try:
        parse_addresses(servers)
    except InvalidAddress as error:
        raise InvalidOption(f"the option {BOOTSTRAP_SERVERS}: {error}") from error
    return servers


def _subscription(options: _Options) -> Subscription:
    chosen = [name for name in SUBSCRIPTIONS if name in options.values]
    if len(chosen) != 1:
        found = f", not {' and '.join(chosen)}" if chosen else ""
        raise InvalidOption(f"one of the options {', '.join(SUBSCRIPTIONS)} says what is read{found}")
    return SUBSCRIPTIONS[chosen[0]](options.values[chosen[0]])


def _client_settings(options: _Options) -> ClientSettings:
    options.read("kafka.security.protocol", _plaintext, None)
    prefix = options.values.get("groupIdPrefix")
    defaults = ClientSettings()
    return ClientSettings(
        client_id=options.values.get("kafka.client.id", f"{prefix}-tidelog" if prefix else "tidelog-spark"),
        request_timeout_s=options.read("kafka.request.timeout.ms", _seconds, defaults.request_timeout_s),
        operation_timeout_s=options.read(
            "kafka.default.api.timeout.ms", _seconds, defaults.operation_timeout_s
        ),
        connect_timeout_s=options.read(
            "kafka.socket.connection.setup.timeout.ms", _seconds, defaults.connect_timeout_s
        ),
        # Limited by the time that an operation may take, not by a number.
        retry=RetryPolicy(
            retries=2**31,
            backoff_s=options.read("kafka.retry.backoff.ms", _seconds, defaults.retry.backoff_s),
            max_backoff_s=options.read("kafka.retry.backoff.max.ms", _seconds, defaults.retry.max_backoff_s),
        ),
    )


def _fetch_limits(options: _Options) -> FetchLimits:
    return FetchLimits(
        max_bytes=options.read("kafka.max.partition.fetch.bytes", _positive, FETCH_BYTES),
        min_bytes=options.read("kafka.fetch.min.bytes", _natural, 1),
        max_wait_ms=options.read("kafka.fetch.max.wait.ms", _natural, 500),
        read_committed=options.read("kafka.isolation.level", _isolation, False),
    )


def _natural(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise ValueError("a number of at least 0")
    return int(text)


def _positive(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text) or not int(text):
        raise ValueError("a number above 0")
    return int(text)


def _seconds(text: str) -> float:
    return _positive(text) / 1000


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _time_ms(text: str) -> float:
    found = _TIME.fullmatch(text.lower())
    if found is None:
        raise ValueError("a time such as 500ms, 30s, 15m or 1h")
    return int(found["number"]) * _MS_BY_UNIT[found["unit"]]


def _strategy(text: str) -> str:
    if text.lower() not in ("error", "latest"):
        raise ValueError("error or latest")
    return text.lower()


def _isolation(text: str) -> bool:
    if text.lower() not in ("read_uncommitted", "read_committed"):
        raise ValueError("read_uncommitted or read_committed")
    return text.lower() == "read_committed"


def _plaintext(text: str) -> None:
    if text.upper() != "PLAINTEXT":
        raise ValueError("PLAINTEXT, as this client speaks neither TLS nor SASL")


def _folders(text: str) -> tuple[Path, ...]:
    folders = tuple(Path(each.strip()) for each in text.split(",") if each.strip())
    if not folders or not all(folder.is_absolute() for folder in folders):
        raise ValueError("absolute paths separated by commas")
    return folders
