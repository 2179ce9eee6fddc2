"""Options of the writers: what is accepted, and what the message of a refusal says."""

from __future__ import annotations

import attrs
import pytest

from tests.tables import for_each
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.writer.options import parse_writer_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def test_parse_writer_options_has_the_defaults_of_kafkas_producers() -> None:
    batch = parse_writer_options(SERVERS, streaming=False)
    assert (batch.topic, batch.acks, batch.idempotent, batch.exactly_once) == (None, -1, True, False)
    assert (batch.compression, batch.codec, batch.max_record_bytes) == ("none", 0, 1024 * 1024)
    assert parse_writer_options(SERVERS, streaming=True).exactly_once


def test_parse_writer_options_reads_names_in_any_case() -> None:
    given = {
        **SERVERS,
        "TOPIC": "Orders",
        "kafka.ACKS": "1",
        "kafka.compression.type": "ZSTD",
        "kafka.batch.size": "16384",
        "kafka.request.timeout.ms": "1500",
        "exactlyonce": "False",
        "checkpointlocation": "/checkpoint",
    }
    found = parse_writer_options(given, streaming=True)
    assert (found.topic, found.acks, found.idempotent, found.codec) == ("Orders", 1, False, 4)
    assert (found.batch_bytes, found.client.request_timeout_s, found.exactly_once) == (16384, 1.5, False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers: no broker address"),
        ({"kafka.compresion.type": "lz4"}, "no option kafka.compresion.type; .* kafka.compression.type"),
        (
            {"kafka.compression.type": "brotli"},
            "has to be one of none, gzip, snappy, lz4, zstd, not 'brotli'",
        ),
        ({"kafka.acks": "2"}, "kafka.acks has to be one of all, -1, 1, 0, not '2'"),
        ({"kafka.acks": "1"}, "exactlyOnce needs the option kafka.acks to be all"),
        (
            {"kafka.acks": "1", "exactlyOnce": "false", "kafka.enable.idempotence": "true"},
            "idempotence needs",
        ),
        ({"kafka.batch.size": "-1"}, "kafka.batch.size has to be a number from 0 to"),
        ({"kafka.compression.gzip.level": "0"}, "gzip.level has to be a number from 1 to 9, or -1, not '0'"),
        ({"kafka.compression.zstd.level": "23"}, "zstd.level has to be a number from -131072 to 22"),
        ({"kafka.linger.ms": "-1"}, "kafka.linger.ms has to be a number from 0 to"),
        (
            {"kafka.partitioner.class": "x.Y"},
            "partitioner.class is refused: no Java class .* column partition",
        ),
        ({"kafka.key.serializer": "x.Y"}, "kafka.key.serializer is refused: keys are written as they are"),
        ({"kafka.ssl.protocol": "TLSv1.3"}, "kafka.ssl.protocol is refused: this client has no part"),
        ({"includeHeaders": "yes"}, "includeHeaders has to be true or false"),
        ({"exactlyOnce": "yes"}, "exactlyOnce has to be true or false"),
        ({"kafka.transactional.id": "x"}, "transactional id for each of its tasks"),
        ({"kafka.security.protocol": "TLS"}, "security.protocol: 'TLS' is none of PLAINTEXT, SSL"),
    ],
)
def test_parse_writer_options_refuses_with_the_remedy(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        parse_writer_options({**SERVERS, **given}, streaming=True)


def test_parse_writer_options_needs_servers_and_refuses_exactly_once_in_batches() -> None:
    with pytest.raises(InvalidOption, match=r"kafka.bootstrap.servers is missing"):
        parse_writer_options({}, streaming=False)
    with pytest.raises(InvalidOption, match="for streaming queries"):
        parse_writer_options({**SERVERS, "exactlyOnce": "true"}, streaming=False)


def test_parse_writer_options_takes_the_level_of_its_codec() -> None:
    levels = {"kafka.compression.gzip.level": "9", "kafka.compression.zstd.level": "-5"}
    for codec, level in (("gzip", 9), ("zstd", -5), ("lz4", None), ("none", None)):
        given = {**SERVERS, **levels, "kafka.compression.type": codec}
        assert parse_writer_options(given, streaming=False).compression_level == level


def test_parse_writer_options_takes_the_times_of_kafkas_producers() -> None:
    given = {"kafka.max.block.ms": "0", "kafka.retries": "7", "kafka.retry.backoff.ms": "0"}
    client = parse_writer_options({**SERVERS, **given}, streaming=False).client
    assert (client.max_block_s, client.retry.retries, client.retry.backoff_s) == (0, 7, 0)
    assert parse_writer_options(SERVERS, streaming=False).client.max_block_s == 60


def test_parse_writer_options_lists_what_has_no_effect() -> None:
    given = {"kafka.linger.ms": "5", "kafka.auto.offset.reset": "latest", "includeHeaders": "true"}
    assert parse_writer_options({**SERVERS, **given}, streaming=True).without_effect == (
        "kafka.auto.offset.reset",
        "kafka.linger.ms",
    )


def test_parse_writer_options_has_a_default_for_each_option() -> None:
    found = attrs.asdict(parse_writer_options(SERVERS, streaming=True), recurse=False)
    client = found.pop("client")
    assert found == {
        "bootstrap_servers": "localhost:9092",
        "topic": None,
        "exactly_once": True,
        "idempotent": True,
        "acks": -1,
        "compression": "none",
        "compression_level": None,
        "batch_bytes": 524_288,
        "max_record_bytes": 1_048_576,
        "ignore_keys": False,
        "transaction_timeout_ms": 900_000,
        "without_effect": (),
    }
    assert (client.operation_timeout_s, client.max_block_s, client.retry.retries) == (120, 60, 2**31 - 1)


@for_each(
    ("given", "expected"),
    [
        ({"kafka.acks": "-1"}, {"acks": -1, "idempotent": True}),
        ({"kafka.acks": "0"}, {"acks": 0, "idempotent": False}),
        ({"kafka.enable.idempotence": "false"}, {"acks": -1, "idempotent": False}),
        ({"kafka.batch.size": "0"}, {"batch_bytes": 1}),
        ({"kafka.batch.size": "2"}, {"batch_bytes": 2}),
        ({"kafka.max.request.size": "1"}, {"max_record_bytes": 1}),
        ({"kafka.partitioner.ignore.keys": "true"}, {"ignore_keys": True}),
        ({"kafka.transaction.timeout.ms": "1"}, {"transaction_timeout_ms": 1}),
        ({"queryName": "q", "kafka.linger.ms": "0"}, {"without_effect": ("kafka.linger.ms",)}),
        ({"topic": "t", "includeHeaders": "FALSE"}, {"topic": "t"}),
        *(
            (
                {"kafka.compression.type": codec, f"kafka.compression.{codec}.level": str(level)},
                {"compression": codec, "compression_level": level},
            )
            for codec, levels in (("gzip", (-1, 1, 9)), ("lz4", (1, 17)), ("zstd", (-131072, 0, 22)))
            for level in levels
        ),
    ],
)
def test_parse_writer_options_reads_each_option(given: dict[str, str], expected: dict[str, object]) -> None:
    found = attrs.asdict(parse_writer_options({**SERVERS, **given}, streaming=False), recurse=False)
    assert {name: found[name] for name in expected} == expected


@for_each(
    ("name", "value"),
    [
        ("kafka.max.request.size", "0"),
        ("kafka.transaction.timeout.ms", "0"),
        ("kafka.delivery.timeout.ms", "0"),
        ("kafka.retries", "-1"),
        ("kafka.max.block.ms", "-1"),
        ("kafka.compression.gzip.level", "-2"),
        ("kafka.compression.gzip.level", "10"),
        ("kafka.compression.lz4.level", "0"),
        ("kafka.compression.lz4.level", "18"),
        ("kafka.compression.zstd.level", "-131073"),
    ],
)
def test_parse_writer_options_refuses_numbers_out_of_range(name: str, value: str) -> None:
    with pytest.raises(InvalidOption, match=f"the option {name} has to be a number from"):
        parse_writer_options({**SERVERS, name: value}, streaming=False)


def test_parse_writer_options_takes_a_time_for_the_delivery_before_that_of_other_calls() -> None:
    given = {"kafka.delivery.timeout.ms": "2500", "kafka.retries": "0"}
    client = parse_writer_options({**SERVERS, **given}, streaming=False).client
    assert (client.operation_timeout_s, client.retry.retries) == (2.5, 0)


def test_parse_writer_options_takes_the_options_that_only_reading_uses() -> None:
    assert (
        parse_writer_options({**SERVERS, "subscribe": "t"}, streaming=True, also=["subscribe"]).topic is None
    )
    with pytest.raises(InvalidOption, match="there is no option subscribe"):
        parse_writer_options({**SERVERS, "subscribe": "t"}, streaming=True)
