"""Leader epochs: assigning, where an epoch ends, truncation at both ends, and the checkpoint file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.leader_epochs import CorruptEpochCheckpoint, LeaderEpochLineage

Entries = list[tuple[int, int]]
LINEAGE: Entries = [(0, 0), (3, 100), (4, 250)]
LOG_END = 400

steps = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 90)), max_size=6)


@st.composite
def lineages(draw: st.DrawFn) -> Entries:
    """Any lineage: epochs and offsets that grow."""
    epoch, offset = -1, -1
    entries: Entries = []
    for epochs_on, offsets_on in draw(steps):
        epoch, offset = epoch + epochs_on, offset + offsets_on
        entries.append((epoch, offset))
    return entries


def lineage(entries: Entries) -> LeaderEpochLineage:
    """The lineage with these entries."""
    epochs = LeaderEpochLineage()
    for epoch, start in entries:
        assert epochs.assign(epoch, start)
    return epochs


def test_leader_epochs_are_empty_at_first() -> None:
    epochs = LeaderEpochLineage()
    assert epochs.latest == -1
    assert epochs.entries() == []
    assert epochs.first_offset == -1
    assert epochs.end_offset_for(0, LOG_END) == (-1, -1)
    assert epochs.epoch_for(0) == -1


@given(lineages())
def test_first_offset_is_the_start_of_the_oldest_epoch(entries: Entries) -> None:
    assert lineage(entries).first_offset == (entries[0][1] if entries else -1)


@pytest.mark.parametrize(
    ("epoch", "start", "entries"),
    [
        (5, 300, [*LINEAGE, (5, 300)]),
        (4, 300, LINEAGE),
        (2, 300, LINEAGE),
        (0, 0, LINEAGE),
        (5, 250, [(0, 0), (3, 100), (5, 250)]),
        (9, 120, [(0, 0), (3, 100), (9, 120)]),
        (9, 0, [(9, 0)]),
    ],
    ids=["newer", "the newest again", "skipped", "known", "same start", "earlier start", "all replaced"],
)
def test_assign(epoch: int, start: int, entries: Entries) -> None:
    epochs = lineage(LINEAGE)
    assert epochs.assign(epoch, start) == (entries != LINEAGE)
    assert epochs.entries() == entries


@for_each(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 100)),
        (1, (0, 100)),
        (2, (0, 100)),
        (3, (3, 250)),
        (4, (4, LOG_END)),
        (5, (-1, -1)),
        (2**31 - 1, (-1, -1)),
    ],
)
def test_end_offset_for_an_epoch(asked: int, answer: tuple[int, int]) -> None:
    assert lineage(LINEAGE).end_offset_for(asked, LOG_END) == answer


def test_end_offset_for_an_epoch_before_the_first() -> None:
    assert lineage([(3, 100), (4, 250)]).end_offset_for(1, LOG_END) == (1, 100)


@for_each(("offset", "epoch"), [(0, 0), (99, 0), (100, 3), (249, 3), (250, 4), (10_000, 4), (-1, -1)])
def test_epoch_for_gives_the_epoch_of_an_offset(offset: int, epoch: int) -> None:
    assert lineage(LINEAGE).epoch_for(offset) == epoch


@for_each(
    ("offset", "entries"),
    [
        (400, LINEAGE),
        (251, LINEAGE),
        (250, [(0, 0), (3, 100)]),
        (101, [(0, 0), (3, 100)]),
        (100, [(0, 0)]),
        (0, []),
    ],
)
def test_truncate_from_end(offset: int, entries: Entries) -> None:
    epochs = lineage(LINEAGE)
    assert epochs.truncate_from_end(offset) == (entries != LINEAGE)
    assert epochs.entries() == entries


@for_each(
    ("offset", "entries"),
    [
        (0, LINEAGE),
        (1, [(0, 1), (3, 100), (4, 250)]),
        (99, [(0, 99), (3, 100), (4, 250)]),
        (100, [(3, 100), (4, 250)]),
        (249, [(3, 249), (4, 250)]),
        (400, [(4, 400)]),
    ],
)
def test_truncate_from_start(offset: int, entries: Entries) -> None:
    epochs = lineage(LINEAGE)
    assert epochs.truncate_from_start(offset) == (entries != LINEAGE)
    assert epochs.entries() == entries


def test_truncate_from_start_before_the_first_epoch_changes_nothing() -> None:
    epochs = lineage([(3, 100)])
    assert not epochs.truncate_from_start(50)
    assert epochs.entries() == [(3, 100)]


@given(lineages(), st.integers(0, 500))
def test_truncate_from_end_and_truncate_from_start_keep_epochs_of_remaining_offsets(
    entries: Entries, offset: int
) -> None:
    before = lineage(entries)
    from_end, from_start = lineage(entries), lineage(entries)
    from_end.truncate_from_end(offset)
    from_start.truncate_from_start(offset)
    for at in range(0, 500, 7):
        if at < offset:
            assert from_end.epoch_for(at) == before.epoch_for(at)
        else:
            assert from_start.epoch_for(at) == before.epoch_for(at)


@given(lineages(), st.integers(0, 500))
def test_latest_is_the_epoch_of_the_newest_remaining_offset(entries: Entries, offset: int) -> None:
    """Truncated epochs may be assigned again, at another offset."""
    from_end, from_start = lineage(entries), lineage(entries)
    from_end.truncate_from_end(offset)
    from_start.truncate_from_start(offset)
    assert from_end.latest == from_end.epoch_for(offset)
    assert from_start.latest == (entries[-1][0] if entries else -1)


@given(lineages(), st.integers(0, 12))
def test_end_offset_for_is_the_start_offset_of_the_next_epoch(entries: Entries, asked: int) -> None:
    """The definition, spelled out slowly."""
    newest = entries[-1][0] if entries else -1
    if asked > newest:
        expected = (-1, -1)
    elif asked == newest:
        expected = (asked, LOG_END)
    else:
        known = [epoch for epoch, _ in entries if epoch <= asked]
        expected = (known[-1] if known else asked, next(start for epoch, start in entries if epoch > asked))
    assert lineage(entries).end_offset_for(asked, LOG_END) == expected


def test_encode_writes_the_text_of_a_leader_epoch_checkpoint() -> None:
    assert lineage(LINEAGE).encode() == b"0\n3\n0 0\n3 100\n4 250\n"
    assert LeaderEpochLineage().encode() == b"0\n0\n"


@given(lineages())
def test_decode_reads_back_what_encode_wrote(entries: Entries) -> None:
    assert LeaderEpochLineage.decode(lineage(entries).encode()).entries() == entries


def test_decode_reads_the_largest_epoch_and_offset() -> None:
    largest = [(2**31 - 1, 2**63 - 1)]
    assert LeaderEpochLineage.decode(lineage(largest).encode()).entries() == largest


@pytest.mark.parametrize("content", [b"0\n1\n0 77\n", b"0\n1\n0 77"])
def test_decode_reads_the_checkpoint_of_a_log_after_delete_records(content: bytes) -> None:
    """What Kafka leaves after DeleteRecords, with and without the last line's end."""
    assert LeaderEpochLineage.decode(content).entries() == [(0, 77)]


MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "one line": b"0",
    "no count": b"0\n",
    "another version": b"1\n0\n",
    "not a version": b"x\n0\n",
    "not a count": b"0\nx\n",
    "fewer entries than counted": b"0\n2\n0 0\n",
    "more entries than counted": b"0\n1\n0 0\n1 5\n",
    "one number": b"0\n1\n0\n",
    "three numbers": b"0\n1\n0 0 0\n",
    "not a number": b"0\n1\n0 x\n",
    "a float": b"0\n1\n0 1.5\n",
    "epochs that fall": b"0\n2\n3 0\n2 5\n",
    "an epoch twice": b"0\n2\n3 0\n3 5\n",
    "offsets that fall": b"0\n2\n1 5\n2 4\n",
    "offsets that fall at the end": b"0\n3\n0 0\n1 10\n2 5\n",
    "an offset twice": b"0\n2\n1 5\n2 5\n",
    "a negative epoch": b"0\n1\n-1 0\n",
    "a negative offset": b"0\n1\n0 -1\n",
    "an epoch beyond 32 bits": b"0\n1\n2147483648 0\n",
    "an offset beyond 64 bits": b"0\n1\n0 9223372036854775808\n",
    "a number of 5000 digits": b"0\n1\n0 " + b"9" * 5000 + b"\n",
    "no text": b"\xff\xfe\x00",
    "zeros": bytes(32),
}


@for_each("content", MALFORMED.values(), ids=MALFORMED)
def test_decode_refuses_a_malformed_checkpoint(content: bytes) -> None:
    with pytest.raises(CorruptEpochCheckpoint, match=r"^leader-epoch-checkpoint is malformed"):
        LeaderEpochLineage.decode(content)


@given(st.binary(max_size=40) | st.text(alphabet="0123456789 -\n", max_size=40).map(str.encode))
def test_decode_of_any_bytes_gives_a_lineage_or_corrupt_epoch_checkpoint(content: bytes) -> None:
    try:
        entries = LeaderEpochLineage.decode(content).entries()
    except CorruptEpochCheckpoint:
        return
    assert entries == sorted(set(entries))
    assert LeaderEpochLineage.decode(lineage(entries).encode()).entries() == entries
