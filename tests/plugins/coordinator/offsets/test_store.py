"""`OffsetStore`: the offsets of all partitions of the log, loaded and removed by partition and by group."""

from __future__ import annotations

import pytest

from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.offsets.records import OffsetChange
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.runtime import LoadedBatch, StateRecord
from tidelog.plugins.coordinator.runtime.durable_change import UnreadableRecord

PARTITION = ("t", 0)


class Loaded:
    """A store, and the groups that it began."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.store = OffsetStore(self.begun.append)

    def replay(self, group_id: str, offset: int | None, producer_id: int | None = None) -> None:
        """Load the record of an offset, in a transaction if there is a producer."""
        committed = None if offset is None else CommittedOffset(offset)
        record = OffsetChange(group_id, PARTITION, committed).to_record()
        transactional = producer_id is not None
        batch = LoadedBatch(0, [record], producer_id or -1, is_transactional=transactional)
        self.store.replay(int(group_id[1:]), batch, 0)

    def holds(self, group_id: str) -> bool:
        """Whether the group has committed anything, pending or not."""
        return self.store.table(int(group_id[1:])).has_offsets(group_id)

    def offset(self, group_id: str) -> int | None:
        """What the group has committed."""
        found = self.store.table(int(group_id[1:])).committed(group_id).get(PARTITION)
        return None if found is None else found.offset


@pytest.fixture
def loaded() -> Loaded:
    """A store with offsets in two partitions."""
    loaded = Loaded()
    loaded.replay("g0", 5)
    loaded.replay("g0", 6)
    loaded.replay("g1", 7)
    for partition in (0, 1):
        loaded.store.loaded(partition)
    return loaded


def test_replay_begins_each_group_once(loaded: Loaded) -> None:
    assert loaded.begun == ["g0", "g1"]
    assert (loaded.offset("g0"), loaded.offset("g1")) == (6, 7)


@pytest.mark.parametrize(
    "record",
    [
        StateRecord(b"\0\1\0\1g", None),
        StateRecord(b"\0\1\0\1\xff\0\1t\0\0\0\0", None),
        StateRecord(b"\0\1\0\1g\0\1\xff\0\0\0\0", None),
        StateRecord(OffsetChange("g", PARTITION, None).to_record().key, b"\0\7"),
    ],
)
def test_replay_refuses_what_cannot_be_read(loaded: Loaded, record: StateRecord) -> None:
    with pytest.raises(UnreadableRecord):
        loaded.store.replay(0, LoadedBatch(0, [record]), 0)


@pytest.mark.parametrize(("commit", "offset"), [(True, 9), (False, 6)])
def test_complete_transaction_ends_it_in_one_partition(loaded: Loaded, commit: bool, offset: int) -> None:
    loaded.replay("g0", 9, producer_id=3)
    loaded.replay("g1", 9, producer_id=3)
    assert loaded.offset("g0") == 6
    loaded.store.complete_transaction(0, 3, commit)
    assert (loaded.offset("g0"), loaded.offset("g1")) == (offset, 7)
    assert list(loaded.store.table(1).pending.partitions("g1")) == [PARTITION]


def test_forget_drops_committed_and_pending_offsets(loaded: Loaded) -> None:
    loaded.replay("g0", 9, producer_id=3)
    loaded.store.forget(0)
    assert not loaded.holds("g0")
    assert loaded.offset("g1") == 7
    loaded.store.complete_transaction(0, 3, commit=True)
    assert not loaded.holds("g0")


def test_a_removal_removes_offsets_of_a_group_also_pending_ones(loaded: Loaded) -> None:
    loaded.replay("g1", 9, producer_id=3)
    table = loaded.store.table(1)
    assert list(table.partitions("g1")) == [PARTITION]
    OffsetChange("g1", PARTITION, None).apply(table)
    assert not loaded.holds("g1")
    loaded.store.complete_transaction(1, 3, commit=True)
    assert not loaded.holds("g1")
    assert loaded.holds("g0")
