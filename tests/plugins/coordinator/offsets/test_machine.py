"""Decisions about committed offsets, without a log or a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import attrs
import pytest

from tidelog.kernel.errors import (
    BrokerError,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    StaleMemberEpoch,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.plugins.coordinator.groups.group import ExpiryRule, Group
from tidelog.plugins.coordinator.offsets import machine
from tidelog.plugins.coordinator.offsets.records import OffsetChange
from tidelog.plugins.coordinator.offsets.table import OffsetTable

NOW_MS, RETENTION_MS, METADATA_MAX = 1_000_000, 1_000, 4
TOPIC_ID = UUID(int=7)


class FakeTopics:
    """The topic `t` with two partitions."""

    def find(self, name: str) -> object | None:
        """See `Topics`."""
        return SimpleNamespace(topic_id=TOPIC_ID, partitions=range(2)) if name == "t" else None

    get = find


TOPICS: Any = FakeTopics()


@attrs.define
class FakeGroup(Group):
    """A group that answers as it is told to."""

    refusal: BrokerError | None = None
    subscribed: frozenset[str] = frozenset()
    rule: ExpiryRule | None = attrs.field(factory=ExpiryRule)
    idle: bool = True
    group_id: str = "g"
    partition: int = 0

    def check_commit(self, commit: OffsetCommit) -> None:
        """See `Group`."""
        self.check_delete_offsets()

    def check_fetch(self, fetch: OffsetFetch) -> None:
        """See `Group`."""
        self.check_delete_offsets()

    def check_delete_offsets(self) -> None:
        """See `Group`."""
        if self.refusal is not None:
            raise self.refusal

    def subscribes(self, topic: str) -> bool:
        """See `Group`."""
        return topic in self.subscribed

    def expiry(self) -> ExpiryRule | None:
        """See `Group`."""
        return self.rule

    def is_idle(self) -> bool:
        """See `Group`."""
        return self.idle


def decided(*offsets: OffsetToCommit, group: Group | None = None, **rest: object) -> machine.OffsetDecision:
    """Decide about a commit of these offsets."""
    request = attrs.evolve(OffsetCommit("g", offsets), **rest)  # type: ignore[arg-type]
    return machine.commit_offsets(group, request, TOPICS, METADATA_MAX, NOW_MS)


def table_of(*committed: CommittedOffset) -> OffsetTable:
    """The offsets that the group `g` has committed in the partitions of `t`."""
    table = OffsetTable()
    for index, each in enumerate(committed):
        table.commit("g", ("t", index), each)
    return table


def places(changes: object) -> list[int]:
    """The partitions whose offsets are removed."""
    found: list[int] = []
    for change in changes:  # type: ignore[attr-defined]
        assert isinstance(change, OffsetChange)
        assert (change.group_id, change.topic_partition[0], change.committed) == ("g", "t", None)
        found.append(change.topic_partition[1])
    return found


def test_commit_offsets_returns_the_changes_of_those_that_are_not_refused() -> None:
    errors, changes, is_checked = decided(
        OffsetToCommit("t", 0, 5, metadata="ok"),
        OffsetToCommit("t", 2, 5),
        OffsetToCommit("u", 0, 5),
        OffsetToCommit("t", 1, 6, metadata="large"),
        OffsetToCommit("t", 1, 7, commit_timestamp_ms=3, topic_id=bytes(16)),
    )
    assert [type(error) for error in errors] == [
        type(None),
        UnknownTopicOrPartition,
        UnknownTopicOrPartition,
        OffsetMetadataTooLarge,
        type(None),
    ]
    assert [(change.topic_partition, change.committed) for change in changes] == [
        (("t", 0), CommittedOffset(5, -1, "ok", NOW_MS, -1, TOPIC_ID.bytes)),
        (("t", 1), CommittedOffset(7, -1, "", 3, -1, bytes(16))),
    ]
    assert is_checked


@pytest.mark.parametrize(
    ("retention_ms", "expire_ms"), [(-1, -1), (5, NOW_MS + 5), (2**63 - 1, machine.END_OF_TIME_MS)]
)
def test_commit_offsets_computes_when_offsets_expire(retention_ms: int, expire_ms: int) -> None:
    (change,) = decided(OffsetToCommit("t", 0, 5), retention_time_ms=retention_ms).changes
    assert change.committed is not None
    assert change.committed.expire_timestamp_ms == expire_ms


@pytest.mark.parametrize(
    ("error", "group", "rest"),
    [
        (StaleMemberEpoch, FakeGroup(StaleMemberEpoch("old")), {}),
        (GroupIdNotFound, None, {"generation": 0}),
        (IllegalGeneration, None, {"generation": 0, "knows_epochs": False}),
    ],
)
def test_commit_offsets_of_a_client_that_may_not_commit(
    error: type[BrokerError], group: Group | None, rest: dict[str, object]
) -> None:
    with pytest.raises(error):
        decided(OffsetToCommit("t", 0, 5), group=group, **rest)
    _, changes, is_checked = decided(OffsetToCommit("u", 0, 5), group=group, **rest)
    assert (changes, is_checked) == ((), False)


def test_fetch_offsets_of_a_group_that_is_gone_are_none() -> None:
    table = table_of(CommittedOffset(5))
    request = OffsetFetch("g", {"t": [0]})
    assert run_to_end(machine.fetch_offsets(None, table, request)) == {"t": {0: None}}
    assert run_to_end(machine.fetch_offsets(FakeGroup(), table, request)) == {"t": {0: CommittedOffset(5)}}
    with pytest.raises(StaleMemberEpoch):
        run_to_end(machine.fetch_offsets(FakeGroup(StaleMemberEpoch("old")), table, request))


@pytest.mark.parametrize("require_stable", [False, True])
def test_fetch_offsets_with_pending_ones(require_stable: bool) -> None:
    table = table_of(CommittedOffset(5), CommittedOffset(6))
    table.add_pending(1, 0, "g", ("t", 1), CommittedOffset(7))
    request = OffsetFetch("g", None, require_stable=require_stable)
    fetched = run_to_end(machine.fetch_offsets(FakeGroup(), table, request))["t"]
    assert fetched[0] == CommittedOffset(5)
    assert isinstance(fetched[1], UnstableOffsetCommit if require_stable else CommittedOffset)


def test_delete_offsets_refuses_subscribed_topics_and_removes_what_is_there() -> None:
    table = table_of(CommittedOffset(5))
    partitions = [("t", 0), ("t", 1), ("u", 0)]
    errors, changes, _ = machine.delete_offsets(FakeGroup(), table, partitions, TOPICS)
    assert [type(error) for error in errors] == [type(None), type(None), UnknownTopicOrPartition]
    assert places(changes) == [0]
    subscribed = FakeGroup(subscribed=frozenset("t"))
    errors, changes, _ = machine.delete_offsets(subscribed, table, partitions[:1], TOPICS)
    assert isinstance(errors[0], GroupSubscribedToTopic)
    assert changes == []
    with pytest.raises(NonEmptyGroup):
        machine.delete_offsets(FakeGroup(NonEmptyGroup("members")), table, partitions, TOPICS)


OLD, NEW = NOW_MS - RETENTION_MS, NOW_MS - RETENTION_MS + 1

EXPIRIES: dict[str, tuple[Group | None, list[int], list[int], bool]] = {
    "without a group": (None, [OLD, OLD], [0, 1], True),
    "some of them": (None, [OLD, NEW], [0], False),
    "of an idle group": (FakeGroup(), [OLD, OLD], [0, 1], True),
    "of a group that members are about to join": (FakeGroup(idle=False), [OLD, OLD], [0, 1], False),
    "of a group whose offsets do not expire": (FakeGroup(rule=None), [OLD, OLD], [], False),
    "of a subscribed topic": (FakeGroup(subscribed=frozenset("t")), [OLD, OLD], [], False),
    "since the group is empty": (FakeGroup(rule=ExpiryRule(OLD)), [NEW, NEW], [0, 1], True),
    "since the group is empty, later": (FakeGroup(rule=ExpiryRule(NEW)), [OLD, OLD], [], False),
    "of an idle group without any": (FakeGroup(), [], [], True),
    "without anything": (None, [], [], False),
}


@pytest.mark.parametrize("case", EXPIRIES)
def test_expire_offsets(case: str) -> None:
    group, times, expired, removes_group = EXPIRIES[case]
    table = table_of(*(CommittedOffset(5, commit_timestamp_ms=time) for time in times))
    some = list(table.committed("g").items())
    decision = machine.expire_offsets(group, "g", table, some, NOW_MS, RETENTION_MS)
    assert (places(decision.changes), decision.removes_group) == (expired, removes_group)


def test_expire_offsets_leaves_those_that_a_transaction_may_still_move() -> None:
    table = table_of(CommittedOffset(5, commit_timestamp_ms=OLD), CommittedOffset(6, commit_timestamp_ms=OLD))
    table.add_pending(1, 0, "g", ("t", 1), CommittedOffset(7))
    some = list(table.committed("g").items())
    decision = machine.expire_offsets(None, "g", table, some, NOW_MS, RETENTION_MS)
    assert (places(decision.changes), decision.removes_group) == ([0], False)


@pytest.mark.parametrize(("expire_ms", "expired"), [(NOW_MS, [0]), (NOW_MS + 1, [])])
def test_expire_offsets_by_the_time_that_the_client_chose(expire_ms: int, expired: list[int]) -> None:
    table = table_of(CommittedOffset(5, commit_timestamp_ms=OLD, expire_timestamp_ms=expire_ms))
    some = list(table.committed("g").items())
    assert places(machine.expire_offsets(None, "g", table, some, NOW_MS, RETENTION_MS).changes) == expired


def test_drop_offsets_in_a_deleted_topic_but_not_in_a_newer_one_of_its_name() -> None:
    topic: Any = SimpleNamespace(name="t", topic_id=TOPIC_ID)
    committed = [
        CommittedOffset(1, topic_id=TOPIC_ID.bytes, commit_timestamp_ms=NOW_MS + 1),
        CommittedOffset(1, topic_id=bytes(16), commit_timestamp_ms=NOW_MS),
        CommittedOffset(1, commit_timestamp_ms=NOW_MS),
        CommittedOffset(1, commit_timestamp_ms=NOW_MS + 1),
    ]
    some = [(("t", index), each) for index, each in enumerate(committed)] + [(("u", 0), committed[0])]
    decision = machine.drop_offsets_in(topic, "g", some, NOW_MS)
    assert (places(decision.changes), decision.removes_group) == ([0, 2], False)
