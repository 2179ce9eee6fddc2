"""The table of a member's states: whatever happens, it can join again and leave."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.plugins.client.consumer.member_states import (
    BEATING,
    TRANSITIONS,
    ClassicMemberState,
    MemberEvent,
)

JOIN = (MemberEvent.START, MemberEvent.PREPARED, MemberEvent.JOINED, MemberEvent.SYNCED)


def after(state: ClassicMemberState, *events: MemberEvent) -> ClassicMemberState:
    """The state after events, of which those that do not happen there change nothing."""
    for event in events:
        state = TRANSITIONS.get((state, event), state)
    return state


@given(st.lists(st.sampled_from(MemberEvent)))
def test_a_member_joins_and_leaves_whatever_has_happened(events: list[MemberEvent]) -> None:
    state = after(ClassicMemberState.UNJOINED, *events)
    assert after(state, *JOIN) is ClassicMemberState.STABLE
    assert after(state, MemberEvent.LEAVE) is ClassicMemberState.LEFT


@for_each("state", set(ClassicMemberState) - {ClassicMemberState.UNJOINED, ClassicMemberState.LEFT})
def test_a_member_that_the_coordinator_has_dropped_begins_again(state: ClassicMemberState) -> None:
    assert after(state, MemberEvent.LOST) is ClassicMemberState.UNJOINED


@for_each("state", BEATING)
def test_a_rebalance_asks_the_user_first(state: ClassicMemberState) -> None:
    assert after(state, MemberEvent.REBALANCE) is ClassicMemberState.PREPARING
    assert after(state, MemberEvent.REBALANCE, MemberEvent.JOINED) is ClassicMemberState.PREPARING
