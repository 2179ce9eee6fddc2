"""Groups to assign partitions in: strategies, and what any assignment has to keep to."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from tidelog.kernel.seams.coordination.assignors import GroupSpec, MemberSubscription, PartitionsByTopic

TOPICS = [bytes([number]) * 16 for number in range(1, 5)]
MEMBERS = [f"member-{number}" for number in range(7)]


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False, even_topics: bool = False) -> GroupSpec:
    """A group with an assignment that an earlier, different membership may have left.

    `alike`: all members subscribe to the same topics; `even_topics`: all topics have as many partitions.
    """
    if even_topics:
        counts = dict.fromkeys(TOPICS, draw(st.integers(1, 12)))
    else:
        counts = {topic: draw(st.integers(1, 12)) for topic in TOPICS}
    members = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True))
    wanted = st.frozensets(st.sampled_from(TOPICS), min_size=1)
    topics = dict.fromkeys(members, draw(wanted)) if alike else {name: draw(wanted) for name in members}
    before = draw(st.lists(st.sampled_from([*members, None]), min_size=60, max_size=60))
    targets: dict[str, dict[bytes, set[int]]] = {name: {} for name in members}
    everything = [(topic, number) for topic in TOPICS for number in range(15)]
    for name, (topic, number) in zip(before, everything, strict=True):
        if name is not None:
            targets[name].setdefault(topic, set()).add(number)
    return GroupSpec(
        {
            name: MemberSubscription(
                topics[name],
                {topic: frozenset(numbers) for topic, numbers in targets[name].items()},
                instance_id=name if draw(st.booleans()) else None,
            )
            for name in members
        },
        {topic: counts[topic] for topic in frozenset().union(*topics.values())},
    )


def check_complete(group: GroupSpec, assigned: Mapping[str, PartitionsByTopic]) -> None:
    """Every partition has exactly one owner, who subscribes to its topic."""
    owners: dict[tuple[bytes, int], str] = {}
    for name, topics in assigned.items():
        for topic, numbers in topics.items():
            assert numbers
            assert topic in group.members[name].topic_ids
            for number in numbers:
                assert owners.setdefault((topic, number), name) == name
    assert owners.keys() == {
        (topic, number) for topic, count in group.partition_counts.items() for number in range(count)
    }


def sizes(assigned: Mapping[str, PartitionsByTopic]) -> list[int]:
    """How many partitions each member has."""
    return [sum(map(len, topics.values())) for topics in assigned.values()]


def after(group: GroupSpec, assigned: Mapping[str, PartitionsByTopic]) -> GroupSpec:
    """The same group when the assignment has become the last one."""
    members = {
        name: MemberSubscription(member.topic_ids, assigned[name], member.instance_id)
        for name, member in group.members.items()
    }
    return GroupSpec(members, group.partition_counts)
