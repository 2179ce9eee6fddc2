"""The table of a member's states: whatever happens, it can join again and leave."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.plugins.client.consumer.classic_member_states import (
    BEATING,
    TRANSITIONS,
    ClassicMemberEvent,
    ClassicMemberState,
)

JOIN = (
    ClassicMemberEvent.START,
    ClassicMemberEvent.PREPARED,
    ClassicMemberEvent.JOINED,
    ClassicMemberEvent.SYNCED,
)


def after(state: ClassicMemberState, *events: ClassicMemberEvent) -> ClassicMemberState:
    """The state after events, of which those that do not happen there change nothing."""
    for event in events:
        state = TRANSITIONS.get((state, event), state)
    return state


@given(st.lists(st.sampled_from(ClassicMemberEvent)))
def test_a_member_joins_and_leaves_whatever_has_happened(events: list[ClassicMemberEvent]) -> None:
    state = after(ClassicMemberState.UNJOINED, *events)
    assert after(state, *JOIN) is ClassicMemberState.STABLE
    assert after(state, ClassicMemberEvent.LEAVE) is ClassicMemberState.LEFT


@for_each("state", set(ClassicMemberState) - {ClassicMemberState.UNJOINED, ClassicMemberState.LEFT})
def test_a_member_that_the_coordinator_has_dropped_begins_again(state: ClassicMemberState) -> None:
    assert after(state, ClassicMemberEvent.LOST) is ClassicMemberState.UNJOINED


@for_each("state", BEATING)
def test_a_rebalance_asks_the_user_first(state: ClassicMemberState) -> None:
    assert after(state, ClassicMemberEvent.REBALANCE) is ClassicMemberState.PREPARING
    assert (
        after(state, ClassicMemberEvent.REBALANCE, ClassicMemberEvent.JOINED) is ClassicMemberState.PREPARING
    )
