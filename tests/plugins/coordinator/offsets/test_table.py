"""`OffsetTable`: what is loaded as bytes and what is committed agree, whatever the order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.offsets.records import OffsetChange, PartitionKey
from tidelog.plugins.coordinator.offsets.table import OffsetTable
from tidelog.plugins.schema import DecodeError

KEY, _value = OffsetChange("g", ("t", 0), CommittedOffset(1, -1, "m")).to_record()
VALUE = _value or b""
GROUPS = ("", "g", "grüppe")
PARTITIONS: tuple[PartitionKey, ...] = (("t", 0), ("t", 1), ("tö", 2**31 - 1))
steps = st.lists(
    st.tuples(
        st.sampled_from(["load", "take away", "commit", "remove", "look", "pass"]),
        st.sampled_from(GROUPS),
        st.sampled_from(PARTITIONS),
        st.integers(0, 99),
    ),
    max_size=60,
)


def load(table: OffsetTable, group: str, tp: PartitionKey, committed: CommittedOffset | None) -> str | None:
    """Load the record of an offset, or its tombstone."""
    return table.load(*OffsetChange(group, tp, committed).to_record())


@given(steps)
def test_load_and_commit_and_remove_in_any_order(script: list[tuple[str, str, PartitionKey, int]]) -> None:
    table = OffsetTable()
    model: dict[str, dict[PartitionKey, int]] = {group: {} for group in GROUPS}
    first: set[str] = set()
    for what, group, tp, offset in script:
        committed = CommittedOffset(offset, 1, "m", 2)
        if what == "load":
            assert (load(table, group, tp, committed) == group) == (group not in first)
            first.add(group)
            model[group][tp] = offset
        elif what == "take away":
            load(table, group, tp, None)
            first.add(group)
            model[group].pop(tp, None)
        elif what == "commit":
            OffsetChange(group, tp, committed).apply(table)
            model[group][tp] = offset
        elif what == "remove":
            OffsetChange(group, tp, None).apply(table)
            model[group].pop(tp, None)
        else:
            found = table.find(group)
            if found is not None and what == "look":
                looked_up = found.get(tp)
                assert (looked_up and looked_up.offset) == model[group].get(tp)
            seen = () if found is None else found.items()
            assert {there: offset.offset for there, offset in seen} == model[group]
            assert set(found.partitions() if found else ()) == model[group].keys()
    table.end_loading()
    for group in GROUPS:
        assert {there: offset.offset for there, offset in table.committed(group).items()} == model[group]
    assert set(table.group_ids()) == {group for group, offsets in model.items() if offsets}
    assert len(table) == sum(map(len, model.values()))


def test_end_loading_drops_groups_of_which_only_tombstones_are_left() -> None:
    table = OffsetTable()
    for group, committed in (("g", CommittedOffset(1)), ("gone", None)):
        load(table, group, ("t", 0), committed)
    assert list(table.group_ids()) == ["g", "gone"]
    table.end_loading()
    assert list(table.group_ids()) == ["g"]
    assert table.find("gone") is None


def test_has_offsets_counts_pending_offsets() -> None:
    table = OffsetTable()
    change = OffsetChange("g", ("t", 0), CommittedOffset(1))
    assert not table.has_offsets("g")
    change.apply_pending(table, 7, 0)
    assert table.has_offsets("g")
    assert (list(table.partitions("g")), table.count("g")) == ([("t", 0)], 1)
    table.complete_transaction(7, commit=False)
    assert not table.has_offsets("g")
    change.apply(table)
    assert table.has_offsets("g")
    OffsetChange("g", ("t", 0), None).apply(table)
    assert (table.find("g"), len(table)) == (None, 0)


@pytest.mark.parametrize("value", [b"", b"\0\4", b"\0\7" + bytes(30), bytes(5)])
def test_load_refuses_a_malformed_value_and_the_one_before_it_stays(value: bytes) -> None:
    table = OffsetTable()
    load(table, "g", ("t", 1), CommittedOffset(1))
    with pytest.raises(DecodeError):
        table.load(OffsetChange("g", ("t", 1), None).to_record().key, value)
    with pytest.raises(DecodeError):
        table.load(OffsetChange("h", ("t", 1), None).to_record().key, value)
    table.end_loading()
    assert list(table.committed("g").items()) == [(("t", 1), CommittedOffset(1))]
    assert table.find("h") is None


@pytest.mark.parametrize(
    "key", [b"\0\1", b"\0\1\0", b"\0\1\xff\xff\0\1t\0\0\0\0", KEY[:-1], KEY + b"x"], ids=bytes.hex
)
def test_load_refuses_a_malformed_key(key: bytes) -> None:
    table = OffsetTable()
    with pytest.raises(DecodeError):
        table.load(key, VALUE)
    with pytest.raises(DecodeError):
        table.load(key, None)
    assert table.group_ids() == ()


def test_committed_leaves_out_metadata_that_is_not_utf_8(caplog: pytest.LogCaptureFixture) -> None:
    table = OffsetTable()
    table.load(KEY, VALUE.replace(b"m", b"\xff"))
    load(table, "g", ("t", 1), CommittedOffset(2))
    assert [tp for tp, _ in table.committed("g").items()] == [("t", 1)]
    assert "malformed" in caplog.text
