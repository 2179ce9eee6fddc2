"""Rewriting a log: whoever reads committed data from any offset learns what was true before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    verify_crc,
)
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.columns import Column, Mask
from tidelog.kernel.records.placed import OUTLINE_BYTES
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.seams.partition import LastBatch
from tidelog.kernel.seams.storage import AbortedTransaction
from tidelog.kernel.seams.storage.batch_lists import ListedDraftWriter
from tidelog.plugins.cleaner.worker import rewriter
from tidelog.plugins.cleaner.worker import segments as worker_segments
from tidelog.plugins.cleaner.worker.messages import JobDone, RewriteJob

from .histories import Batch, History, Row, StoreBroker, read_committed

RETENTION_MS = 1000

# --- for any history

keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
rows = st.lists(
    st.tuples(keys | keys | keys | st.none(), st.none() | st.sampled_from([b"1", b"2", b"x" * 40])),
    min_size=1,
    max_size=5,
)


@attrs.frozen
class Write:
    """A batch; the producers 1 and 2 have transactions, 3 has none, -1 is not idempotent."""

    rows: list[Row]
    producer_id: int
    codec: int
    append_time: bool
    timestamp_step: int


@attrs.frozen
class End:
    """A marker, of a transaction that is open or not."""

    producer_id: int
    commit: bool
    new_epoch: bool


@attrs.frozen
class Roll:
    """A new active segment."""


@attrs.frozen
class Skip:
    """Some offsets without a batch, and a batch without records."""

    offsets: int


@attrs.frozen
class Forget:
    """A producer that is not active any more."""

    producer_id: int


@attrs.frozen
class Clean:
    """Some time passes and the log is rewritten, with limits of each kind."""

    after_ms: int
    room: int
    segment_bytes: int
    chunk_bytes: int
    all_of_it: bool


Step = Write | End | Roll | Skip | Forget | Clean

writes = st.builds(
    Write,
    rows,
    st.sampled_from([-1, 1, 1, 2, 2, 3]),
    st.sampled_from([0, 0, 0, 1, 2, 3, 4]),
    st.booleans(),
    st.sampled_from([0, 7, -7]),
)
ends = st.builds(End, st.sampled_from([1, 2]), st.booleans(), st.booleans())
cleans = st.builds(
    Clean,
    st.sampled_from([0, 1, 400, RETENTION_MS - 1, RETENTION_MS]),
    st.sampled_from([1, 2, 3, 1000]),
    st.sampled_from([1, 200, 500, 2**30]),
    st.sampled_from([1, 61, 100, 300, 2**20]),
    st.booleans(),
)
steps = st.one_of(
    writes,
    writes,
    writes,
    ends,
    ends,
    st.builds(Roll),
    st.builds(Roll),
    st.builds(Skip, st.integers(0, 3)),
    st.builds(Forget, st.sampled_from([1, 2, 3])),
    cleans,
    cleans,
)
LAST_STEPS: Sequence[Step] = (
    End(1, commit=True, new_epoch=False),
    End(2, commit=False, new_epoch=False),
    Roll(),
    Clean(0, 1000, 2**30, 2**20, all_of_it=True),
    Clean(RETENTION_MS, 1000, 500, 2**20, all_of_it=True),
)


def newest_of(records: Iterable[Record]) -> dict[bytes, Record]:
    """The newest record of each key."""
    return {record.key: record for record in records if record.key is not None}


class Checked:
    """A history, all of whose rewrites are checked against all that was ever written."""

    def __init__(self) -> None:
        self.history = History()
        self._kept_since: dict[int, int] = {}
        """Offset of a tombstone -> when a rewrite first kept it."""
        self._spent_since: dict[int, int] = {}
        """Offset of a marker -> when a rewrite first found none of its batches."""

    def take(self, step: Step) -> None:
        """Do a step."""
        history = self.history
        match step:
            case Write():
                history.write(
                    step.rows,
                    step.producer_id,
                    transactional=step.producer_id in (1, 2),
                    codec=step.codec,
                    append_time=step.append_time,
                    timestamp_step=step.timestamp_step,
                )
            case End():
                history.end(step.producer_id, commit=step.commit, new_epoch=step.new_epoch)
            case Roll():
                history.store.roll()
            case Skip():
                history.skip(step.offsets)
            case Forget():
                history.last_batches.pop(step.producer_id, None)
            case Clean():
                self._clean(step)

    def _clean(self, step: Clean) -> None:
        history = self.history
        history.now_ms += step.after_ms
        job = history.job(
            delete_retention_ms=RETENTION_MS,
            room=step.room,
            segment_bytes=step.segment_bytes,
            chunk_bytes=step.chunk_bytes,
        )
        if not step.all_of_it and len(job.sources) > 1:
            job = history.job(
                until=job.sources[-1].base_offset,
                delete_retention_ms=RETENTION_MS,
                room=step.room,
                segment_bytes=step.segment_bytes,
                chunk_bytes=step.chunk_bytes,
            )
        if job.survey_from >= job.until:
            return
        before = history.batches()
        done = history.rewrite(job)
        bases = [source.base_offset for source in job.sources]
        copied_until = min((base for base in bases if base >= done.until), default=job.until)
        self._check(job, done, copied_until, before, history.batches())

    def _check(
        self,
        job: RewriteJob,
        done: JobDone,
        copied_until: int,
        before: Sequence[Batch],
        after: Sequence[Batch],
    ) -> None:
        assert job.survey_from < done.until <= job.until
        self._check_counts(done, copied_until, before, after)
        self._check_batches(job, copied_until, before, after)
        self._check_readers()
        self._check_that_old_records_are_gone(done.until, copied_until, after)
        self._check_tombstones(done.until, copied_until)
        self._check_transactions(copied_until, before, after)
        self._check_producers(after)

    def _check_counts(
        self, done: JobDone, copied_until: int, before: Sequence[Batch], after: Sequence[Batch]
    ) -> None:
        read = [header for header, _ in before if header.base_offset < copied_until]
        kept = [header for header, _ in after if header.base_offset < copied_until]
        assert done.bytes_read == sum(header.size for header in read)
        assert done.bytes_kept == sum(header.size for header in kept)
        assert done.records_read == sum(header.record_count for header in read)
        assert done.records_kept == sum(header.record_count for header in kept)

    def _check_batches(
        self, job: RewriteJob, copied_until: int, before: Sequence[Batch], after: Sequence[Batch]
    ) -> None:
        """Offsets, sequences and producers stay, and what was not copied stays as it was."""
        old = {header.base_offset: header for header, _ in before}
        for header, batch in after:
            assert verify_crc(batch, header)
            was = old[header.base_offset]
            assert header.last_offset == was.last_offset
            assert header.last_sequence == was.last_sequence
            assert header.base_sequence == was.base_sequence
            assert (header.producer_id, header.producer_epoch) == (was.producer_id, was.producer_epoch)
            assert header.leader_epoch == was.leader_epoch
            assert (header.is_control, header.is_transactional) == (was.is_control, was.is_transactional)
            times = [record.timestamp for record in iter_records(batch, header)]
            assert not times or header.max_timestamp == max(times)
        untouched = [each for each in before if each[0].base_offset >= copied_until]
        assert [each for each in after if each[0].base_offset >= copied_until] == untouched
        if job.until in [header.next_offset for header, _ in before]:
            assert job.until in [header.next_offset for header, _ in after]

    def _check_readers(self) -> None:
        """From any offset, a reader finds the newest value of each key that is there or beyond."""
        history = self.history
        end = history.last_stable_offset
        written = {record.offset: record for record in history.committed if record.offset < end}
        newest = newest_of(written.values())
        for start in {*range(0, end + 1, max(end // 8, 1)), end}:
            read = read_committed(history.store, start, end)
            offsets = [record.offset for record in read]
            assert offsets == sorted(set(offsets))
            assert all(record == written[record.offset] for record in read)
            found = newest_of(read)
            expected = {key: record for key, record in newest.items() if record.offset >= start}
            for key, record in expected.items():
                if key in found:
                    assert found[key] == record
                else:
                    assert record.value is None
                    kept_since = self._kept_since[record.offset]
                    assert kept_since + RETENTION_MS <= history.now_ms
            assert found.keys() <= expected.keys()

    def _check_that_old_records_are_gone(self, until: int, copied_until: int, after: Sequence[Batch]) -> None:
        """Below what counts as rewritten there is one record of each key, and none that was aborted."""
        committed = {record.offset for record in self.history.committed}
        left = [
            record
            for header, batch in after
            if header.base_offset < copied_until and not header.is_control
            for record in iter_records(batch, header)
        ]
        assert {record.offset for record in left} <= committed
        left_keys = [record.key for record in left if record.offset < until]
        assert None not in left_keys
        assert len(left_keys) == len(set(left_keys))

    def _check_tombstones(self, until: int, copied_until: int) -> None:
        history = self.history
        for record in read_committed(history.store, 0, copied_until):
            if record.value is None:
                since = self._kept_since.setdefault(record.offset, history.now_ms)
                is_first = since == history.now_ms
                assert is_first or record.offset >= until or history.now_ms < since + RETENTION_MS

    def _check_transactions(self, copied_until: int, before: Sequence[Batch], after: Sequence[Batch]) -> None:
        history = self.history
        there = {header.base_offset for header, _ in before}
        markers = {header.base_offset for header, _ in after if header.is_control and header.record_count}
        indexed: list[tuple[int, int]] = []
        for transaction in history.ended:
            marker = transaction.marker_offset
            has_batches = not there.isdisjoint(transaction.batches)
            is_copied = marker < copied_until
            if transaction.batches and not transaction.commit and (has_batches or not is_copied):
                indexed.append((transaction.producer_id, marker))
            spent_since = self._spent_since.get(marker)
            may_go = spent_since is not None and spent_since + RETENTION_MS <= history.now_ms
            if has_batches or not is_copied:
                assert not is_copied or marker in markers
            else:
                assert (marker in markers) is not may_go
                self._spent_since.setdefault(marker, history.now_ms)
        index = history.store.aborted_transactions(0, 2**62)
        assert [(entry.producer_id, entry.last_offset) for entry in index] == indexed

    def _check_producers(self, after: Sequence[Batch]) -> None:
        """Whoever reads the headers again learns of the last sequence and epoch of each active producer."""
        history = self.history
        for producer_id, last in history.last_batches.items():
            own = [header for header, _ in after if header.producer_id == producer_id]
            if last.offset is None:
                assert any(header.is_control and header.producer_epoch == last.epoch for header in own)
            else:
                (header,) = [each for each in own if each.last_offset == last.offset]
                assert header.producer_epoch == last.epoch
                assert header.last_sequence == history.last_sequences[producer_id]


@settings(max_examples=80)
@given(st.lists(steps, min_size=8, max_size=40))
def test_run_keeps_what_readers_of_committed_data_learn(drawn: list[Step]) -> None:
    checked = Checked()
    for step in (*drawn, *LAST_STEPS):
        checked.take(step)


# --- one thing after the other


def records_of(history: History) -> list[Record]:
    """All records that are there, markers too."""
    return [record for header, batch in history.batches() for record in iter_records(batch, header)]


def batch_at(history: History, offset: int) -> Batch | None:
    """The batch with that base offset, None if it is gone."""
    return next((each for each in history.batches() if each[0].base_offset == offset), None)


def rolled(history: History) -> History:
    """The history with nothing in the active segment, and a last batch that is kept for its offset."""
    history.skip(0)
    history.store.roll()
    return history


def dirty_again(history: History) -> None:
    """Have the next rewrite take the whole log."""
    history.rewritten_until = 0


@pytest.mark.parametrize("codec", range(5))
def test_untouched_batches_are_copied_byte_for_byte(codec: int) -> None:
    history = History()
    for key in (b"a", b"b", b"c"):
        history.write([(key, b"1" * 50), (key + b"x", b"2")], codec=codec, timestamp_step=-3)
    rolled(history)
    before = history.batches()
    done = history.rewrite()
    assert history.batches() == before
    assert done.records_kept == done.records_read == 6
    assert done.bytes_kept == done.bytes_read == history.broker.spent_bytes[1]
    assert history.broker.spent_bytes[0] == 2 * done.bytes_read, "it is surveyed, and copied"


def test_run_writes_nothing_for_a_broker_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: object) -> None:
        raise EOFError

    def append(*_: object) -> None:
        raise AssertionError("another broker may have begun again")

    history = History()
    history.write([(b"a", b"value")])
    rolled(history)
    monkeypatch.setattr(StoreBroker, "check", gone)
    monkeypatch.setattr(ListedDraftWriter, "append", append)
    with pytest.raises(EOFError):
        history.rewrite()


def test_untouched_batches_are_copied_with_a_wrong_checksum() -> None:
    history = History()
    history.write([(b"a", b"value")])
    rolled(history)
    job = damaged(history.job(), b"value", b"VALUE")
    history.rewrite(job)
    assert history.left() == [(b"a", b"VALUE")]
    assert not all(verify_crc(batch, header) for header, batch in history.batches())


@attrs.define
class ChangedSource:
    """`SegmentSource` with other bytes."""

    base_offset: int
    content: bytes
    index_bytes: int = 0
    time_index_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        return len(self.content)

    def read(self, position: int, size: int) -> bytes:
        """Read some of them."""
        return self.content[position : position + size]

    def will_need(self, position: int, size: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def damaged(job: RewriteJob, old: bytes, new: bytes) -> RewriteJob:
    """The job on segments with other bytes."""
    sources = [
        ChangedSource(each.base_offset, each.read(0, each.size_bytes).replace(old, new))
        for each in job.sources
    ]
    return attrs.evolve(job, sources=sources)


@pytest.mark.parametrize(
    "rows",
    [[(b"a", b"value"), (b"b", b"old")], [(b"a", b"value"), (b"c", None)]],
    ids=["some records go", "it gets a delete horizon"],
)
def test_a_rebuilt_batch_with_a_wrong_checksum_is_refused(rows: list[Row]) -> None:
    history = History()
    history.write(rows)
    history.write([(b"b", b"new")])
    rolled(history)
    before = history.batches()
    with pytest.raises(CorruptBatch, match="offset 0 has a wrong checksum"):
        history.rewrite(damaged(history.job(), b"value", b"VALUE"))
    assert history.batches() == before


def test_a_batch_that_goes_needs_no_right_checksum() -> None:
    history = History()
    history.write([(b"a", b"value")])
    history.write([(b"a", b"new")])
    history.rewrite(damaged(rolled(history).job(), b"value", b"VALUE"))
    assert history.left() == [(b"a", b"new")]


@pytest.mark.parametrize("codec", range(5))
def test_rebuilt_batches_keep_codec_sequence_and_timestamps(codec: int) -> None:
    history = History()
    history.write([(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"a", b"4")], 7, codec=codec, timestamp_step=-9)
    history.write([(b"b", b"5")])
    (before, _) = history.batches()[0]
    history.rewrite(rolled(history).job())
    found = batch_at(history, 0)
    assert found is not None
    header, batch = found
    kept = [(record.offset, record.timestamp) for record in iter_records(batch, header)]
    assert kept == [(2, history.now_ms - 18), (3, history.now_ms - 27)]
    assert header == before._replace(
        batch_length=header.batch_length, crc=header.crc, record_count=2, max_timestamp=history.now_ms - 18
    )


def test_append_time_stays_the_time_of_all_records() -> None:
    history = History()
    history.write([(b"a", b"1"), (b"b", None), (b"b", None)], append_time=True)
    appended_ms = history.now_ms + 5
    history.rewrite(rolled(history).job())
    ((header, batch), _) = history.batches()
    assert header.attributes == TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT
    assert header.max_timestamp == appended_ms
    assert [record.timestamp for record in iter_records(batch, header)] == [appended_ms] * 2


@for_each("codec", [0, 4])
@for_each("retention_ms", [0, 1000, 2**62, 2**63 - 1])
def test_delete_horizon_is_stamped_once_and_changes_no_timestamp(codec: int, retention_ms: int) -> None:
    history = History()
    history.write([(b"a", b"1"), (b"b", None), (b"c", b"3")], codec=codec, timestamp_step=11)
    history.write([(b"d", b"1")])
    written = history.committed
    stamped_ms = min(history.now_ms + retention_ms, 2**63 - 1)
    history.rewrite(rolled(history).job(delete_retention_ms=retention_ms))
    assert records_of(history) == written
    (first, _), (second, _), _ = history.batches()
    assert (first.delete_horizon_ms, second.delete_horizon_ms) == (stamped_ms, None)
    if retention_ms:
        # Neither another time nor another retention changes it, even when other records go.
        history.now_ms += min(retention_ms, 2**40) - 1
        history.write([(b"a", b"2")])
        history.rewrite(rolled(history).job(delete_retention_ms=5))
        found = batch_at(history, 0)
        assert found is not None
        assert found[0].delete_horizon_ms == stamped_ms
        assert list(iter_records(found[1], found[0])) == written[1:3]


@pytest.mark.parametrize("timestamp", [-(2**63), -2, -1, 0, 2**63 - 1])
def test_delete_horizon_for_ever_keeps_any_timestamp(timestamp: int) -> None:
    history = History()
    now_ms, history.now_ms = history.now_ms, timestamp
    history.write([(b"a", None)])
    written, history.now_ms = history.committed, now_ms
    history.rewrite(rolled(history).job(delete_retention_ms=2**63 - 1))
    assert history.batches()[0][0].delete_horizon_ms == 2**63 - 1
    assert records_of(history) == written


def test_delete_horizon_is_not_stamped_for_tombstones_that_go() -> None:
    history = History()
    history.write([(b"a", None), (b"b", b"1")])
    history.write([(b"a", b"1")])
    history.rewrite(rolled(history).job())
    assert [header.delete_horizon_ms for header, _ in history.batches()] == [None] * 3


@pytest.mark.parametrize(("after_ms", "stays"), [(0, True), (999, True), (1000, False), (10**9, False)])
def test_tombstones_go_when_their_horizon_has_passed(after_ms: int, stays: bool) -> None:
    history = History()
    history.write([(b"a", None), (b"b", b"1")])
    history.now_ms += 10**9
    for _ in range(2):
        history.rewrite(rolled(history).job(delete_retention_ms=1000))
        assert history.left() == [(b"a", None), (b"b", b"1")], "the time counts from the first rewrite on"
    history.now_ms += after_ms
    history.rewrite(rolled(history).job(delete_retention_ms=1000))
    assert history.left() == [(b"a", None), (b"b", b"1")][not stays :]


def test_marker_stays_until_its_records_are_gone_and_its_horizon_has_passed() -> None:
    history = History()
    history.write([(b"a", b"1")], 1, transactional=True)
    marker = history.end(1, commit=True)
    history.last_batches.clear()

    def horizon_of_marker() -> int | None:
        found = batch_at(history, marker)
        assert found is not None
        return found[0].delete_horizon_ms

    history.rewrite(rolled(history).job())
    history.now_ms += 10**9
    history.rewrite(rolled(history).job())
    assert horizon_of_marker() is None, "the record is there"
    history.write([(b"a", b"2")])
    history.rewrite(rolled(history).job())
    assert batch_at(history, 0) is None
    assert horizon_of_marker() is None, "the record was there until now"
    history.rewrite(rolled(history).job())
    stamped_ms = history.now_ms + 1000
    assert horizon_of_marker() == stamped_ms
    history.now_ms += 999
    history.rewrite(rolled(history).job())
    assert horizon_of_marker() == stamped_ms
    history.now_ms += 1
    history.rewrite(rolled(history).job())
    assert batch_at(history, marker) is None


def test_marker_of_an_aborted_transaction_stays_with_its_index_entry() -> None:
    history = History()
    history.write([(b"a", b"1")])
    history.write([(b"a", b"2"), (b"b", b"2")], 1, transactional=True)
    history.end(1, commit=False)
    history.last_batches[1] = LastBatch(2, 0)
    for _ in range(3):
        history.rewrite(rolled(history).job(delete_retention_ms=0))
        assert history.left() == [(b"a", b"1")]
        found = batch_at(history, 1)
        assert found is not None
        assert found[0].record_count == 0, "it has the last sequence of its producer"
        assert history.store.aborted_transactions(0, 100) == [AbortedTransaction(1, 1, 3, 4)]
    history.last_batches.clear()
    expected: Sequence[tuple[int, bool, bool]] = [(1, True, False), (0, True, True), (0, False, False)]
    for entries, has_marker, has_horizon in expected:
        history.rewrite(rolled(history).job(delete_retention_ms=0))
        assert len(history.store.aborted_transactions(0, 100)) == entries
        marker = batch_at(history, 3)
        assert (marker is not None) is has_marker
        assert (marker is not None and marker[0].delete_horizon_ms is not None) is has_horizon


def test_marker_with_the_newest_epoch_of_a_producer_stays_without_its_record() -> None:
    history = History()
    marker = history.end(1, commit=False, new_epoch=True)
    older = history.end(2, commit=True)
    history.end(2, commit=True, new_epoch=True)
    for _ in range(3):
        history.rewrite(rolled(history).job(delete_retention_ms=0))
    found = batch_at(history, marker)
    assert found is not None
    header, batch = found
    assert (header.producer_id, header.producer_epoch, header.record_count) == (1, 1, 0)
    assert (header.is_control, header.is_transactional, header.delete_horizon_ms) == (True, True, None)
    assert len(batch) == header.size == 61
    assert batch_at(history, older) is None


def test_records_without_a_key_are_dropped_and_counted() -> None:
    history = History()
    history.write([(None, b"1"), (b"a", b"1"), (None, None)])
    history.write([(None, b"1")], codec=1)
    done = history.rewrite(rolled(history).job())
    assert history.left() == [(b"a", b"1")]
    assert done.counts["records without a key"] == 3
    assert (done.records_read, done.records_kept) == (4, 1)


def test_the_last_batch_before_until_is_kept_without_records() -> None:
    history = History()
    history.write([(b"a", b"1")])
    history.write([(b"b", b"1"), (None, b"2")])
    history.write([(None, b"1"), (None, b"2")], codec=2)
    history.store.roll()
    history.write([(b"b", b"2")])
    history.rewrite()
    (_, _), (emptied, batch), _ = [
        (header, batch) for header, batch in history.batches() if header.base_offset != 1
    ]
    assert (emptied.base_offset, emptied.last_offset, emptied.record_count) == (3, 4, 0)
    assert (emptied.codec, emptied.base_timestamp, emptied.max_timestamp) == (0, -1, history.now_ms)
    assert len(batch) == 61


class OddFilter:
    """`RecordFilter` with answers of any length."""

    def __init__(self, answers: int) -> None:
        self._answers = answers

    def survey(self, block: RecordBlock) -> int | None:
        """Take all of it."""

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        """Keep every other record."""
        return [bool(offset % 2) for offset in block.offset.tolist()][: self._answers]

    def counts(self) -> Mapping[str, float]:
        """Count nothing."""
        return {}


class NotingFilter(OddFilter):
    """Notes how many records it is asked about at once."""

    def __init__(self) -> None:
        super().__init__(100)
        self._sizes: list[int] = []

    def survey(self, block: RecordBlock) -> int | None:
        """Note them."""
        self._sizes.append(len(block))
        return None

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        """Note them."""
        self._sizes.append(len(block))
        return super().keep(block)

    def counts(self) -> Mapping[str, float]:
        """Return the noted numbers in their order."""
        return {f"block {number}": size for number, size in enumerate(self._sizes)}


def test_records_are_taken_some_at_a_time_in_whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriter, "RECORDS_AT_ONCE", 4)
    history = History()
    for count in (3, 1, 2, 9, 2, 2, 1):
        history.write([(b"key", b"value")] * count)
    odd = [record for record in history.committed if record.offset % 2]
    done = history.rewrite(attrs.evolve(rolled(history).job(), filter=NotingFilter()))
    assert list(done.counts.values()) == [4, 2, 9, 4, 1] * 2
    assert records_of(history) == odd
    assert done.records_kept == len(odd)


@pytest.mark.parametrize("append_time", [False, True])
def test_a_batch_without_records_keeps_its_type_of_timestamp(append_time: bool) -> None:
    history = History()
    history.write([(b"a", b"1")], producer_id=3, append_time=append_time)
    history.write([(b"a", b"2")])
    history.rewrite(rolled(history).job())
    header, _ = history.batches()[0]
    assert (header.base_offset, header.record_count, header.is_append_time) == (0, 0, append_time)


def test_only_the_last_batch_of_an_active_producer_stays_without_records() -> None:
    history = History()
    for number in range(4):
        history.write([(b"a", b"%d" % number)], producer_id=3 if number < 3 else 4)
    history.write([(b"a", b"4")])
    history.last_batches.pop(4)
    history.rewrite(rolled(history).job())
    found = [(header.base_offset, header.producer_id, header.record_count) for header, _ in history.batches()]
    assert found[:2] == [(2, 3, 0), (4, -1, 1)]


def test_of_a_producer_that_only_ended_transactions_no_batch_of_records_stays_empty() -> None:
    history = History()
    history.write([(b"a", b"1")], producer_id=3)
    history.write([(b"a", b"2")])
    history.last_batches[3] = LastBatch(None, 0)
    history.rewrite(rolled(history).job())
    assert [header.base_offset for header, _ in history.batches()] == [1, 2]


class CountBatches(OddFilter):
    """`RecordFilter` that keeps all, and counts how many batches it saw at once."""

    def __init__(self) -> None:
        super().__init__(0)
        self._most = 0

    def survey(self, block: RecordBlock) -> int | None:
        """Take all of it."""
        self._most = max(self._most, len(block.headers))
        return None

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        """Keep all of it."""
        self._most = max(self._most, len(block.headers))
        return [True] * len(block)

    def counts(self) -> Mapping[str, float]:
        """The most batches."""
        return {"batches": self._most}


def test_run_decompresses_few_batches_of_a_chunk_at_once() -> None:
    """A chunk of a megabyte may have gigabytes of records."""
    history = History()
    for _ in range(6):
        history.write([(b"a", bytes(6 * 2**20))], codec=4)
    done = history.rewrite(rolled(history).job(record_filter=CountBatches()))
    assert done.records_kept == 6
    assert done.bytes_read < 2**20
    assert done.counts["batches"] < 6


class DropBatches(OddFilter):
    """`BatchFilter` that would drop whole batches, and keeps every record that it is asked about."""

    def __init__(self, *base_offsets: int, answers: int | None = None, full_at: int | None = None) -> None:
        super().__init__(0)
        self._base_offsets = base_offsets
        self._most = answers
        self._full_at = full_at

    def survey(self, block: RecordBlock) -> int | None:
        """Have room up to an offset."""
        return self._full_at

    def drops(self, base_offsets: Column, last_offsets: Column) -> Mask:
        """Drop those that begin at the offsets."""
        del last_offsets
        return np.isin(base_offsets, self._base_offsets)[: self._most]

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        """Keep all of it."""
        return [True] * len(block)


def test_batches_that_a_filter_drops_whole_are_not_decoded() -> None:
    history = History()
    for number in range(4):
        history.write([(b"a", b"%d" % number)], producer_id=3 if number == 2 else -1)
    done = history.rewrite(rolled(history).job(record_filter=DropBatches(0, 2)))
    assert (done.records_read, done.records_kept) == (4, 2)
    found = [(header.base_offset, header.record_count) for header, _ in history.batches()]
    assert found[:3] == [(1, 1), (2, 0), (3, 1)]


def test_batches_that_a_filter_drops_whole_are_read_once() -> None:
    """But those that may have to stay without their records: of a producer, and the last one."""
    history = History()
    for number in range(6):
        history.write([(b"a", bytes(10**number))], producer_id=3 if number == 4 else -1)
    sizes = [header.size for header, _ in history.batches()]
    job = rolled(history).job(record_filter=DropBatches(0, 1, 2, 4))
    all_bytes = sum(source.size_bytes for source in job.sources)
    done = history.rewrite(job)
    assert (done.bytes_read, done.records_read, done.records_kept) == (all_bytes, 6, 2)
    assert history.broker.spent_bytes[0] == all_bytes + all_bytes - sum(sizes[:3])


def test_the_last_batch_stays_without_records_when_a_filter_drops_it_whole() -> None:
    history = History()
    for number in range(2):
        history.write([(b"a", b"%d" % number)])
    history.store.roll()
    history.rewrite(history.job(record_filter=DropBatches(0, 1)))
    assert [(header.base_offset, header.record_count) for header, _ in history.batches()] == [(1, 0)]


def test_batches_whose_outlines_take_too_much_memory_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_segments, "MOST_OUTLINE_BYTES", 3 * OUTLINE_BYTES)
    history = History()
    for number in range(6):
        history.write([(b"a", b"%d" % number)])
        if number % 2:
            history.store.roll()
    job = history.job(record_filter=DropBatches(0, 2))
    first, second, third = (source.size_bytes for source in job.sources)
    done = history.rewrite(job)
    assert (done.bytes_read, done.records_read, done.records_kept) == (first + second + third, 6, 4)
    assert history.broker.spent_bytes[0] == done.bytes_read + first // 2 + second + third


def test_batches_beyond_what_was_surveyed_stay_whatever_a_filter_drops() -> None:
    history = History()
    for number in range(3):
        history.write([(b"a", b"%d" % number)])
    done = history.rewrite(rolled(history).job(record_filter=DropBatches(0, 1, 2, full_at=1)))
    assert done.until == 1
    assert [header.base_offset for header, _ in history.batches()][:2] == [1, 2]


def test_a_filter_that_answers_for_too_few_batches_is_refused() -> None:
    history = History()
    for number in range(2):
        history.write([(b"a", b"%d" % number)])
    with pytest.raises(TypeError, match="answers for \\(1,\\) batches of 2"):
        history.rewrite(rolled(history).job(record_filter=DropBatches(answers=1)))


def test_a_full_map_ends_the_pass_and_the_next_one_goes_on() -> None:
    history = History()
    for round_ in range(3):
        history.write([(key, b"%d" % round_) for key in (b"a", b"b", b"c", b"d")])
        history.store.roll()
    reached: list[int] = []
    left: list[int] = []
    for _ in range(4):
        done = history.rewrite(history.job(room=3))
        reached.append(done.until)
        left.append(len(history.left()))
        assert done.counts["share of the buffer filled"] == 1
    assert reached == [3, 6, 9, 12]
    assert left == [12, 10, 7, 4]
    assert history.left() == [(key, b"2") for key in (b"a", b"b", b"c", b"d")]


def test_a_full_map_leaves_later_segments_as_they_are() -> None:
    history = History()
    for key in (b"a", b"b", b"c"):
        history.write([(key, b"1"), (key, None)])
        history.store.roll()
    before = history.batches()
    history.rewrite(history.job(room=1))
    assert history.rewritten_until == 2
    assert history.broker.groups == [[0]]
    assert history.batches()[1:] == before[1:]
    history.rewrite(history.job(room=1))
    assert history.broker.groups == [[0, 2]]
    assert history.rewritten_until == 4


def test_a_survey_that_begins_at_its_end_sees_nothing_and_all_is_copied() -> None:
    history = History()
    history.write([(b"a", b"1"), (b"a", b"2")])
    rolled(history)
    history.rewritten_until = history.store.log_end_offset
    done = history.rewrite()
    assert (done.until, done.records_read, done.records_kept) == (history.store.log_end_offset, 2, 2)


@pytest.mark.parametrize("survey_from", [0, 1, 3, 4, 6])
def test_survey_begins_at_its_offset_in_the_middle_of_a_batch(survey_from: int) -> None:
    """What is below counts as surveyed: it stays but for what the rest replaces."""
    history = History()
    history.write([(key, b"1") for key in (b"a", b"a", b"b", b"b")])
    history.write([(key, b"2") for key in (b"c", b"c", b"a")])
    rolled(history)
    history.rewritten_until = survey_from
    history.rewrite()
    newest = {record.key: record.offset for record in history.committed if record.offset >= survey_from}
    kept = [each.offset for each in history.committed if each.offset >= newest.get(each.key, 0)]
    assert [record.offset for record in records_of(history)] == kept


def test_survey_sees_a_producer_whose_aborted_transaction_ended_before_it() -> None:
    """The marker of that transaction is not read; what the producer commits later replaces older records."""
    history = History()
    history.write([(b"a", b"1")])
    history.write([(b"a", b"aborted")], 1, transactional=True)
    history.end(1, commit=False)
    history.store.roll()
    history.rewritten_until = history.store.log_end_offset
    history.write([(b"a", b"2")], 1, transactional=True)
    history.end(1, commit=True)
    history.rewrite(rolled(history).job())
    assert history.left() == [(b"a", b"2")]


def test_run_takes_any_filter() -> None:
    history = History()
    history.write([(None, b"%d" % index) for index in range(5)])
    job = rolled(history).job(record_filter=OddFilter(5))
    assert history.rewrite(job).counts == {}
    assert [record.offset for record in records_of(history)] == [1, 3]


class DropAll(OddFilter):
    """`RecordFilter` that would keep nothing, and has room up to an offset."""

    def survey(self, block: RecordBlock) -> int | None:
        """Say so."""
        return self._answers

    def keep(self, block: RecordBlock) -> Sequence[bool]:
        """Keep nothing."""
        return [False] * len(block)


def test_run_keeps_what_the_filter_had_no_room_for() -> None:
    history = History()
    history.write([(None, b"%d" % index) for index in range(5)])
    done = history.rewrite(rolled(history).job(record_filter=DropAll(3)))
    assert (done.until, done.records_kept) == (3, 2)
    assert [record.offset for record in records_of(history)] == [3, 4]


@pytest.mark.parametrize("full_at", [0, 4])
def test_run_copies_nothing_when_the_filter_has_no_room_at_all(full_at: int) -> None:
    """Not even when the filter returns an offset that was surveyed before."""
    history = History()
    for _ in range(3):
        history.write([(b"a", b"1"), (b"a", b"2")])
        history.store.roll()
    history.rewritten_until = 4
    before = history.batches()
    done = history.rewrite(history.job(record_filter=DropAll(full_at)))
    assert (done.until, done.records_read, done.bytes_read) == (4, 0, 0)
    assert history.broker.groups == []
    assert history.batches() == before


class NoRoomFrom(OddFilter):
    """`RecordFilter` that has no room from an offset on, wherever that is."""

    def __init__(self, offset: int) -> None:
        super().__init__(0)
        self._offset = offset

    def survey(self, block: RecordBlock) -> int | None:
        """Have no room."""
        return self._offset


@pytest.mark.parametrize("offset", [4, 5, 2**62])
def test_run_refuses_a_filter_without_room_for_what_it_has_not_seen(offset: int) -> None:
    history = History()
    history.write([(b"a", b"1"), (b"b", b"1")])
    history.store.roll()
    history.rewritten_until = history.store.log_end_offset
    history.write([(b"a", b"2"), (b"b", b"2")])
    job = rolled(history).job(record_filter=NoRoomFrom(offset))
    with pytest.raises(ValueError, match=f"no room from offset {offset} on"):
        history.rewrite(job)


def test_run_refuses_a_filter_that_answers_for_fewer_records() -> None:
    history = History()
    history.write([(None, b"1"), (None, b"2")])
    with pytest.raises(TypeError, match="the filter answers for"):
        history.rewrite(rolled(history).job(record_filter=OddFilter(1)))
