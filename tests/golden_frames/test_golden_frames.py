"""Captured frames are decoded, and encoded to the same bytes; both brokers' answers have the same content."""

from __future__ import annotations

from typing import Any

from tests.tables import for_each
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    APIS,
    CREATE_TOPICS,
    FETCH,
    INIT_PRODUCER_ID,
    OFFSET_COMMIT,
    PRODUCE,
)

from .captures import file_of, has_error, load, masked, request_in, response_in
from .clients import CLIENTS, RECORDS, TOPIC

BROKERS = ("kafka", "tidelog")
OWN_FEATURES = {"api_keys", "supported_features", "finalized_features"}
"""What ApiVersions announces is each broker's own."""
OWN_KEYS = {"index.format"}
"""Keys of topics that Kafka does not have."""


@for_each("client", list(CLIENTS))
@for_each("broker", BROKERS)
def test_captured_frames_are_encoded_to_the_bytes_that_were_captured(client: str, broker: str) -> None:
    exchanges = load(file_of(client, broker))
    assert {PRODUCE.key, FETCH.key, OFFSET_COMMIT.key} <= {exchange.api_key for exchange in exchanges}
    for exchange in exchanges:
        name = f"{APIS[exchange.api_key].name} {exchange.version}"
        assert request_in(exchange)[1] == exchange.request, name
        assert response_in(exchange)[1] == exchange.response, name


@for_each("client", list(CLIENTS))
def test_the_answers_of_both_brokers_to_a_client_are_alike(client: str) -> None:
    kafka, tidelog = (_answers(client, broker) for broker in BROKERS)
    # Kafka sends itself requests over the same listener, too.
    assert tidelog.keys() <= kafka.keys()
    for (key, version), answer in tidelog.items():
        expected = kafka[key, version]
        if key == API_VERSIONS.key:
            expected, answer = (_without(each, OWN_FEATURES) for each in (expected, answer))
        elif key == CREATE_TOPICS.key:
            for topic in answer["topics"]:
                topic["configs"] = [each for each in topic["configs"] if each["name"] not in OWN_KEYS]
        assert answer == expected, f"{APIS[key].name} {version}"


def test_captured_requests_have_the_records_and_the_transaction_of_the_client() -> None:
    exchanges = load(file_of("confluent-kafka", "tidelog"))
    by_key = {exchange.api_key: request_in(exchange)[0] for exchange in exchanges}
    assert by_key[INIT_PRODUCER_ID.key].transactional_id == "golden"
    assert by_key[PRODUCE.key].topic_data[0].partition_data[0].records[57:61] == len(RECORDS).to_bytes(4)
    plain = load(file_of("aiokafka", "kafka"))
    topics = [request_in(each)[0].topic_data[0].name for each in plain if each.api_key == PRODUCE.key]
    assert set(topics) == {TOPIC}


def _answers(client: str, broker: str) -> dict[tuple[int, int], Any]:
    """The last answer without an error to each API in each version."""
    answers = [(each, response_in(each)[0]) for each in load(file_of(client, broker))]
    return {(each.api_key, each.version): masked(answer) for each, answer in answers if not has_error(answer)}


def _without(answer: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in names}
