"""Keys of Kafka's clients: each one of Apache Kafka's own is an option, has no effect, or is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.java_programs import run_java
from tidelog.plugins.spark_sink.kafka_keys import (
    CONNECTION_OPTIONS,
    CONSUMER_KEYS,
    CONSUMER_OPTIONS,
    PRODUCER_KEYS,
    PRODUCER_OPTIONS,
)
from tidelog.plugins.spark_sink.option_values import ClientKeys, InvalidOption
from tidelog.plugins.spark_sink.source.options import SourceOptions, parse_options
from tidelog.plugins.spark_sink.writer.options import WriterOptions, parse_writer_options

RELEASE = "4.4.0"
CLIENTS = {
    "consumer": (CONSUMER_KEYS, (*CONNECTION_OPTIONS, *CONSUMER_OPTIONS)),
    "producer": (PRODUCER_KEYS, (*CONNECTION_OPTIONS, *PRODUCER_OPTIONS)),
}
OF_CONSUMERS_ALONE = {"kafka.default.api.timeout.ms"}
SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
PARSERS: dict[str, Callable[[dict[str, str]], SourceOptions | WriterOptions]] = {
    "consumer": lambda given: parse_options({**given, **SERVERS, "subscribe": "t"}, streaming=True),
    "producer": lambda given: parse_writer_options({**given, **SERVERS}, streaming=True),
}


@pytest.fixture(scope="module")
def kafkas_keys() -> dict[str, dict[str, str]]:
    """By client, the default of each key in Apache Kafka itself."""
    found: dict[str, dict[str, str]] = {name: {} for name in CLIENTS}
    for line in run_java("ClientKeys", RELEASE, []).splitlines():
        client, key, default = line.split("\t")
        found[client][f"kafka.{key}"] = default
    return found


@pytest.mark.parametrize(("client", "keys", "options"), [(name, *each) for name, each in CLIENTS.items()])
def test_client_keys_are_those_of_apache_kafka(
    kafkas_keys: dict[str, dict[str, str]], client: str, keys: ClientKeys, options: tuple[str, ...]
) -> None:
    [others] = [found for name, found in kafkas_keys.items() if name != client]
    known = {*options, *keys.without_effect, *keys.refused}
    unknown = {key for key in kafkas_keys[client].keys() - known if keys.reason_to_refuse(key) is None}
    assert not unknown
    assert known - kafkas_keys[client].keys() - others.keys() == set()
    assert set(options) - kafkas_keys[client].keys() <= OF_CONSUMERS_ALONE
    assert keys.refused.keys() <= kafkas_keys[client].keys()


def test_client_keys_accept_the_defaults_of_apache_kafka(kafkas_keys: dict[str, dict[str, str]]) -> None:
    for client, (keys, options) in CLIENTS.items():
        given = {
            key: default
            for key, default in kafkas_keys[client].items()
            if (key in keys.without_effect or key in options) and default not in ("null", "", "[]")
        }
        assert len(given) > 35
        assert PARSERS[client](given).without_effect


@pytest.mark.parametrize("client", CLIENTS)
def test_client_keys_without_effect_refuse_values_of_other_types(client: str) -> None:
    keys, _ = CLIENTS[client]
    strict = {key for key, parser in keys.without_effect.items() if parser is not str}
    assert len(strict) > 20
    for key in strict:
        wrong = "" if key == "kafka.group.instance.id" else "?"
        with pytest.raises(InvalidOption, match=f"the option {key} has to be "):
            PARSERS[client]({key: wrong})
