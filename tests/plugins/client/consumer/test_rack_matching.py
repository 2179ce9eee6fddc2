"""Assignments by racks, beside those of the Java client (KIP-881)."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.clients.java_programs import run_inside_kafka
from tests.tables import for_each
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.assignors import (
    ASSIGNORS,
    MemberAssignments,
    SubscribedMember,
    assign_cooperative_sticky,
    assign_ranges,
    assign_sticky,
)
from tidelog.plugins.client.consumer.rack_matching import PartitionRacks

RACKS = "abc"
GROUPS = 200

Topics = dict[str, list[list[str]]]
"""The racks of the replicas of each partition."""


def random_group(random: Random, *, is_uniform: bool = False) -> tuple[Topics, list[SubscribedMember]]:
    """Members with and without racks, of topics some of which are alike."""
    counts = [random.randrange(1, 8)] * 3 if random.random() < 0.5 else random.choices(range(1, 8), k=3)
    replicas = random.randrange(0, 4)
    topics: Topics = {
        topic: [random.sample(RACKS, replicas) for _ in range(count)]
        for topic, count in zip("xyz", counts, strict=True)
    }
    # Of a rack that no replica has, too.
    sets: list[list[str | None]] = [[None], ["a", "b", "c"], ["a", "b", None], ["a", "d"]]
    racks = random.choice(sets)
    members = [
        SubscribedMember(
            f"m{number}",
            frozenset(topics if is_uniform else random.sample("xyz", random.randrange(1, 4))),
            rack=random.choice(racks),
        )
        for number in range(random.randrange(1, 6))
    ]
    return topics, members


def racks_of(topics: Topics) -> PartitionRacks:
    return {
        TopicPartition(topic, number): frozenset(racks)
        for topic, partitions in topics.items()
        for number, racks in enumerate(partitions)
        if racks
    }


def ours(assignor: str, topics: Topics, members: list[SubscribedMember]) -> MemberAssignments:
    counts = {topic: len(partitions) for topic, partitions in topics.items()}
    return ASSIGNORS[assignor].assign(counts, members, racks_of(topics))


def theirs(assignor: str, groups: list[tuple[Topics, list[SubscribedMember]]]) -> list[MemberAssignments]:
    """What the Java client assigns to each group."""
    lines = [
        json.dumps(
            {
                "assignor": assignor,
                "topics": topics,
                "members": {
                    each.member_id: {
                        "topics": sorted(each.topics),
                        "rack": each.rack,
                        "owned": [list(part) for part in each.owned],
                    }
                    for each in members
                },
            }
        )
        for topics, members in groups
    ]
    printed = run_inside_kafka("Assign", [], "".join(f"{line}\n" for line in lines)).splitlines()
    found: list[dict[str, Any]] = [json.loads(line) for line in printed]
    return [
        {member: sorted(TopicPartition(*part) for part in partitions) for member, partitions in each.items()}
        for each in found
    ]


def matches(topics: Topics, members: list[SubscribedMember], assigned: MemberAssignments) -> int:
    """How many partitions have a replica where their member is, or a member that has not said where it is."""
    racks, rack_of = racks_of(topics), {each.member_id: each.rack for each in members}
    return sum(
        rack_of[member] is None or rack_of[member] in racks.get(part, ())
        for member, partitions in assigned.items()
        for part in partitions
    )


@for_each("assignor", ("range", "roundrobin"))
def test_ranges_and_round_robin_are_those_of_the_java_client(assignor: str) -> None:
    random = Random(881)
    groups = [random_group(random) for _ in range(GROUPS)]
    assigned = theirs(assignor, groups)
    assert [
        {member: sorted(partitions) for member, partitions in ours(assignor, *group).items()}
        for group in groups
    ] == assigned
    if assignor == "range":
        # Racks have decided in some of them.
        assert any(
            ours(assignor, *group)
            != ours(assignor, {topic: [[]] * len(each) for topic, each in group[0].items()}, group[1])
            for group in groups
        )


def test_sticky_is_as_even_as_the_java_client_and_matches_as_many_racks() -> None:
    random = Random(429)
    groups = [random_group(random, is_uniform=True) for _ in range(3 * GROUPS)]
    for group, java in zip(groups, theirs("cooperative-sticky", groups), strict=True):
        assigned = ours("cooperative-sticky", *group)
        assert sorted(map(len, assigned.values())) == sorted(map(len, java.values()))
        assert matches(*group, assigned) >= matches(*group, java)


def test_sticky_moves_what_matches_elsewhere_and_then_nothing() -> None:
    random = Random(54)
    for _ in range(GROUPS):
        topics, members = random_group(random)
        counts = {topic: len(partitions) for topic, partitions in topics.items()}
        racks = racks_of(topics)
        before = assign_sticky(counts, members, {})
        owning = [owner(each, before) for each in members]
        after = assign_sticky(counts, owning, racks)
        assert matches(topics, members, after) >= matches(topics, members, before)
        assert spread(after) <= spread(before)
        assert assign_sticky(counts, [owner(each, after) for each in members], racks) == after
        # What another one owns is revoked first, and has an owner again in one of the next generations.
        given = assign_cooperative_sticky(counts, owning, racks)
        assert all(set(given[each]) <= set(after[each]) for each in after)
        for _ in range(3):
            given = assign_cooperative_sticky(counts, [owner(each, given) for each in members], racks)
        assert sum(map(len, given.values())) == sum(map(len, before.values()))


def owner(member: SubscribedMember, assigned: MemberAssignments) -> SubscribedMember:
    return SubscribedMember(
        member.member_id, member.topics, None, tuple(assigned[member.member_id]), 1, member.rack
    )


def test_racks_decide_within_what_is_even() -> None:
    racks = {TopicPartition("x", number): frozenset("b" if number < 3 else "a") for number in range(4)}
    members = [SubscribedMember(f"m{each}", frozenset("x"), rack=each) for each in "ab"]
    of_a, of_b = (
        [TopicPartition("x", 2), TopicPartition("x", 3)],
        [TopicPartition("x", 0), TopicPartition("x", 1)],
    )
    assert assign_ranges({"x": 4}, members, racks) == {"ma": of_a, "mb": of_b}
    # Without racks the first one has the first partitions.
    assert assign_ranges({"x": 4}, members, {}) == {"ma": of_b, "mb": of_a}


def spread(assigned: MemberAssignments) -> int:
    """The most partitions of a member, less the fewest."""
    sizes = [len(partitions) for partitions in assigned.values()]
    return max(sizes) - min(sizes)
