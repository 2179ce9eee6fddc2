"""Members of a classic group: identities, shared protocols, the leader, and requests that wait."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping

import pytest

from tests.plugins.coordinator.classic_groups.driver import REBALANCE_MS, SESSION_MS, Answer
from tests.tables import for_each
from tidelog.kernel.errors import FencedInstanceId, NotCoordinator, UnknownMemberId
from tidelog.kernel.seams.coordination.groups import GroupProtocol, Joined, Synced
from tidelog.plugins.coordinator.classic_groups.members import ClassicGroupMember, Members, by_name


def member(
    member_id: str, *protocols: str, instance: str | None = None, joins: Answer[Joined] | None = None
) -> ClassicGroupMember:
    metadata: Mapping[str, bytes] = dict.fromkeys(protocols or ("range",), b"")
    return ClassicGroupMember(
        member_id, instance, "c", "/127.0.0.1", SESSION_MS, REBALANCE_MS, metadata, awaiting_join=joins
    )


def members(*of: ClassicGroupMember) -> Members:
    found = Members("g")
    for each in of:
        found.add(each)
    return found


def test_is_static_with_an_instance_id_even_an_empty_one() -> None:
    assert [member("a", instance=instance).is_static for instance in (None, "", "i")] == [False, True, True]


@for_each(
    ("deadline_ms", "now_ms", "overdue"),
    [(None, 10**15, False), (1000, 999, False), (1000, 1000, True), (1000, 1001, True), (0, 0, True)],
)
def test_is_overdue_from_its_deadline_on(deadline_ms: int | None, now_ms: int, overdue: bool) -> None:
    found = member("a")
    found.deadline_ms = deadline_ms
    assert found.is_overdue(now_ms) is overdue


@for_each("joins", [False, True])
@for_each("syncs", [False, True])
def test_is_excused_while_a_request_waits_unless_it_is_new(joins: bool, syncs: bool) -> None:
    found = member("a", joins=Answer() if joins else None)
    found.awaiting_sync = Answer() if syncs else None
    assert found.is_excused() is (joins or syncs)
    found.is_new = True
    assert not found.is_excused()


def test_by_name_keeps_the_order_of_preference_and_the_first_of_duplicates() -> None:
    protocols = [GroupProtocol("y", b"1"), GroupProtocol("x", b"2"), GroupProtocol("y", b"3")]
    assert list(by_name(protocols).items()) == [("y", b"1"), ("x", b"2")]
    assert by_name([]) == {}


def test_members_without_an_assignment_have_no_bytes_and_are_told_apart_by_identity() -> None:
    first, second = member("a"), member("a")
    assert (first.assignment, first != second, len({first, second})) == (b"", True, 2)


def test_check_identifies_a_static_member_by_both_of_its_ids() -> None:
    found = members(member("dynamic"), member("static", instance="i"))
    assert found.check("dynamic", None).member_id == "dynamic"
    assert found.check("static", "i").member_id == "static"
    with pytest.raises(FencedInstanceId):
        found.check("dynamic", "i")
    with pytest.raises(UnknownMemberId, match="no instance 'j'"):
        found.check("static", "j")
    with pytest.raises(UnknownMemberId, match="no member 'nobody'"):
        found.check("nobody", None)


def test_add_makes_the_first_member_the_leader_and_ends_its_pending_id() -> None:
    found = Members("g")
    found.pending["b"] = 1
    found.add(member("a"))
    found.add(member("b"))
    assert (list(found), found.leader, found.pending) == (["a", "b"], "a", {})


def test_remove_answers_the_requests_of_the_member_and_passes_its_leadership_on() -> None:
    joins, syncs = Answer[Joined](), Answer[Synced]()
    leader = member("a", instance="i", joins=joins)
    leader.awaiting_sync = syncs
    found = members(leader, member("b"))
    found.remove(leader)
    answers = dict(found.take_answers())
    assert isinstance(answers[joins], UnknownMemberId)
    assert isinstance(answers[syncs], UnknownMemberId)
    assert (list(found), found.leader, found.by_instance, found.awaiting_joins) == (["b"], "b", {}, 0)
    found.remove(found["b"])
    assert (len(found), found.leader) == (0, None)


def test_rename_keeps_the_instance_and_the_leadership() -> None:
    found = members(member("old", instance="i"), member("other"))
    found.rename(found["old"], "new")
    assert (set(found), found.leader, found.by_instance) == ({"new", "other"}, "new", {"i": "new"})
    assert found.check("new", "i").member_id == "new"


@pytest.mark.parametrize(
    ("joined", "leader"), [(("a", "b"), "a"), (("b", "c"), "b"), (("c",), "c"), ((), None)]
)
def test_elect_leader_chooses_the_first_member_that_joined(joined: tuple[str, ...], leader: str) -> None:
    found = members(*(member(each, joins=Answer() if each in joined else None) for each in "abc"))
    assert found.elect_leader() == (leader is not None)
    assert found.leader == (leader or "a")


def test_elect_leader_keeps_a_leader_that_joined() -> None:
    found = members(*(member(each, joins=Answer()) for each in "abc"))
    found.leader = "b"
    assert found.elect_leader()
    assert found.leader == "b"


def test_elect_leader_without_members_finds_none() -> None:
    found = Members("g")
    assert not found.elect_leader()
    assert found.leader is None


@pytest.mark.parametrize(
    ("protocols", "selected"),
    [
        ((("x", "y"), ("y", "x"), ("y", "x")), "y"),  # the one that most prefer
        ((("x", "y"), ("x", "z"), ("z", "x")), "x"),  # preferred by one, and the only one that all support
        ((("z", "x"), ("z", "x"), ("y", "x")), "x"),  # one that most prefer does not count if one lacks it
    ],
)
def test_select_protocol_is_the_preferred_one_that_all_support(
    protocols: tuple[tuple[str, ...], ...], selected: str
) -> None:
    found = members(*(member(str(number), *names) for number, names in enumerate(protocols)))
    assert found.select_protocol() == selected


def test_all_support_one_of_follows_set_protocols_and_remove() -> None:
    found = members(member("a", "x", "y"), member("b", "y", "z"))
    assert found.all_support_one_of(["y"])
    assert not found.all_support_one_of(["x", "z"])
    found.set_protocols(found["b"], {"x": b"2"})
    assert found.all_support_one_of(["z", "x"])
    assert not found.all_support_one_of(["y"])
    found.remove(found["b"])
    assert found.all_support_one_of(["y"])
    assert found.all_support_one_of(["x"])
    assert not found.all_support_one_of(["z"])
    assert not found.all_support_one_of([])


class Name(str):
    """A protocol's name whose end of life can be seen."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "changes its protocols"])
def test_members_forget_the_protocols_that_nobody_supports_any_more(leaves: bool) -> None:
    """A client that invents new names all the time does not fill the memory."""
    name = Name("invented")
    found = members(member("a", "x"), member("b", name))
    gone = weakref.ref(name)
    del name
    if leaves:
        found.remove(found["b"])
    else:
        found.set_protocols(found["b"], {"x": b""})
    gc.collect()
    assert gone() is None


def counted(found: Members) -> tuple[int, bool]:
    return found.awaiting_joins, found.all_joined


def test_all_joined_counts_every_request_once_and_waits_for_pending_members() -> None:
    found = members(member("a", joins=Answer()))
    assert counted(found) == (1, True)
    found.add(member("b"))
    assert counted(found) == (1, False)
    answer = Answer[Joined]()
    found.await_join(found["b"], answer)
    assert counted(found) == (2, True)
    found.pending["c"] = 1
    assert counted(found) == (2, False)
    found.pending.clear()
    found.answer_join(found["b"], NotCoordinator("moved"))
    found.answer_join(found["b"], NotCoordinator("again"))
    (answered,) = found.take_answers()
    assert answered.reply is answer
    assert isinstance(answered.outcome, NotCoordinator)
    assert answer.waits, "it is given once what was decided is written"
    assert counted(found) == (1, False)


def test_answer_sync_reports_whether_a_request_waited() -> None:
    waiting = member("a")
    waiting.awaiting_sync = answer = Answer[Synced]()
    found = members(waiting)
    assert found.answer_sync(waiting, synced := Synced("consumer", "range", b"share"))
    assert not found.answer_sync(waiting, NotCoordinator("again"))
    assert found.take_answers() == [(answer, synced)]
    assert found.take_answers() == []


def test_rebalance_timeout_ms_is_the_longest_of_the_members() -> None:
    patient = member("b")
    patient.rebalance_timeout_ms = REBALANCE_MS + 1
    assert members(member("a"), patient, member("c")).rebalance_timeout_ms == REBALANCE_MS + 1
    assert Members("g").rebalance_timeout_ms == 0
