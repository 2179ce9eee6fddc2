"""Of the state of one group in two partitions the newer stays, and an interrupted move ends as any other."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.records.control import EndMarker
from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.classic_groups.changes import (
    GenerationChange,
    GroupMetadataValue,
)
from tidelog.plugins.coordinator.consumer_groups.group_changes import (
    ConsumerGroupChange,
    EpochChange,
    TargetEpochChange,
)
from tidelog.plugins.coordinator.consumer_groups.member import CurrentAssignment, MemberMetadata
from tidelog.plugins.coordinator.consumer_groups.member_changes import (
    CurrentChange,
    MemberChange,
    TargetChange,
)
from tidelog.plugins.coordinator.group_relocation import GroupRelocation
from tidelog.plugins.coordinator.log import LoadedBatch, StateRecord
from tidelog.plugins.coordinator.log.log_image import LogImage
from tidelog.plugins.coordinator.log.relocation import Copies, Move
from tidelog.plugins.coordinator.offsets.changes import OffsetChange
from tidelog.plugins.coordinator.transactions.relocation import Outcome

SOURCE, TARGET = 1, 2
GROUP = "group"


@attrs.define
class FakeTransactions:
    """Every producer's transaction stands as it is told; notes what has to include a partition."""

    outcomes: dict[int, Outcome] = attrs.field(factory=dict[int, Outcome])
    included: list[tuple[int, TopicPartition]] = attrs.field(factory=list[tuple[int, TopicPartition]])

    async def outcome(self, producer_id: int, place: TopicPartition) -> Outcome:
        self.included.append((producer_id, place))
        return self.outcomes.get(producer_id, Outcome.OPEN)


@attrs.define
class FakePartition:
    """The batches of a partition."""

    batches: list[LoadedBatch] = attrs.field(factory=list[LoadedBatch])
    end: int = 0

    def write(
        self, timestamp_ms: int, records: Sequence[StateRecord], producer: tuple[int, int] | None = None
    ) -> None:
        producer_id, epoch = producer or (-1, -1)
        batch = LoadedBatch(
            self.end, list(records), producer_id, epoch, producer is not None, timestamp_ms=timestamp_ms
        )
        self.batches.append(batch)
        self.end += len(records)

    def mark(self, producer_id: int, *, commit: bool) -> None:
        self.batches.append(LoadedBatch(self.end, (), producer_id, 0, True, EndMarker(commit, 0)))
        self.end += 1

    def image(self) -> LogImage:
        image = LogImage()
        for batch in self.batches:
            image.apply(batch)
        return image

    def values(self) -> dict[bytes, bytes]:
        return {key: value for key, _, value in self.image().live()}

    def pending(self) -> dict[int, dict[bytes, bytes]]:
        return {
            producer_id: {key: entry.value for key, entry in held.items()}
            for producer_id, held in self.image().pending.items()
        }

    def copy(self) -> FakePartition:
        return FakePartition(list(self.batches), self.end)


def offset(place: int, value: int | None) -> StateRecord:
    """The record of a committed offset; None for a tombstone."""
    committed = None if value is None else CommittedOffset(value, -1, "", value)
    return OffsetChange(GROUP, ("topic", place), committed).to_record()


def classic(generation: int) -> StateRecord:
    """The record of a classic group."""
    value = GroupMetadataValue(
        protocol_type="consumer", generation=generation, protocol=None, leader=None, members=[]
    )
    return GenerationChange(GROUP, value).to_record()


def consumer(epoch: int, *members: str) -> list[StateRecord]:
    """The records of a group of the consumer protocol."""
    found: list[ConsumerGroupChange] = [
        MemberChange(GROUP, member, MemberMetadata("c")) for member in members
    ]
    found += [EpochChange(GROUP, epoch)]
    found += [TargetChange(GROUP, member, {}) for member in members]
    found += [TargetEpochChange(GROUP, epoch)]
    found += [CurrentChange(GROUP, member, CurrentAssignment(epoch)) for member in members]
    return [change.to_record() for change in found]


def move(source: FakePartition, target: FakePartition, transactions: FakeTransactions | None = None) -> Move:
    """Decide what goes over."""
    policy = GroupRelocation(lambda _: TARGET, transactions or FakeTransactions())
    return trio.run(policy.plan, SOURCE, source.image(), TARGET, target.image())


def steps(found: Move) -> list[Copies]:
    """Each write of a move, as small as it may be: first the copies, then what is removed at the source."""
    copies = [
        Copies(each.timestamp_ms, [record], each.producer) for each in found.copies for record in each.records
    ]
    return [*copies, *(Copies(0, [StateRecord(key, None)]) for key in found.removed)]


def carry_out(source: FakePartition, target: FakePartition, found: Move, count: int | None = None) -> None:
    """Write what was decided, or only the first `count` batches of it."""
    for number, each in enumerate(steps(found)[:count]):
        copying = number < sum(len(copies.records) for copies in found.copies)
        (target if copying else source).write(*each)


def moved(source: FakePartition, target: FakePartition) -> dict[bytes, bytes]:
    """What is there afterwards; nothing is left at the source."""
    carry_out(source, target, move(source, target))
    assert source.values() == {}
    return target.values()


def test_of_two_offsets_the_newer_stays() -> None:
    source, target = FakePartition(), FakePartition()
    source.write(100, [offset(0, 1), offset(1, 1), offset(2, 1), offset(3, 1)])
    target.write(99, [offset(0, 2)])
    target.write(101, [offset(1, 2), offset(2, None)])
    assert moved(source, target) == dict([offset(0, 1), offset(1, 2), offset(3, 1)])


def test_of_two_groups_the_newer_stays_as_a_whole() -> None:
    for source_ms in (99, 101):
        source, target = FakePartition(), FakePartition()
        source.write(source_ms, consumer(5, "a", "b"))
        target.write(100, [*consumer(9, "b", "c"), offset(0, 1)])
        expected = consumer(5, "a", "b") if source_ms > 100 else consumer(9, "b", "c")
        assert moved(source, target) == dict([*expected, offset(0, 1)])


def test_a_group_of_another_kind_goes_as_well() -> None:
    source, target = FakePartition(), FakePartition()
    source.write(101, [classic(3)])
    target.write(100, consumer(9, "b"))
    assert moved(source, target) == dict([classic(3)])


def test_plan_drops_a_group_that_has_a_newer_tombstone_in_the_target() -> None:
    source, target = FakePartition(), FakePartition()
    source.write(100, [classic(3)])
    target.write(99, [classic(1)])
    target.write(101, [GenerationChange(GROUP, None).to_record()])
    assert moved(source, target) == {}


def test_plan_removes_members_before_their_group_and_after_their_assignments() -> None:
    source, target = FakePartition(), FakePartition()
    source.write(100, [classic(1), *consumer(5, "a", "b")])
    kinds = [key[1] for key in move(source, target).removed]
    assert kinds == [8, 8, 7, 7, 6, 5, 5, 3, 2]


def test_what_is_pending_goes_into_the_same_transaction() -> None:
    source, target, transactions = FakePartition(), FakePartition(), FakeTransactions()
    source.write(100, [offset(0, 1), offset(1, 1)])
    source.write(101, [offset(0, 7)], (5, 3))
    carry_out(source, target, move(source, target, transactions))
    assert transactions.included == [(5, TopicPartition("__consumer_offsets", TARGET))]
    assert (target.values(), target.pending()) == (
        dict([offset(0, 1), offset(1, 1)]),
        {5: dict([offset(0, 7)])},
    )
    source.mark(5, commit=True)
    target.mark(5, commit=True)
    assert (source.values(), target.values()) == ({}, dict([offset(0, 7), offset(1, 1)]))


def test_plan_resolves_pending_offsets_of_decided_transactions() -> None:
    for outcome, expected in (
        (Outcome.COMMITTED, [offset(0, 7), offset(1, 1)]),
        (Outcome.ABORTED, [offset(0, 1), offset(1, 1)]),
    ):
        source, target = FakePartition(), FakePartition()
        source.write(100, [offset(0, 1), offset(1, 1)])
        source.write(101, [offset(0, 7)], (5, 3))
        carry_out(source, target, move(source, target, FakeTransactions({5: outcome})))
        source.mark(5, commit=outcome is Outcome.COMMITTED)
        assert (source.values(), target.values(), target.pending()) == ({}, dict(expected), {})


def test_plan_leaves_pending_offsets_of_unknown_outcome_until_the_marker_is_written() -> None:
    source, target = FakePartition(), FakePartition()
    source.write(100, [offset(0, 1), offset(1, 1)])
    source.write(101, [offset(0, 7)], (5, 3))
    carry_out(source, target, move(source, target, FakeTransactions({5: Outcome.UNKNOWN})))
    assert source.pending() == {5: dict([offset(0, 7)])}
    source.mark(5, commit=True)
    assert moved(source, target) == dict([offset(0, 7), offset(1, 1)])


def test_a_later_commit_outlives_what_was_pending_before() -> None:
    source, target = FakePartition(), FakePartition()
    source.write(100, [offset(0, 7), offset(1, 7)], (5, 3))
    source.write(101, [offset(0, 8)], (6, 0))
    source.mark(6, commit=True)
    source.write(102, [offset(1, 9)])
    carry_out(source, target, move(source, target))
    assert (target.values(), target.pending()) == (dict([offset(0, 8), offset(1, 9)]), {})


def test_plan_repeated_after_interruptions_replaces_the_older_group() -> None:
    source, target = FakePartition(), FakePartition()
    source.write(100, consumer(5, "a", "b"))
    source.write(101, [offset(0, 7)], (5, 3))
    target.write(99, [classic(1), *consumer(9, "b", "c", "d")])
    count = len(steps(move(source, target)))
    for first in range(count):
        for second in range(count):
            ours, theirs = source.copy(), target.copy()
            for until in (first, second, None):
                carry_out(ours, theirs, move(ours, theirs), until)
            assert theirs.values() == dict(consumer(5, "a", "b")), (first, second)
            assert theirs.pending() == {5: dict([offset(0, 7)])}
            assert (ours.values(), ours.pending()) == ({}, {})


PRODUCERS = (5, 6)
VALUES = st.integers(0, 3)
OFFSETS = st.builds(offset, st.integers(0, 2), st.none() | VALUES)
MEMBERS = st.sets(st.sampled_from("abc"))
GROUPS = st.one_of(
    st.builds(lambda generation: [classic(generation)], VALUES),
    st.builds(lambda epoch, members: consumer(epoch, *sorted(members)), VALUES, MEMBERS),
    st.just([StateRecord(record.key, None) for record in consumer(0, "a", "b", "c")]),
)
WRITES = st.one_of(
    st.tuples(st.just("write"), st.one_of(st.lists(OFFSETS, min_size=1), GROUPS)),
    st.tuples(st.sampled_from(PRODUCERS), st.lists(st.builds(offset, st.integers(0, 2), VALUES), min_size=1)),
    st.tuples(st.just("mark"), st.sampled_from(PRODUCERS)),
)


def build(writes: Sequence[tuple[object, object]], time_ms: int, *, transactional: bool) -> FakePartition:
    """A partition as brokers write it; time goes on."""
    partition = FakePartition()
    for kind, what in writes:
        time_ms += 2
        if kind == "mark":
            partition.mark(what, commit=True)  # type: ignore[arg-type]
        elif kind == "write":
            partition.write(time_ms, what)  # type: ignore[arg-type]
        elif transactional:
            partition.write(time_ms, what, (kind, 0))  # type: ignore[arg-type]
    return partition


@given(
    st.lists(WRITES, max_size=8),
    st.lists(WRITES, max_size=8),
    st.sampled_from((0, 5, 20)),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_plan_repeated_after_interruptions_ends_in_the_same_state(
    at_source: Sequence[tuple[object, object]],
    at_target: Sequence[tuple[object, object]],
    ahead_ms: int,
    first: int,
    second: int,
) -> None:
    source = build(at_source, ahead_ms, transactional=True)
    target = build(at_target, 11, transactional=False)
    ends: list[object] = []
    for interruptions in ((), (first,), (first, second)):
        ours, theirs = source.copy(), target.copy()
        for count in (*interruptions, None):
            carry_out(ours, theirs, move(ours, theirs), count)
        assert (ours.values(), ours.pending()) == ({}, {})
        ends.append((theirs.values(), theirs.pending()))
        again = move(ours, theirs)
        assert (list(again.copies), list(again.removed)) == ([], [])
    assert ends[0] == ends[1] == ends[2]
