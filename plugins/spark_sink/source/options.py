"""The options of the source: those of Spark's own Kafka source, `localLogDirs` and `prefetchOffsets`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from tidelog.plugins.client import ClientSettings, FetchLimits
from tidelog.plugins.spark_sink.connection_options import bootstrap_servers, client_settings
from tidelog.plugins.spark_sink.kafka_keys import CONNECTION_OPTIONS, CONSUMER_KEYS, CONSUMER_OPTIONS
from tidelog.plugins.spark_sink.option_values import (
    MOST_LONG,
    InvalidOption,
    OptionValues,
    boolean,
    number,
    one_of,
)
from tidelog.plugins.spark_sink.source.limits import (
    BATCH_END,
    BATCH_START,
    STREAM_START,
    Limit,
    parse_limit,
    refuse_value,
)
from tidelog.plugins.spark_sink.source.positions import EARLIEST, LATEST
from tidelog.plugins.spark_sink.source.subscriptions import SUBSCRIPTIONS, TopicSelection

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
    "prefetchOffsets",
    *CONNECTION_OPTIONS,
    *CONSUMER_OPTIONS,
)
"""All options of the source, in the spelling of their documentation; Spark does not distinguish case."""
FETCH_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one response: large enough that neither the broker's search nor the wait for it hardly counts."""
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
        prefetch_offsets: a micro-batch of so many offsets at most is read by the driver
        without_effect: options that were given and change nothing
    """

    bootstrap_servers: str
    subscription: TopicSelection
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
    prefetch_offsets: int
    without_effect: tuple[str, ...]

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.fetch.read_committed

    @property
    def task_client(self) -> ClientSettings:
        """Settings of a task's client, which repeats a request until `poll_timeout_s` have passed."""
        return attrs.evolve(self.client, operation_timeout_s=self.poll_timeout_s)


def parse_options(given: Mapping[str, str], *, streaming: bool, also: Sequence[str] = ()) -> SourceOptions:
    """Validate the options of a query; `also` are names that others use, as a sink over the same table.

    Raises:
        InvalidOption: one of them is unknown or missing, or has a wrong value.
    """
    options = OptionValues.known(given, (*NAMES, *also), CONSUMER_KEYS)
    if streaming:
        for name in _ENDS:
            if name in options.values:
                raise InvalidOption(f"the option {name} is for batch queries: a streaming query has no end")
    start, end = _limits(options, streaming=streaming)
    max_offsets = options.read("maxOffsetsPerTrigger", number(1, MOST_LONG), None)
    min_offsets = options.read("minOffsetsPerTrigger", number(1, MOST_LONG), None)
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise InvalidOption(
            f"minOffsetsPerTrigger is {min_offsets}, above maxOffsetsPerTrigger, which is {max_offsets}"
        )
    return SourceOptions(
        bootstrap_servers=bootstrap_servers(options),
        subscription=_subscription(options),
        start=start,
        end=end,
        fail_on_data_loss=options.read("failOnDataLoss", boolean, True),
        include_headers=options.read("includeHeaders", boolean, False),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_trigger_delay_ms=options.read("maxTriggerDelay", _time_ms, 15 * 60_000.0),
        min_partitions=options.read("minPartitions", number(1), None),
        max_records_per_task=options.read("maxRecordsPerPartition", number(1, MOST_LONG), None),
        offset_attempts=options.read("fetchOffset.numRetries", number(1), 3),
        offset_retry_s=options.read("fetchOffset.retryIntervalMs", number(0), 1000) / 1000,
        client=_client_settings(options),
        poll_timeout_s=options.read("kafkaConsumer.pollTimeoutMs", number(1), 120_000) / 1000,
        fetch=_fetch_limits(options),
        group=options.values.get("kafka.group.id"),
        local_log_dirs=options.read("localLogDirs", _folders, ()),
        prefetch_offsets=options.read("prefetchOffsets", number(0, MOST_LONG), 8192),
        without_effect=(*options.without_effect, *(() if streaming else _triggers_in(options))),
    )


def _triggers_in(options: OptionValues) -> tuple[str, ...]:
    """Return the options that only have a meaning for streaming queries."""
    return tuple(name for name in _TRIGGERS if name in options.values)


def _limits(options: OptionValues, *, streaming: bool) -> tuple[Limit, Limit]:
    strategy = options.read("startingOffsetsByTimestampStrategy", one_of("error", "latest"), "error")
    must_match = strategy == "error"
    end = parse_limit(options.values, BATCH_END, must_match=False)
    if streaming:
        return parse_limit(options.values, STREAM_START, must_match=must_match), end
    start = parse_limit(options.values, BATCH_START, must_match=must_match)
    refuse_value(start, LATEST, "latest (-1)")
    refuse_value(end, EARLIEST, "earliest (-2)")
    return start, end


def _subscription(options: OptionValues) -> TopicSelection:
    chosen = [name for name in SUBSCRIPTIONS if name in options.values]
    if len(chosen) != 1:
        found = f", not {' and '.join(chosen)}" if chosen else ""
        raise InvalidOption(f"one of the options {', '.join(SUBSCRIPTIONS)} says what is read{found}")
    return SUBSCRIPTIONS[chosen[0]](options.values[chosen[0]])


def _client_settings(options: OptionValues) -> ClientSettings:
    prefix = options.values.get("groupIdPrefix")
    client_id = f"{prefix}-tidelog" if prefix else "tidelog-spark"
    return client_settings(options, client_id=client_id, operation_timeout_s=60.0)


def _fetch_limits(options: OptionValues) -> FetchLimits:
    levels = one_of("read_uncommitted", "read_committed")
    isolation = options.read("kafka.isolation.level", levels, "read_uncommitted")
    # A task reads one partition, so that both limits are those of the same response.
    of_partition = options.read("kafka.max.partition.fetch.bytes", number(0), FETCH_BYTES)
    of_response = options.read("kafka.fetch.max.bytes", number(0), 50 * 1024 * 1024)
    return FetchLimits(
        max_bytes=max(min(of_partition, of_response), 1),
        min_bytes=options.read("kafka.fetch.min.bytes", number(0), 1),
        max_wait_ms=options.read("kafka.fetch.max.wait.ms", number(0), 500),
        read_committed=isolation == "read_committed",
    )


def _time_ms(text: str) -> float:
    found = _TIME.fullmatch(text.lower())
    if found is None:
        raise ValueError("a time such as 500ms, 30s, 15m or 1h")
    return int(found["number"]) * _MS_BY_UNIT[found["unit"]]


def _folders(text: str) -> tuple[Path, ...]:
    folders = tuple(Path(each.strip()) for each in text.split(",") if each.strip())
    if not folders or not all(folder.is_absolute() for folder in folders):
        raise ValueError("absolute paths separated by commas")
    return folders
