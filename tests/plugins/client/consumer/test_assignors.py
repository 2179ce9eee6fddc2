"""Assignors: every partition once, evenly, and few of them move."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.assignors import (
    ASSIGNORS,
    MemberAssignments,
    SubscribedMember,
    assign_cooperative_sticky,
    assign_ranges,
    assign_round_robin,
    assign_sticky,
    grouped,
    ungrouped,
)
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import ConsumerProtocolSubscription

TOPICS = ("a", "b", "c")
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))
subscriptions = st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=6)


def members_of(topics: list[set[str]]) -> list[SubscribedMember]:
    return [SubscribedMember(f"m{number}", frozenset(each)) for number, each in enumerate(topics)]


def numbers(assigned: MemberAssignments) -> dict[str, str]:
    """Partitions as text: a0 a1 b0."""
    return {
        member: " ".join(f"{each.topic}{each.partition}" for each in partitions)
        for member, partitions in assigned.items()
    }


@for_each("name", ASSIGNORS)
@given(counts, subscriptions)
def test_each_partition_has_one_member_that_subscribes_to_it(
    name: str, counts: dict[str, int], topics: list[set[str]]
) -> None:
    members = members_of(topics)
    assigned = ASSIGNORS[name].assign(counts, members, {})
    assert assigned.keys() == {member.member_id for member in members}
    for member in members:
        assert {each.topic for each in assigned[member.member_id]} <= member.topics
    owned = Counter(each for partitions in assigned.values() for each in partitions)
    assert owned == Counter(
        TopicPartition(topic, number)
        for topic, count in counts.items()
        if any(topic in each for each in topics)
        for number in range(count)
    )


def test_ranges_and_round_robin_as_the_java_client_documents_them() -> None:
    members = [SubscribedMember(each, frozenset("ab")) for each in ("C1", "C0")]
    assert numbers(assign_ranges({"a": 3, "b": 3}, members, {})) == {"C0": "a0 a1 b0 b1", "C1": "a2 b2"}
    assert numbers(assign_round_robin({"a": 3, "b": 3}, members, {})) == {"C0": "a0 a2 b1", "C1": "a1 b0 b2"}
    static = [SubscribedMember("x", frozenset("a"), "i2"), SubscribedMember("y", frozenset("a"), "i1")]
    newcomer = SubscribedMember("a", frozenset("a"))
    assert numbers(assign_ranges({"a": 3}, [newcomer, *static], {})) == {"y": "a0", "x": "a1", "a": "a2"}


def after(
    members: list[SubscribedMember], assigned: MemberAssignments, generation: int
) -> list[SubscribedMember]:
    """The members in the next generation."""
    return [
        SubscribedMember(each.member_id, each.topics, None, tuple(assigned[each.member_id]), generation)
        for each in members
    ]


@given(counts, st.integers(1, 5), st.integers(1, 5))
@example({"a": 2, "b": 9, "c": 9}, 2, 3)
def test_sticky_is_even_and_moves_few(counts: dict[str, int], before: int, now: int) -> None:
    members = members_of([set(TOPICS)] * before)
    first = assign_sticky(counts, members, {})
    kept = after(members, first, 1)[:now]
    kept += [SubscribedMember(f"new{number}", frozenset(TOPICS)) for number in range(max(0, now - before))]
    second = assign_sticky(counts, kept, {})
    sizes = [len(partitions) for partitions in second.values()]
    assert max(sizes) - min(sizes) <= 1
    total = sum(counts.values())
    stayed = sum(len(set(first.get(member, [])) & set(second[member])) for member in second)
    # What the members that left had moves, and what makes room for new ones; nothing else.
    remaining = sum(len(first[each.member_id]) for each in kept if each.member_id in first)
    assert stayed >= min(remaining, total - (total // now + 1) * max(0, now - before))


@given(counts, st.integers(1, 5), st.integers(1, 5))
def test_cooperative_sticky_gives_nothing_that_another_member_owns(
    counts: dict[str, int], before: int, more: int
) -> None:
    members = members_of([set(TOPICS)] * before)
    first = assign_cooperative_sticky(counts, members, {})
    grown = after(members, first, 1) + [
        SubscribedMember(f"new{number}", frozenset(TOPICS)) for number in range(more)
    ]
    second = assign_cooperative_sticky(counts, grown, {})
    for member in grown:
        for other in grown:
            if other is not member:
                assert not set(second[member.member_id]) & set(other.owned)
    # Those that gave up something join again, and then all has an owner.
    third = assign_cooperative_sticky(counts, after(grown, second, 2), {})
    assert sum(map(len, third.values())) == sum(counts.values())
    assert third == assign_cooperative_sticky(counts, after(grown, third, 3), {})


def test_of_two_claims_the_later_generation_counts() -> None:
    one = (TopicPartition("a", 0),)
    older = SubscribedMember("m0", frozenset("a"), None, one, 1)
    newer = SubscribedMember("m1", frozenset("a"), None, one, 2)
    assert numbers(assign_sticky({"a": 1}, [older, newer], {})) == {"m0": "", "m1": "a0"}


def test_user_data_of_sticky_members_are_those_of_the_java_client() -> None:
    owned = [TopicPartition("orders", 1), TopicPartition("orders", 0)]
    data = ASSIGNORS["sticky"].user_data(owned, 7)
    # topic_partitions: [topic, [partition]], generation
    assert data == b"\0\0\0\1\0\6orders\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\7"
    assert ASSIGNORS["sticky"].user_data([], -1) is None
    assert ASSIGNORS["cooperative-sticky"].user_data(owned, 7) == b"\0\0\0\7"
    subscription = ConsumerProtocolSubscription(topics=["orders"], user_data=data)
    member = ASSIGNORS["sticky"].member("m", None, subscription)
    assert (set(member.owned), member.generation) == (set(owned), 7)
    garbage = ConsumerProtocolSubscription(topics=["orders"], user_data=b"?")
    assert ASSIGNORS["sticky"].member("m", None, garbage).owned == ()
    old = ConsumerProtocolSubscription(
        topics=["orders"], user_data=b"\0\0\0\7", owned_partitions=grouped(owned)
    )
    assert ASSIGNORS["cooperative-sticky"].member("m", None, old).generation == 7
    assert ungrouped(grouped(owned)) == sorted(owned)
