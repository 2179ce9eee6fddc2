"""Who gets which partition, and what members have registered."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.zookeeper.consumers.assignment import GroupView, assign
from tidelog.plugins.zookeeper.consumers.subscriptions import Subscription, parse_subscription, topic_filter

TOPICS = st.sampled_from(["orders", "clicks", "web"])
SUBSCRIPTIONS = st.one_of(
    st.builds(Subscription, st.dictionaries(TOPICS, st.integers(0, 4))),
    st.builds(
        Subscription,
        st.sampled_from(["orders", "o.*|web", ".*", "(", "__.*"]).flatmap(
            lambda regex: st.fixed_dictionaries({regex: st.integers(0, 4)})
        ),
        st.sampled_from(["white_list", "black_list"]),
    ),
)


def parts(view: GroupView, member: str) -> dict[str, str]:
    """Partition → stream, as text."""
    return {str(partition): stream for partition, stream in assign(view, member).items()}


def test_assign_gives_ranges_and_one_more_to_the_first() -> None:
    view = GroupView({"b": Subscription({"t": 1}), "a": Subscription({"t": 2})}, {"t": range(5)})
    assert parts(view, "a") == {"t-0": "a-0", "t-1": "a-0", "t-2": "a-1", "t-3": "a-1"}
    assert parts(view, "b") == {"t-4": "b-0"}
    assert parts(view, "c") == {}


def test_assign_sorts_partitions_as_numbers_and_streams_as_text() -> None:
    view = GroupView({"a": Subscription({"t": 11})}, {"t": [10, 9, 2, *range(3, 9), 1, 0]})
    assert parts(view, "a") == {
        f"t-{number}": f"a-{stream}" for number, stream in enumerate(sorted(map(str, range(11))))
    }


def test_assign_leaves_out_more_streams_than_partitions() -> None:
    view = GroupView({"a": Subscription({"t": 1}), "b": Subscription({"t": 1})}, {"t": range(1)})
    assert (parts(view, "a"), parts(view, "b")) == ({"t-0": "a-0"}, {})


MEMBERS = st.dictionaries(st.text("ab-01", min_size=1, max_size=3), SUBSCRIPTIONS)


@given(MEMBERS, st.dictionaries(TOPICS, st.integers(0, 9)))
def test_assign_gives_each_wanted_partition_to_one_stream(
    members: dict[str, Subscription], counts: dict[str, int]
) -> None:
    view = GroupView(members, {topic: range(count) for topic, count in counts.items()})
    given_to = Counter(partition for member in members for partition in assign(view, member))
    wanted = {
        TopicPartition(topic, number)
        for subscription in members.values()
        for topic, streams in subscription.streams_of([*counts]).items()
        if streams
        for number in range(counts.get(topic, 0))
    }
    assert given_to == Counter(wanted)


def test_streams_of_lists_leave_out_internal_topics() -> None:
    topics = ["orders", "__consumer_offsets"]
    everything = Subscription({".*": 2}, "white_list")
    assert everything.streams_of(topics) == {"orders": 2}
    assert everything.streams_of(topics, with_internal=True) == {"orders": 2, "__consumer_offsets": 2}
    assert Subscription({"ord": 1}, "white_list").streams_of(topics) == {}
    assert Subscription({"ord": 1}, "black_list").streams_of(topics) == {"orders": 1}


@given(SUBSCRIPTIONS)
def test_parse_subscription_reads_what_encode_writes(subscription: Subscription) -> None:
    assert parse_subscription(subscription.encode(5)) == subscription


@for_each(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        b"{}",
        b'{"subscription":[]}',
        b'{"subscription":{"t":"1"}}',
        b'{"subscription":{"t":-1}}',
        b'{"subscription":{"t":1e9}}',
        b'{"subscription":{"t":1000000000}}',
        b'{"subscription":{"t":1},"pattern":"grey_list"}',
        b'{"subscription":{"t":1},"pattern":[]}',
        b'{"subscription":{"t":1,"u":1},"pattern":"white_list"}',
    ],
)
def test_parse_subscription_has_none_for_what_is_malformed(value: bytes) -> None:
    assert parse_subscription(value) is None


@for_each(
    ("text", "regex"),
    [("orders", "orders"), (" a, b ,c ", "a|b|c"), ("'web-.*'", "web-.*"), ('"a|b"', "a|b")],
)
def test_topic_filter_is_that_of_the_old_consumers(text: str, regex: str) -> None:
    assert topic_filter(text) == regex


def test_topic_filter_refuses_what_is_no_expression() -> None:
    with pytest.raises(InvalidRegularExpression):
        topic_filter("(")
