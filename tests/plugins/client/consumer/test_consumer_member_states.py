"""The table of the states of a member of the consumer protocol."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.plugins.client.consumer.consumer_member_states import (
    CONSUMER_TRANSITIONS,
    IN_GROUP,
    ConsumerMemberEvent,
    ConsumerMemberState,
)

State, Event = ConsumerMemberState, ConsumerMemberEvent
JOIN = (Event.START, Event.ASSIGNED, Event.RECONCILED, Event.ACKNOWLEDGED)


def after(state: ConsumerMemberState, *events: ConsumerMemberEvent) -> ConsumerMemberState:
    """The state after events, of which those that do not happen there change nothing."""
    for event in events:
        state = CONSUMER_TRANSITIONS.get((state, event), state)
    return state


@given(st.lists(st.sampled_from(ConsumerMemberEvent)))
def test_a_member_joins_and_leaves_whatever_has_happened(events: list[ConsumerMemberEvent]) -> None:
    state = after(State.UNJOINED, *events)
    assert after(state, *JOIN) is State.STABLE
    assert after(state, Event.LEAVE) is State.LEFT


@for_each("state", IN_GROUP)
def test_a_member_that_the_coordinator_has_dropped_begins_again(state: ConsumerMemberState) -> None:
    assert after(state, Event.LOST) is State.UNJOINED
    assert after(state, Event.LOST, Event.START) is State.JOINING


@for_each("state", IN_GROUP)
def test_an_assignment_is_acknowledged_before_the_member_is_stable(state: ConsumerMemberState) -> None:
    assert after(state, Event.ASSIGNED) is State.RECONCILING
    assert after(state, Event.ASSIGNED, Event.ACKNOWLEDGED) is State.RECONCILING
    assert after(state, Event.ASSIGNED, Event.RECONCILED) is State.ACKNOWLEDGING
    assert after(state, Event.ASSIGNED, Event.RECONCILED, Event.ASSIGNED) is State.RECONCILING


def test_a_member_without_an_assignment_is_stable() -> None:
    assert after(State.JOINING, Event.JOINED) is State.STABLE
    # An answer that brings an assignment has said so before.
    assert after(State.RECONCILING, Event.JOINED) is State.RECONCILING


@for_each("state", (State.UNJOINED, State.LEFT))
def test_what_comes_late_changes_nothing(state: ConsumerMemberState) -> None:
    late = set(Event) - {Event.START, Event.LEAVE}
    assert {after(state, event) for event in late} == {state}
