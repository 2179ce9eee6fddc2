"""The assignor `uniform`: everything assigned once, evenly, and nothing moved without need."""

from __future__ import annotations

from time import thread_time

import pytest
from hypothesis import given

from tests.plugins.coordinator.assignors.groups import TOPICS, after, check_complete, groups, sizes
from tidelog.kernel.seams.coordination.assignors import GroupSpec, MemberSubscription
from tidelog.plugins.coordinator.assignors import RangeAssignor, UniformAssignor

ASSIGNOR = UniformAssignor()


@given(groups())
def test_assign_gives_every_partition_to_one_subscriber_of_its_topic(group: GroupSpec) -> None:
    check_complete(group, ASSIGNOR.assign(group))


@given(groups(alike=True))
def test_assign_balances_equal_subscriptions_to_within_one_partition(group: GroupSpec) -> None:
    assigned = sizes(ASSIGNOR.assign(group))
    assert max(assigned) - min(assigned) <= 1


@given(groups())
def test_assign_leaves_no_single_move_that_would_improve_the_balance(group: GroupSpec) -> None:
    assigned = ASSIGNOR.assign(group)
    size = dict(zip(assigned, sizes(assigned), strict=True))
    for giver, topics in assigned.items():
        for topic in topics:
            for taker, member in group.members.items():
                assert topic not in member.topic_ids or size[giver] - size[taker] <= 1


@given(groups(alike=True))
def test_as_many_partitions_stay_as_balance_allows(group: GroupSpec) -> None:
    assigned = ASSIGNOR.assign(group)
    kept: list[int] = []
    had: list[int] = []
    for name, member in group.members.items():
        before = {
            (topic, number)
            for topic, numbers in member.target.items()
            for number in numbers
            if topic in member.topic_ids and number < group.partition_counts[topic]
        }
        now = {(topic, number) for topic, numbers in assigned[name].items() for number in numbers}
        had.append(len(before))
        kept.append(len(before & now))
    least, extra = divmod(sum(sizes(assigned)), len(assigned))
    had.sort(reverse=True)
    assert sum(kept) == sum(min(count, least + (place < extra)) for place, count in enumerate(had))


@given(groups())
def test_an_assignment_that_is_even_stays_as_it_is(group: GroupSpec) -> None:
    assigned = ASSIGNOR.assign(group)
    assert ASSIGNOR.assign(after(group, assigned)) == assigned


@pytest.mark.parametrize("assignor", [UniformAssignor(), RangeAssignor()], ids=lambda each: each.name)
@pytest.mark.parametrize("members", [2, 100])
def test_assign_in_steps_takes_short_steps_for_many_partitions(
    assignor: UniformAssignor | RangeAssignor, members: int
) -> None:
    """50,000 partitions and subscriptions that differ: the uniform assignor took minutes in one step."""
    topics = [number.to_bytes(16) for number in range(2_000)]
    group = GroupSpec(
        {
            f"m{place:03}": MemberSubscription(
                frozenset(t for at, t in enumerate(topics) if at % 100 != place)
            )
            for place in range(members)
        },
        dict.fromkeys(topics, 25),
    )
    steps, began = 0, thread_time()
    for _ in assignor.assign_in_steps(group):
        steps += 1
    # Steps in time would depend on the machine; so does this, but by a factor of a hundred.
    assert (thread_time() - began) / steps < 0.002
    assert steps > 1_000


def test_assign_moves_only_its_share_to_a_member_that_joins() -> None:
    everything = {TOPICS[0]: frozenset(range(6))}
    wants = frozenset(TOPICS[:1])
    group = GroupSpec(
        {"old": MemberSubscription(wants, everything), "new": MemberSubscription(wants)}, {TOPICS[0]: 6}
    )
    assigned = ASSIGNOR.assign(group)
    assert sizes(assigned) == [3, 3]
    assert assigned["old"][TOPICS[0]] < everything[TOPICS[0]]


def test_assign_gives_nothing_to_members_without_a_subscription() -> None:
    assert ASSIGNOR.assign(GroupSpec({"idle": MemberSubscription(frozenset())}, {})) == {"idle": {}}
    assert ASSIGNOR.assign(GroupSpec({}, {})) == {}
