"""Copies of a consumer group: what one owns is no other's matter, whichever is copied and changed when."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.pace import run_to_end
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.member import CurrentAssignment

TOPICS = (b"a" * 16, b"b" * 16)

changes = st.tuples(
    st.integers(0, 5),
    st.sampled_from("xyz"),
    st.sampled_from(TOPICS),
    st.none() | st.frozensets(st.integers(0, 3)),
)
copies = st.integers(0, 5)


@given(st.lists(changes | copies, max_size=30))
def test_a_change_of_a_group_changes_no_copy_of_it(
    steps: list[int | tuple[int, str, bytes, frozenset[int] | None]],
) -> None:
    groups, expected = [ConsumerGroup("g")], [ConsumerGroup("g")]
    for step in steps:
        if isinstance(step, int):
            groups.append(groups[step % len(groups)].copy())
            expected.append(copy.deepcopy(expected[step % len(expected)]))
        else:
            place, member_id, topic, numbers = step
            current = (
                None
                if numbers is None
                else CurrentAssignment(1, 1, assigned={topic: dict.fromkeys(numbers, 1)})
            )
            for each in (groups, expected):
                run_to_end(each[place % len(each)].set_current(member_id, current))
        assert groups == expected
