"""Positions of queries: what the ids of topics say, and what they say nothing about."""

from __future__ import annotations

import pytest

from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.spark_sink.source.query_position import QueryPosition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
IDS = {"a": "00000000-0000-0000-0000-00000000000a", "b": "00000000-0000-0000-0000-00000000000b"}


@pytest.mark.parametrize(
    ("now", "recreated"),
    [
        (IDS, []),
        ({**IDS, "b": "other"}, ["b"]),
        ({"b": "other", "a": "another"}, ["a", "b"]),
        ({}, []),
        ({"c": "another"}, []),
    ],
)
def test_recreated_has_topics_with_another_id(now: dict[str, str], recreated: list[str]) -> None:
    position = QueryPosition({A: 3, B: 4}, IDS)
    assert position.recreated(now) == recreated
    assert QueryPosition({A: 3, B: 4}).recreated(now) == []
    left = position.without(recreated)
    assert {part.topic for part in left.offsets} == left.topic_ids.keys() == IDS.keys() - set(recreated)


def test_to_json_has_the_ids_of_its_topics_and_nothing_without_any() -> None:
    position = QueryPosition({A: 3}, IDS)
    assert position.to_json() == {"a": {"0": 3}, "$topics": {"a": IDS["a"]}}
    assert QueryPosition.from_json(position.to_json()) == QueryPosition({A: 3}, {"a": IDS["a"]})
    assert QueryPosition({A: 3}).to_json() == {"a": {"0": 3}}
    assert QueryPosition.from_json({"$start": {}, "a": {"0": 3}}) == QueryPosition({A: 3})


def test_topic_id_is_none_where_it_is_not_known() -> None:
    position = QueryPosition({A: 3, B: 4}, {"a": IDS["a"]})
    assert (str(position.topic_id("a")), position.topic_id("b")) == (IDS["a"], None)
