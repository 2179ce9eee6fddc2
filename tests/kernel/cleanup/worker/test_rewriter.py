"""Rewriting a log: whoever reads committed data from any offset learns what was true before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.kernel.cleanup.worker.messages import JobDone, RewriteJob
from tidelog.kernel.errors import CorruptBatch, UnsupportedMessageFormat
from tidelog.kernel.records.batch import DELETE_HORIZON_BIT, MAGIC_AT, TIMESTAMP_TYPE_BIT, verify_crc
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.seams.partition import LastBatch
from tidelog.kernel.seams.storage import AbortedTransaction

from .histories import Batch, History, Row, read_committed

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
    read_bytes: int
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
            read_bytes=step.read_bytes,
        )
        if not step.all_of_it and len(job.sources) > 1:
            job = history.job(
                until=job.sources[-1].base_offset,
                delete_retention_ms=RETENTION_MS,
                room=step.room,
                segment_bytes=step.segment_bytes,
                read_bytes=step.read_bytes,
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

    def _check_that_old_records_are_gone(
        self, until: int, copied_until: int, after: Sequence[Batch]
    ) -> None:
        """Below what counts as rewritten there is one record of each key, and none of aborted transactions."""
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

    def _check_transactions(
        self, copied_until: int, before: Sequence[Batch], after: Sequence[Batch]
    ) -> None:
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


@settings(max_examples=300)
@given(st.lists(steps, min_size=8, max_size=40))
def test_run_keeps_what_readers_of_committed_data_learn(drawn: list[Step]) -> None:
    checked = Checked()
    for step in (*drawn, *LAST_STEPS):
        checked.take(step)
