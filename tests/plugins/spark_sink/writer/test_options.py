"""Options of the writers: what is accepted, and what the message of a refusal says."""

from __future__ import annotations

import pytest

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
        ({"kafka.batch.size": "0"}, "kafka.batch.size has to be a number from 1 to"),
        ({"exactlyOnce": "yes"}, "exactlyOnce has to be true or false"),
        ({"kafka.transactional.id": "x"}, "transactional id for each of its tasks"),
        ({"kafka.security.protocol": "SSL"}, "PLAINTEXT, as this client speaks neither"),
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
