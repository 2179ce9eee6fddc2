"""Positions, limits and subscriptions as options have them."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.cluster import NO_TOPIC_ID, ClusterMetadata, PartitionMetadata, TopicMetadata
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.limits import (
    BATCH_END,
    BATCH_START,
    STREAM_START,
    Limit,
    LimitOptions,
    OffsetLimit,
    TimestampLimit,
    parse_limit,
    refuse_value,
)
from tidelog.plugins.spark_sink.source.positions import (
    parse_partitions,
    parse_positions,
    to_json,
    without_fields,
)
from tidelog.plugins.spark_sink.source.subscriptions import (
    SUBSCRIPTIONS,
    Partitions,
    SelectedPattern,
    SelectedTopics,
    TopicSelection,
    partitions_in,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@for_each(
    ("text", "least", "expected"),
    [
        ('{"a": {"0": -2, "1": 9223372036854775807}}', -2, {A0: -2, A1: 2**63 - 1}),
        ('{"a": {"1": 0}, "b": {"0": 0}}', 0, {A1: 0, B0: 0}),
        ('{"a": {"0": 5}, "$topics": {"a": "id"}, "$start": {"b": {"0": 1}}}', -2, {A0: 5}),
        ('{"a": {"0": -3}}', -2, None),
        ('{"a": {"0": -1}}', 0, None),
        ('{"a": {"0": 9223372036854775808}}', 0, None),
        ('{"a": {"0": 1.0}}', 0, None),
        ('{"a": {"-1": 1}}', 0, None),
        ('{"a": {"x": 1}}', 0, None),
        ('{"a": 1}', 0, None),
        ('{"a": {}}', 0, None),
        ('["a"]', 0, None),
        ("", 0, None),
    ],
)
def test_parse_positions(text: str, least: int, expected: dict[TopicPartition, int] | None) -> None:
    if expected is not None:
        assert parse_positions("o", text, least=least) == expected
        return
    with pytest.raises(InvalidOption) as raised:
        parse_positions("o", text, least=least)
    assert str(raised.value) == (
        f'the option o has to be like {{"topicA":{{"0":23,"1":45}},"topicB":{{"0":0}}}}, not {text!r}'
    )


@for_each(
    ("text", "expected"),
    [
        ('{"a": [0, 1], "b": [0]}', {A0, A1, B0}),
        ('{"a": [-1]}', None),
        ('{"a": [0, true]}', None),
        ('{"a": 0}', None),
        ('{"a": []}', None),
        ("[]", None),
        ("a", None),
    ],
)
def test_parse_partitions(text: str, expected: set[TopicPartition] | None) -> None:
    if expected is not None:
        assert parse_partitions("o", text) == expected
        return
    with pytest.raises(InvalidOption) as raised:
        parse_partitions("o", text)
    assert str(raised.value) == (
        f'the option o has to be like {{"topicA":[0,1],"topicB":[2,4]}}, not {text!r}'
    )


def test_fields_beside_topics_are_those_that_no_topic_can_be() -> None:
    stored = {"$start": {"a": {"0": 1}}, "$topics": {}, "a$": {"0": 2}}
    assert without_fields(stored) == {"a$": {"0": 2}}
    assert to_json({B0: 1, A1: 3, A0: 2}) == {"a": {"0": 2, "1": 3}, "b": {"0": 1}}


@for_each(
    ("names", "given", "expected"),
    [
        (STREAM_START, {}, OffsetLimit("startingOffsets", -1, {})),
        (BATCH_START, {}, OffsetLimit("startingOffsets", -2, {})),
        (BATCH_END, {}, OffsetLimit("endingOffsets", -1, {})),
        (BATCH_END, {"endingOffsets": " LATEST "}, OffsetLimit("endingOffsets", -1, {})),
        (BATCH_END, {"endingOffsets": "earliest"}, OffsetLimit("endingOffsets", -2, {})),
        (BATCH_END, {"endingOffsets": '{"a": {"0": -2}}'}, OffsetLimit("endingOffsets", None, {A0: -2})),
        (
            BATCH_END,
            {"endingOffsetsByTimestamp": '{"a": {"0": 0}}', "endingOffsets": "latest"},
            TimestampLimit("endingOffsetsByTimestamp", None, {A0: 0}, must_match=True),
        ),
        (
            STREAM_START,
            {"startingTimestamp": "0", "startingOffsetsByTimestamp": "?", "startingOffsets": "?"},
            TimestampLimit("startingTimestamp", 0, {}, must_match=True),
        ),
        (BATCH_END, {"endingTimestamp": "7"}, TimestampLimit("endingTimestamp", 7, {}, must_match=True)),
    ],
)
def test_a_timestamp_for_all_comes_before_those_by_partition_and_these_before_offsets(
    names: LimitOptions, given: dict[str, str], expected: Limit
) -> None:
    assert parse_limit(given, names, must_match=True) == expected


@for_each(
    "given",
    [
        {"startingTimestamp": "-1"},
        {"startingTimestamp": "now"},
        {"startingOffsetsByTimestamp": '{"a": {"0": -1}}'},
        {"startingOffsets": '{"a": {"0": -3}}'},
        {"startingOffsets": ""},
    ],
)
def test_malformed_limits_are_refused_by_name(given: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match=f"the option {next(iter(given))} has to be "):
        parse_limit(given, STREAM_START, must_match=False)


def test_refuse_value_looks_at_all_offsets_and_no_timestamps() -> None:
    for limit in (OffsetLimit("o", -1, {}), OffsetLimit("o", None, {A0: 3, A1: -1})):
        with pytest.raises(InvalidOption, match="the option o cannot be latest in a batch query"):
            refuse_value(limit, -1, "latest")
        refuse_value(limit, -2, "earliest")
    refuse_value(TimestampLimit("o", -1, {}, must_match=False), -1, "latest")


def topic(name: str, partitions: int, *, is_internal: bool = False) -> TopicMetadata:
    """Metadata of a topic."""
    parts = tuple(
        PartitionMetadata(index, 0, 0, (0,), (0,), (), ErrorCode.NONE) for index in range(partitions)
    )
    return TopicMetadata(name, NO_TOPIC_ID, is_internal, parts)


@for_each(
    ("option", "text", "topics", "expected"),
    [
        ("subscribe", " b, a ,b,", ("b", "a"), {A0, A1, B0}),
        ("subscribePattern", " a ", None, {A0, A1}),
        ("subscribePattern", "^(?!a)", None, {B0}),  # RE2 has no look-ahead
        ("assign", '{"b": [0], "a": [1]}', ["a", "b"], {A1, B0}),
    ],
)
def test_subscriptions_match_partitions_of_topics_that_are_not_internal(
    option: str, text: str, topics: object, expected: set[TopicPartition]
) -> None:
    found: TopicSelection = SUBSCRIPTIONS[option](text)
    there = [topic("a", 2), topic("b", 1), topic("__abc", 1, is_internal=True)]
    metadata = ClusterMetadata("id", 0, {}, {each.name: each for each in there}, {})
    assert found.topics == topics
    assert partitions_in(metadata, found) == expected


def test_subscriptions_are_of_their_kinds() -> None:
    assert isinstance(SUBSCRIPTIONS["subscribe"]("a"), SelectedTopics)
    assert isinstance(SUBSCRIPTIONS["subscribePattern"]("a"), SelectedPattern)
    assert isinstance(SUBSCRIPTIONS["assign"]('{"a": [0]}'), Partitions)
    assert SelectedTopics(("a",)).matches(A0)
    assert Partitions(frozenset({A0})).matches(A0)
    assert not Partitions(frozenset({A0})).matches(A1)
