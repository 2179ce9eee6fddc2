"""Responses to requests that are refused as a whole have the error code of each thing that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from tests.tables import for_each
from tests.test_loop_imports import smallest
from tidelog.kernel.pace import run_to_end
from tidelog.plugins.protocol_kafka.apis import KafkaApi, resolve
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.plugins.protocol_kafka.refusal import refusal
from tidelog.plugins.schema import decode, encode
from tidelog.plugins.schema.layout import message_layout
from tidelog.plugins.schema.types import Array, Struct

CODE = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOWHERE = {"DescribeLogDirs": 2}
"""APIs whose responses have no place for it up to a version, as in Kafka: they are empty then."""


def refused(api: KafkaApi, version: int, request: Any) -> Any:
    if api.refuse is not None:
        return run_to_end(resolve(api.refuse)(request, CODE, "no"))
    return run_to_end(refusal(resolve(api.response), version, request, CODE, "no"))


def filled(cls: type[Any], version: int) -> Any:
    """A request with one element in each of its arrays."""
    layout = message_layout(cls, version)
    fields = {}
    for field in layout.fields:
        if isinstance(field.kind, Array):
            element = field.kind.element
            if isinstance(element, Struct):
                fields[field.name] = [smallest(element.cls)]
            else:
                fields[field.name] = ["x" if element.name == "string" else 0]
    return attrs.evolve(smallest(cls), **fields)


def codes(message: Any) -> Iterator[int]:
    """All error codes in a message."""
    for field in attrs.fields(type(message)):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for element in value:
                if attrs.has(type(element)):
                    yield from codes(element)


@for_each("api", BUILT_IN, ids=[api.name for api in BUILT_IN])
def test_a_refused_request_has_the_error_code_in_every_version(api: KafkaApi) -> None:
    for version in range(api.span.low, api.span.high + 1):
        response = refused(api, version, filled(resolve(api.request), version))
        sent = decode(resolve(api.response), version, encode(response, version))
        found = set(codes(sent)) - {0}
        expected = set() if version <= NOWHERE.get(api.name, -1) else {CODE}
        assert found == expected, f"version {version}: {sent}"


def test_refusal_of_produce_names_each_partition() -> None:
    partitions = [PartitionProduceData(index=index, records=None) for index in (3, 5)]
    request = ProduceRequest(
        acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=partitions)]
    )
    response: ProduceResponse = run_to_end(refusal(ProduceResponse, 9, request, CODE, "no"))
    (topic,) = response.responses
    assert topic.name == "t"
    assert [(each.index, each.error_code, each.error_message) for each in topic.partition_responses] == [
        (3, CODE, "no"),
        (5, CODE, "no"),
    ]


def test_refusal_of_fetch_names_each_partition_before_there_was_one_code_for_all() -> None:
    partition = FetchPartition(partition=3, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])])
    old: FetchResponse = run_to_end(refusal(FetchResponse, 6, request, CODE, None))
    (topic,) = old.responses
    assert topic.topic == "t"
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(3, CODE)]
    new: FetchResponse = run_to_end(refusal(FetchResponse, 7, request, CODE, None))
    assert (new.error_code, new.responses) == (CODE, [])


def test_refusal_of_metadata_of_all_topics_is_empty_before_there_was_one_code_for_all() -> None:
    response: MetadataResponse = run_to_end(
        refusal(MetadataResponse, 12, MetadataRequest(topics=None), CODE, None)
    )
    assert response.topics == []
