"""Drafts of a consumer group: nothing reaches the group before `merge`, and then all that was changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bad_input.groups_requests import subscription
from tests.plugins.coordinator.consumer_groups.driver import ConsumerGroupDriver, FakeTopics
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.seams.coordination.groups import GroupProtocol, JoinRequest
from tidelog.plugins.coordinator.consumer_groups.draft import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup, ResolvedRegex
from tidelog.plugins.coordinator.consumer_groups.group_records import (
    ConsumerGroupChange,
    EpochChange,
    RegexChange,
)
from tidelog.plugins.coordinator.consumer_groups.machine import classic_requests
from tidelog.plugins.coordinator.consumer_groups.member import (
    ClassicProtocol,
    CurrentAssignment,
    MemberProfile,
)
from tidelog.plugins.coordinator.consumer_groups.member_records import (
    CurrentChange,
    MemberChange,
    TargetChange,
)

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_values

MANY = 1_100
"""Members, more than those of a group that is assigned at once."""
TOPICS = (b"a" * 16, b"b" * 16)

member_ids = st.sampled_from("xyz")
numbers = st.frozensets(st.integers(0, 3))
profiles = st.builds(
    MemberProfile,
    instance_id=st.sampled_from([None, "i", "j"]),
    topic_names=st.frozensets(st.sampled_from(["t", "u"])),
    topic_regex=st.sampled_from([None, "", "r.*"]),
    server_assignor=st.sampled_from([None, "range", "uniform"]),
    classic=st.none()
    | st.builds(
        ClassicProtocol,
        st.just(1),
        st.lists(st.sampled_from([("range", b""), ("sticky", b""), ("range", b"again")])).map(tuple),
    ),
)
owned = st.dictionaries(st.sampled_from(TOPICS), numbers.map(lambda found: dict.fromkeys(found, 1)))
changes: st.SearchStrategy[ConsumerGroupChange] = st.one_of(
    st.builds(MemberChange, st.just("g"), member_ids, st.none() | profiles),
    st.builds(
        CurrentChange,
        st.just("g"),
        member_ids,
        st.none() | st.builds(CurrentAssignment, st.just(1), assigned=owned, revoking=owned),
    ),
    st.builds(TargetChange, st.just("g"), member_ids, st.none() | st.just({TOPICS[0]: frozenset({1})})),
    st.builds(EpochChange, st.just("g"), st.none() | st.integers(1, 5)),
    st.builds(
        RegexChange, st.just("g"), st.just("r.*"), st.none() | st.just(ResolvedRegex(frozenset("r"), 1, 1))
    ),
)


def order_of(group: ConsumerGroup) -> list[list[object]]:
    """The keys of all mappings of a group, in their order."""
    return [[*value] for value in attrs.astuple(group, recurse=False) if isinstance(value, dict)]


@given(st.lists(st.lists(changes, max_size=8), max_size=4), st.sets(st.integers(0, 3)))
def test_merge_does_what_the_changes_do_and_nothing_before(
    drafts: Sequence[Sequence[ConsumerGroupChange]], dropped: set[int]
) -> None:
    group, expected = ConsumerGroup("g"), ConsumerGroup("g")
    for place, some in enumerate(drafts):
        draft = Draft(group)
        for change in some:
            draft.apply(change)
        assert group == expected
        if place in dropped:
            continue
        for change in some:
            change.apply(expected)
        assert dict(draft.group.members) == expected.members
        assert {topic: dict(found) for topic, found in draft.group.owners.items()} == expected.owners
        assert draft.merge() is group
        assert group == expected
        assert order_of(group) == order_of(expected)


@given(st.lists(changes, max_size=20))
def test_what_members_ask_for_is_counted(some: list[ConsumerGroupChange]) -> None:
    group = ConsumerGroup("g")
    for change in some:
        change.apply(group)
    names = [group.subscribed_names(member) for member in group.members.values()]
    assert group.all_subscribed_names() == frozenset().union(*names)
    for name in ("t", "u", "r"):
        assert group.subscribes(name) == any(name in each for each in names)
    votes = [member.metadata.server_assignor for member in group.members.values()]
    preferred = min(
        {"range", "uniform"} & {*votes}, key=lambda name: (-votes.count(name), name or ""), default="d"
    )
    assert group.preferred_assignor("d", ("range", "uniform")) == preferred


@given(st.lists(changes, max_size=20), member_ids, st.sets(st.sampled_from(["range", "sticky", "other"])))
def test_members_of_the_classic_protocol_and_what_they_support_are_counted(
    some: list[ConsumerGroupChange], left_out: str, protocols: set[str]
) -> None:
    group = ConsumerGroup("g")
    for change in some:
        change.apply(group)
    others = [member for member_id, member in group.members.items() if member_id != left_out]
    assert group.only_classic_members([left_out]) == all(member.is_classic for member in others)
    classic = [
        {*map(itemgetter(0), each.metadata.classic.protocols)} for each in others if each.metadata.classic
    ]
    assert group.supports_classic(protocols, left_out) == bool(protocols.intersection(*classic))


class Counted(dict[str, Any]):
    """A dictionary that counts how many of its items are read, one by one or all together."""

    read = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.read += 1
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read += 1
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        self.read += len(self)
        return super().__iter__()

    def values(self) -> dict_values[str, Any]:
        self.read += len(self)
        return super().values()

    def items(self) -> dict_items[str, Any]:
        self.read += len(self)
        return super().items()


@pytest.mark.parametrize(
    "change", ["moves to the next epoch", "has another client id", "joins", "joins as a classic one"]
)
def test_change_of_one_member_reads_no_others(change: str) -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=MANY))
    group, topic = driver.group, driver.topics.id_of("t")
    wants = MemberProfile(topic_names=frozenset("t"), rebalance_timeout_ms=30_000)
    if change == "joins as a classic one":
        wants = attrs.evolve(wants, classic=ClassicProtocol(1, (("range", b""),)))
    for number in range(MANY):
        member_id = f"m{number}"
        group.set_metadata(member_id, wants)
        group.targets[member_id] = {topic: frozenset({number})}
        run_to_end(group.set_current(member_id, CurrentAssignment(1, assigned={topic: {number: 1}})))
    group.members, group.targets = Counted(group.members), Counted(group.targets)
    group.epoch = group.assignment_epoch = 2
    group.topics_version = driver.topics.version
    if change == "joins":
        driver.join("new", "t")
    elif change == "joins as a classic one":
        protocols = [GroupProtocol("range", subscription("t"))]
        request = JoinRequest("g", "new", "consumer", protocols, 1, 1)
        run_to_end(classic_requests.decide_join(group, request, driver.context()))
    else:
        client_id = "c" if change == "has another client id" else ""
        driver.heartbeat("m0", 1, client_id=client_id)
    assert isinstance(group.members, Counted)
    assert isinstance(group.targets, Counted)
    assert 0 < group.members.read < 50
    assert group.targets.read < 10
