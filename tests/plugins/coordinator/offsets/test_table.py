"""The table of offsets: what is loaded as bytes and what is committed are one, whatever the order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.plugins.coordinator.offsets.table import OffsetTable, Place
from tidelog.plugins.coordinator.records.offsets import offset_key, offset_value
from tidelog.plugins.protocol_kafka.codecs import DecodeError

KEY = offset_key("g", "t", 0)
GROUPS = ("", "g", "grüppe")
PLACES: tuple[Place, ...] = (("t", 0), ("t", 1), ("tö", 2**31 - 1))
steps = st.lists(
    st.tuples(
        st.sampled_from(["load", "take away", "commit", "remove", "look", "pass"]),
        st.sampled_from(GROUPS),
        st.sampled_from(PLACES),
        st.integers(0, 99),
    ),
    max_size=60,
)


@given(steps)
def test_the_last_word_counts(script: list[tuple[str, str, Place, int]]) -> None:
    table = OffsetTable()
    model: dict[str, dict[Place, int]] = {group: {} for group in GROUPS}
    first: set[str] = set()
    for what, group, place, offset in script:
        key, committed = offset_key(group, *place), CommittedOffset(offset, 1, "m", 2)
        if what == "load":
            assert (table.load(0, key, offset_value(committed)) == group) == (group not in first)
            first.add(group)
            model[group][place] = offset
        elif what == "take away":
            table.load(0, key, None)
            first.add(group)
            model[group].pop(place, None)
        elif what == "commit":
            table.get(0, group).committed[place] = committed
            model[group][place] = offset
        elif what == "remove":
            table.get(0, group).committed.pop(place, None)
            model[group].pop(place, None)
        else:
            found = table.get(0, group)
            seen = found.committed.items() if what == "look" else found.items()
            assert {there: offset.offset for there, offset in seen} == model[group]
    table.end_loading(0)
    left = {
        group: {there: offset.offset for there, offset in found.items()} for group, found in table.groups(0)
    }
    assert left == {group: offsets for group, offsets in model.items() if offsets}


def test_groups_are_kept_by_partition() -> None:
    table = OffsetTable()
    for partition in (0, 1):
        table.load(partition, offset_key(f"g{partition}", "t", 0), offset_value(CommittedOffset(1)))
        table.end_loading(partition)
    table.get(0, "empty")
    assert list(table.group_ids(0)) == ["g0", "empty"]
    table.drop_if_empty(0, "empty")
    table.drop_if_empty(0, "g0")
    assert list(table.group_ids(0)) == ["g0"]
    assert len(table) == 2
    table.forget(0)
    assert (table.find(0, "g0"), len(table)) == (None, 1)


@pytest.mark.parametrize("value", [b"", b"\0\4", b"\0\7" + bytes(30), bytes(5)])
def test_a_malformed_value_is_refused_and_the_one_before_it_stays(value: bytes) -> None:
    table = OffsetTable()
    table.load(0, offset_key("g", "t", 1), offset_value(CommittedOffset(1)))
    with pytest.raises(DecodeError):
        table.load(0, offset_key("g", "t", 1), value)
    with pytest.raises(DecodeError):
        table.load(0, offset_key("h", "t", 1), value)
    table.end_loading(0)
    assert table.get(0, "g").committed == {("t", 1): CommittedOffset(1)}
    assert table.find(0, "h") is None


@pytest.mark.parametrize(
    "key", [b"\0\1", b"\0\1\0", b"\0\1\xff\xff\0\1t\0\0\0\0", KEY[:-1], KEY + b"x"], ids=bytes.hex
)
def test_a_malformed_key_is_refused(key: bytes) -> None:
    table = OffsetTable()
    with pytest.raises(DecodeError):
        table.load(0, key, offset_value(CommittedOffset(1)))
    with pytest.raises(DecodeError):
        table.load(0, key, None)
    assert table.group_ids(0) == ()


def test_metadata_that_is_not_text_is_left_out_when_it_is_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    table = OffsetTable()
    table.load(0, offset_key("g", "t", 0), offset_value(CommittedOffset(1, -1, "m")).replace(b"m", b"\xff"))
    table.load(0, offset_key("g", "t", 1), offset_value(CommittedOffset(2)))
    assert list(table.get(0, "g").committed) == [("t", 1)]
    assert "malformed" in caplog.text
