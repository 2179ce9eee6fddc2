"""Options of the source: what they mean, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.tables import for_each
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.limits import OffsetLimit, TimestampLimit
from tidelog.plugins.spark_sink.source.options import NAMES, SourceOptions, parse_options
from tidelog.plugins.spark_sink.source.positions import EARLIEST, LATEST

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
BASE = {**SERVERS, "subscribe": "t"}


def parse(options: Mapping[str, str], *, streaming: bool = True) -> SourceOptions:
    """The options with what every query needs."""
    return parse_options({**BASE, **options}, streaming=streaming)


def test_parse_options_has_the_defaults_of_sparks_own_source() -> None:
    options = parse({})
    assert options.start == OffsetLimit("startingOffsets", LATEST, {})
    assert parse({}, streaming=False).start == OffsetLimit("startingOffsets", EARLIEST, {})
    assert parse({}, streaming=False).end == OffsetLimit("endingOffsets", LATEST, {})
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert not options.read_committed
    assert (options.max_offsets, options.min_offsets, options.min_partitions) == (None, None, None)
    assert options.max_trigger_delay_ms == 15 * 60 * 1000
    assert (options.offset_attempts, options.offset_retry_s) == (3, 1.0)
    assert (options.poll_timeout_s, options.task_client.operation_timeout_s) == (120.0, 120.0)
    assert options.group is None
    assert (options.prefetch_offsets, options.client.retry.missing_topic_s) == (8192, 3.0)


@for_each(
    ("name", "text", "field", "value"),
    [
        ("FAILONDATALOSS", "False", "fail_on_data_loss", False),
        ("includeheaders", "true", "include_headers", True),
        ("maxOffsetsPerTrigger", " 500 ", "max_offsets", 500),
        ("minOffsetsPerTrigger", "5", "min_offsets", 5),
        ("maxTriggerDelay", "90s", "max_trigger_delay_ms", 90_000),
        ("maxTriggerDelay", "1500", "max_trigger_delay_ms", 1500),
        ("maxTriggerDelay", "2 h", "max_trigger_delay_ms", 7_200_000),
        ("minPartitions", "8", "min_partitions", 8),
        ("maxRecordsPerPartition", "1000", "max_records_per_task", 1000),
        ("kafkaConsumer.pollTimeoutMs", "2500", "poll_timeout_s", 2.5),
        ("fetchOffset.numRetries", "7", "offset_attempts", 7),
        ("fetchOffset.retryIntervalMs", "250", "offset_retry_s", 0.25),
        ("kafka.isolation.level", "READ_COMMITTED", "read_committed", True),
        ("kafka.group.id", "tides", "group", "tides"),
        ("localLogDirs", "/a, /b", "local_log_dirs", (Path("/a"), Path("/b"))),
        ("startingTimestamp", "5", "start", TimestampLimit("startingTimestamp", 5, {}, True)),
        ("startingOffsets", "Earliest", "start", OffsetLimit("startingOffsets", EARLIEST, {})),
        (
            "startingOffsets",
            '{"t": {"0": 5, "1": -2}}',
            "start",
            OffsetLimit("startingOffsets", None, {TopicPartition("t", 0): 5, TopicPartition("t", 1): -2}),
        ),
    ],
)
def test_parse_options_reads(name: str, text: str, field: str, value: Any) -> None:
    assert getattr(parse({name: text}), field) == value


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("kafka.client.id", "me", "client_id", "me"),
        ("groupIdPrefix", "team", "client_id", "team-tidelog"),
        ("kafka.request.timeout.ms", "1500", "request_timeout_s", 1.5),
        ("kafka.default.api.timeout.ms", "1500", "operation_timeout_s", 1.5),
        ("kafka.socket.connection.setup.timeout.ms", "1500", "connect_timeout_s", 1.5),
    ],
)
def test_parse_options_sets_up_the_client(name: str, text: str, field: str, value: Any) -> None:
    assert getattr(parse({name: text}).client, field) == value


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("kafka.fetch.max.wait.ms", "max_wait_ms"),
        ("kafka.fetch.min.bytes", "min_bytes"),
        ("kafka.max.partition.fetch.bytes", "max_bytes"),
    ],
)
def test_parse_options_sets_the_limits_of_fetches(name: str, field: str) -> None:
    assert getattr(parse({name: "12345"}).fetch, field) == 12345


def test_parse_options_sets_the_backoff_of_retries() -> None:
    retry = parse({"kafka.retry.backoff.ms": "10", "kafka.retry.backoff.max.ms": "20"}).task_client.retry
    assert (retry.backoff_s, retry.max_backoff_s) == (0.01, 0.02)


def test_parse_options_knows_each_of_its_names_in_any_case() -> None:
    given = {**dict.fromkeys(NAMES, "?"), "kafka.bootstrap.servers": "no address"}
    with pytest.raises(InvalidOption, match=r"has to be") as refused:
        parse_options({name.upper(): text for name, text in given.items()}, streaming=False)
    assert "there is no option" not in str(refused.value)


@for_each(
    ("options", "message"),
    [
        ({"startingOffset": "latest"}, "no option startingOffset; the nearest one is startingOffsets"),
        ({"kafka.bootstrap.server": "x"}, "the nearest one is kafka.bootstrap.servers"),
        ({"kafka.max.pol.records": "5"}, "no option kafka.max.pol.records; .* is kafka.max.poll.records"),
        ({"kafka.max.poll.records": "0"}, "kafka.max.poll.records has to be a number from 1 to"),
        ({"kafka.check.crcs": "no"}, "kafka.check.crcs has to be true or false, not 'no'"),
        ({"kafka.group.instance.id": ""}, "kafka.group.instance.id has to be a text that is not empty"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset is refused: set startingOffsets"),
        ({"kafka.ssl.provider": "p"}, "kafka.ssl.provider is refused: this client has no part for it"),
        ({"kafka.SASL.login.class": "x.Y"}, "kafka.SASL.login.class is refused: .* in another way"),
        ({"kafka.security.protocol": "SASL_SSL"}, "sasl: sasl.kerberos.service.name: GSSAPI"),
        ({"kafka.config.providers": "x"}, "config.providers.x.class is not set to one of"),
        ({"kafka.security.providers": "p"}, "kafka.security.providers is refused"),
        ({"kafka.enable.auto.commit": "true"}, "the query itself stores how far it has read"),
        ({"assign": '{"t": [0]}'}, "one of the options subscribe, .*, not subscribe and assign"),
        ({"kafka.bootstrap.servers": "nowhere"}, "kafka.bootstrap.servers: 'nowhere' is no broker address"),
        ({"kafka.security.protocol": "TLS"}, "security.protocol: 'TLS' is none of PLAINTEXT, SSL"),
        ({"kafka.isolation.level": "committed"}, "one of read_uncommitted, read_committed, not 'committed'"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss has to be true or false, not 'no'"),
        ({"minPartitions": "0"}, "minPartitions has to be a number from 1 to 2147483647, not '0'"),
        (
            {"maxOffsetsPerTrigger": "1e6"},
            "maxOffsetsPerTrigger has to be a number from 1 to 9223372",
        ),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay has to be a time such as 500ms, 30s, 15m or 1h"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is 5, above maxOffsetsPerTrigger"),
        ({"startingOffsets": "first"}, 'startingOffsets has to be like {"topicA":{"0":23,"1":45}'),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "startingOffsets has to be like"),
        ({"startingOffsets": '{"t": {"0": 9223372036854775808}}'}, "startingOffsets has to be like"),
        ({"startingOffsets": '{"t": {"0": true}}'}, "startingOffsets has to be like"),
        ({"startingOffsets": '{"t": {"-1": 5}}'}, "startingOffsets has to be like"),
        ({"startingOffsets": "{}"}, "startingOffsets has to be like"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "startingOffsetsByTimestamp has to be like"),
        ({"startingTimestamp": "2026-01-01"}, "startingTimestamp has to be milliseconds since the epoch"),
        ({"startingOffsetsByTimestampStrategy": "?"}, "has to be one of error, latest"),
        ({"localLogDirs": "data"}, "localLogDirs has to be absolute paths"),
        ({"localLogDirs": "/a,file:///b"}, "localLogDirs has to be absolute paths"),
        ({"endingOffsets": "latest"}, "endingOffsets is for batch queries"),
        ({"endingTimestamp": "5"}, "endingTimestamp is for batch queries"),
    ],
)
def test_parse_options_refuses(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message.replace("{", r"\{")):
        parse(options)


@for_each(
    ("options", "message"),
    [
        ({}, "one of the options subscribe, subscribePattern, assign says what is read"),
        ({"subscribe": " , "}, "subscribe has to be topics separated by commas"),
        ({"subscribePattern": " "}, "subscribePattern has to be a regular expression"),
        ({"subscribePattern": "("}, "subscribePattern has to be a regular expression, and '\\('"),
        ({"assign": '{"t": 0}'}, 'assign has to be like {"topicA":'),
        ({"assign": '{"t": [-1]}'}, "assign has to be like"),
        ({"assign": "t"}, "assign has to be like"),
    ],
)
def test_parse_options_refuses_a_subscription(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message.replace("{", r"\{")):
        parse_options({**SERVERS, **options}, streaming=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "startingOffsets cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "endingOffsets cannot be earliest"),
    ],
)
def test_parse_options_refuses_in_a_batch_query(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        parse(options, streaming=False)


def test_parse_options_needs_servers() -> None:
    with pytest.raises(InvalidOption, match=r"kafka\.bootstrap\.servers is missing"):
        parse_options({"subscribe": "t"}, streaming=True)


def test_parse_options_limits_a_response_by_the_smaller_limit() -> None:
    sizes = {"kafka.max.partition.fetch.bytes": "67108864", "kafka.fetch.max.bytes": "33554432"}
    assert parse(sizes).fetch.max_bytes == 33_554_432
    assert parse({"kafka.fetch.max.bytes": "0"}).fetch.max_bytes == 1


def test_parse_options_lists_what_has_no_effect() -> None:
    given = {
        "MAXOFFSETSPERTRIGGER": "5",
        "kafka.Max.Poll.Records": "5",
        "kafka.linger.ms": "5",
        "kafka.acks": "1",
    }
    assert parse(given, streaming=False).without_effect == (
        "kafka.acks",
        "kafka.linger.ms",
        "kafka.max.poll.records",
        "maxOffsetsPerTrigger",
    )
    of_a_table = parse_options({**BASE, **given}, streaming=True, also=["kafka.acks"])
    assert of_a_table.without_effect == ("kafka.linger.ms", "kafka.max.poll.records")


@for_each(
    ("text", "expected"),
    [
        ("5000us", 5),
        ("7", 7),
        ("7ms", 7),
        ("7 S", 7000),
        ("2m", 120_000),
        ("2min", 120_000),
        ("3h", 10_800_000),
        ("1d", 86_400_000),
    ],
)
def test_parse_options_reads_times_in_units(text: str, expected: float) -> None:
    assert parse({"maxTriggerDelay": text}).max_trigger_delay_ms == expected


@for_each(
    ("name", "least", "field"),
    [
        ("maxOffsetsPerTrigger", 1, "max_offsets"),
        ("minOffsetsPerTrigger", 1, "min_offsets"),
        ("minPartitions", 1, "min_partitions"),
        ("maxRecordsPerPartition", 1, "max_records_per_task"),
        ("fetchOffset.numRetries", 1, "offset_attempts"),
        ("prefetchOffsets", 0, "prefetch_offsets"),
        ("fetchOffset.retryIntervalMs", 0, None),
        ("kafkaConsumer.pollTimeoutMs", 1, None),
        ("kafka.max.partition.fetch.bytes", 0, None),
        ("kafka.fetch.max.bytes", 0, None),
        ("kafka.fetch.min.bytes", 0, None),
        ("kafka.fetch.max.wait.ms", 0, None),
    ],
)
def test_parse_options_takes_numbers_from_their_least_value_on(
    name: str, least: int, field: str | None
) -> None:
    found = parse({name: str(least)})
    assert field is None or getattr(found, field) == least
    with pytest.raises(InvalidOption, match=f"the option {name} has to be a number from {least} to"):
        parse({name: str(least - 1)})


@for_each(
    "name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxRecordsPerPartition", "prefetchOffsets"]
)
def test_parse_options_takes_numbers_of_offsets_as_large_as_offsets(name: str) -> None:
    parse({name: str(2**63 - 1)})
    with pytest.raises(InvalidOption, match=f"the option {name} has to be a number from"):
        parse({name: str(2**63)})


def test_parse_options_has_a_default_for_each_fetch() -> None:
    found = parse({}).fetch
    assert (found.max_bytes, found.min_bytes, found.max_wait_ms) == (16 * 2**20, 1, 500)
    assert parse({"kafka.max.partition.fetch.bytes": str(2**30)}).fetch.max_bytes == 50 * 2**20
    assert (parse({}).client.client_id, parse({}).client.operation_timeout_s) == ("tidelog-spark", 60)
    assert parse({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "5"}).min_offsets == 5


def test_parse_options_lists_all_triggers_in_a_batch_query() -> None:
    triggers = {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "1s"}
    assert parse(triggers, streaming=False).without_effect == tuple(triggers)
    assert parse(triggers).without_effect == ()


@for_each(
    ("strategy", "streaming", "must_match"),
    [(None, True, True), ("error", False, True), ("LATEST", True, False), ("latest", False, False)],
)
def test_parse_options_says_what_a_time_without_records_means(
    strategy: str | None, streaming: bool, must_match: bool
) -> None:
    given = {} if strategy is None else {"startingOffsetsByTimestampStrategy": strategy}
    found = parse({**given, "startingTimestamp": "5"}, streaming=streaming)
    assert found.start == TimestampLimit("startingTimestamp", 5, {}, must_match)
    if not streaming:
        ended = parse({**given, "endingTimestamp": "5"}, streaming=False)
        assert ended.end == TimestampLimit("endingTimestamp", 5, {}, must_match=False)


@for_each("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_parse_options_refuses_an_end_of_a_streaming_query(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name} is for batch queries: a streaming query has no end"):
        parse({name: "5"})
