"""Conformance: segments in the hands of another process, and how far policies have rewritten a log."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import TypeVar

import pytest

from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.seams.storage import (
    AbortedTransaction,
    DraftWriter,
    PartitionStore,
    SegmentDraft,
    StaleDraft,
    WrittenBatch,
)
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import StorageHarness, append, append_many, read_all
from tidelog.kernel.testing.storage.replacing import SETTINGS, check_log, draft_of

_Found = TypeVar("_Found")

WRITE = """\
import pickle, sys
writer, descriptors, parts = pickle.load(sys.stdin.buffer)
writer.adopt(descriptors)
for part in parts:
    writer.append(*part)
pickle.dump(writer.finish(), sys.stdout.buffer)
"""

Part = tuple[bytes, Sequence[WrittenBatch]]


@pytest.mark.trio
class Rewriting:
    """Segments are read and written in other processes; each policy notes how far."""

    # --- sources

    async def test_segment_sources_read_what_the_log_has(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        append_many(store, 20, 100)
        views = store.segments()
        for again in (False, True):
            if again and harness.backend.durable:
                await harness.reopen()
                store = await harness.open_store(**SETTINGS)
            sources = [_pickled(source) for source in store.segment_sources(store.log_end_offset)]
            assert [each.base_offset for each in sources] == [view.base_offset for view in views[:-1]]
            assert [each.size_bytes for each in sources] == [view.size_bytes for view in views[:-1]]
            content = b"".join(each.read(0, each.size_bytes) for each in sources)
            assert content == read_all(store)[: len(content)]
            assert len(content) == store.size_bytes - views[-1].size_bytes

    async def test_segment_sources_read_from_anywhere_in_any_order(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=2000)
        batches = append_many(store, 50, 100)
        choose = random.Random(1)
        (source, *_) = map(_pickled, store.segment_sources(50))
        content = b"".join(batches)[: source.size_bytes]
        for _ in range(100):
            position, size = choose.randrange(len(content)), choose.randrange(2500)
            assert source.read(position, size) == content[position : position + size]
            source.will_need(*choose.choices(range(2500), k=2))
            if not choose.randrange(10):
                source.close()
        assert source.read(len(content), 1) == source.read(len(content) + 5, 10) == source.read(3, 0) == b""

    async def test_segment_sources_count_the_entries_of_indexes(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=2000, index_interval_bytes=100)
        append_many(store, 50, 100)
        for source in store.segment_sources(50):
            assert source.index_bytes >= 0
            assert source.time_index_bytes >= 0
            assert source.index_bytes % 8 == source.time_index_bytes % 12 == 0

    async def test_segment_sources_are_inactive_and_begin_below_the_offset(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        assert list(store.segment_sources(100)) == []
        append_many(store, 20, 100)
        bases = [view.base_offset for view in store.segments()]
        for until in range(25):
            found = [source.base_offset for source in store.segment_sources(until)]
            assert found == [base for base in bases[:-1] if base < until]
        store.roll()
        assert [source.base_offset for source in store.segment_sources(20)] == bases

    # --- writers

    @pytest.mark.parametrize("elsewhere", ["thread", "process"])
    async def test_writer_writes_what_append_does(self, harness: StorageHarness, elsewhere: str) -> None:
        """Two partitions with the same batches; half of those are left, by one way and by the other."""
        stores = [await harness.open_store(partition=number, **SETTINGS) for number in (0, 1)]
        appended, taken = stores
        batches = append_many(appended, 40, 100)
        assert append_many(taken, 40, 100) == batches
        bases = [view.base_offset for view in appended.segments()[:-1]][:8]
        end = appended.segments()[8].base_offset
        kept = batches[:end:2]
        aborted = AbortedTransaction(7, 0, 4, 5)
        for store in stores:
            store.add_aborted(aborted)
        drafts = [draft_of(appended, 0, kept), taken.draft_segment(0)]
        writer = drafts[1].writer()
        run = _in_another_thread if elsewhere == "thread" else _in_another_process
        drafts[1].take(run(writer, [_part(kept[:3]), _part(kept[3:4]), _part([]), _part(kept[4:])]))
        assert (drafts[1].next_offset, drafts[1].size_bytes) == (drafts[0].next_offset, drafts[0].size_bytes)
        for store, draft in zip(stores, drafts, strict=True):
            draft.add_aborted(aborted)
            store.replace_segments([draft], bases)
        for again in (False, True):
            if again and harness.backend.durable:
                await harness.reopen()
                stores = [await harness.open_store(partition=number, **SETTINGS) for number in (0, 1)]
            for store in stores:
                assert list(store.aborted_transactions(0, 40, wait=True)) == [aborted]
                assert store.first_timestamp(0) == START_MS
            first, second = (store.segments()[0]._replace(last_modified_ms=0) for store in stores)
            assert first == second
            for offset in range(41):
                assert read_all(stores[0], offset) == read_all(stores[1], offset)
            for timestamp in range(START_MS - 1, START_MS + 41):
                assert stores[0].batch_at_timestamp(timestamp) == stores[1].batch_at_timestamp(timestamp)
        if not harness.backend.durable:
            await check_log(harness, stores[1], [*kept, *batches[end:]])

    async def test_writer_tells_how_far_it_is(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        base = store.segments()[1].base_offset
        draft = store.draft_segment(base)
        writer = _handed_over(draft.writer())
        assert (writer.next_offset, writer.size_bytes) == (base, 0)
        writer.append(*_part(batches[base : base + 2]))
        assert (writer.next_offset, writer.size_bytes) == (base + 2, sum(map(len, batches[base : base + 2])))
        assert (draft.next_offset, draft.size_bytes) == (base, 0)
        draft.take(_pickled(writer.finish()))
        assert (draft.next_offset, draft.size_bytes) == (writer.next_offset, writer.size_bytes)

    async def test_writer_without_a_batch_leaves_no_segment(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        bases = [view.base_offset for view in store.segments()]
        draft = store.draft_segment(bases[1])
        draft.take(_pickled(_handed_over(draft.writer()).finish()))
        store.replace_segments([draft], bases[1:3])
        await check_log(harness, store, [*batches[: bases[1]], *batches[bases[3] :]])

    @pytest.mark.parametrize("numbers", [[3, 2], [3, 3], [1], [0, 2]])
    async def test_writer_refuses_offsets_in_a_wrong_order(
        self, harness: StorageHarness, numbers: Sequence[int]
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        bases = [view.base_offset for view in store.segments()]
        draft = store.draft_segment(bases[1])
        writer = _handed_over(draft.writer())
        with pytest.raises(ValueError, match="do not follow"):
            writer.append(*_part([batches[number] for number in numbers]))
        assert (writer.next_offset, writer.size_bytes) == (bases[1], 0), "it has nothing of that"
        writer.append(*_part(batches[2:3]))
        with pytest.raises(ValueError, match="do not follow"):
            writer.append(*_part(batches[2:4]))
        writer.append(*_part(batches[3:4]))
        draft.take(_pickled(writer.finish()))
        store.replace_segments([draft], bases[1:2])
        await check_log(harness, store, batches)

    async def test_discard_leaves_nothing_of_what_a_writer_has_written(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        drafts = [store.draft_segment(base) for base in (0, 2, 4)]
        writers = [_handed_over(draft.writer()) for draft in drafts]
        for number, writer in enumerate(writers[:2]):
            writer.append(*_part(batches[2 * number : 2 * number + 1]))
        drafts[1].take(_pickled(writers[1].finish()))
        for draft in drafts:
            draft.discard()
            with pytest.raises(StaleDraft, match="discarded"):
                draft.check()
        again = store.draft_segment(2)
        store.replace_segments([again], [2])
        await check_log(harness, store, [*batches[:2], *batches[4:]])

    async def test_writer_of_an_earlier_draft_does_not_change_a_later_one(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        earlier = store.draft_segment(0)
        unopened, opened = _handed_over(earlier.writer()), _handed_over(earlier.writer())
        opened.append(*_part(batches[:1]))
        later = store.draft_segment(0)
        writer = _handed_over(later.writer())
        writer.append(*_part(batches[1:2]))
        for each, number in ((unopened, 0), (opened, 1)):
            try:
                each.append(*_part(batches[number : number + 1]))
                written = each.finish()
            except OSError:
                continue
            with pytest.raises(StaleDraft, match="another draft"):
                earlier.take(written)
        later.take(_pickled(writer.finish()))
        store.replace_segments([later], [0])
        await check_log(harness, store, batches[1:])

    async def test_writer_of_a_draft_that_is_gone_does_not_change_one_that_has_its_name(
        self, harness: StorageHarness
    ) -> None:
        """As when the broker was killed: its process has closed the file, the other one still writes."""
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        later = store.draft_segment(0)
        for _ in range(20):
            earlier = store.draft_segment(0)
            writer = _handed_over(earlier.writer())
            earlier.discard()
            del earlier
            later = store.draft_segment(0)
            later.append(batches[1], 1, 1, START_MS + 1)
            with contextlib.suppress(OSError):
                writer.append(*_part(batches[:1]))
                writer.finish()
        store.replace_segments([later], [0])
        await check_log(harness, store, batches[1:])

    # --- stale drafts

    @pytest.mark.parametrize("reason", ["truncation", "close", "another draft", "use", "discard"])
    async def test_check_and_take_refuse_a_stale_draft(self, harness: StorageHarness, reason: str) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        draft = store.draft_segment(0)
        writer = _handed_over(draft.writer())
        writer.append(*_part(batches[:1]))
        written = _pickled(writer.finish())
        draft.check()
        _make_stale(reason, store, draft)
        for _ in range(2):
            with pytest.raises(StaleDraft, match="stale"):
                draft.check()
            with pytest.raises(StaleDraft, match="stale"):
                draft.take(written)
        draft.discard()

    async def test_check_allows_a_draft_beside_appends_deletions_and_other_drafts(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        append_many(store, 20, 100)
        draft = store.draft_segment(4)
        store.draft_segment(2).discard()
        append(store, 100)
        store.roll()
        store.flush()
        store.delete_segments_before(4)
        draft.check()
        store.truncate_to(100)
        draft.check()

    # --- how far

    async def test_rewritten_until_is_kept_for_each_policy(self, harness: StorageHarness) -> None:
        store, other = await harness.open_store(), await harness.open_store(partition=1)
        append_many(store, 20)
        assert store.rewritten_until("compact") is None
        store.set_rewritten_until("compact", 0)
        assert store.rewritten_until("compact") == 0
        store.set_rewritten_until("compact", 12)
        store.set_rewritten_until("my-policy.2", 7)
        for again in (False, True):
            if again and harness.backend.durable:
                await harness.reopen()
                store, other = await harness.open_store(), await harness.open_store(partition=1)
            assert store.rewritten_until("compact") == 12
            assert store.rewritten_until("my-policy.2") == 7
            assert store.rewritten_until("unknown") is None
            assert other.rewritten_until("compact") is None
        store.set_rewritten_until("compact", 3)
        assert store.rewritten_until("compact") == 3

    async def test_rewritten_until_may_lie_outside_of_the_log(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        append_many(store, 20, 100)
        store.set_rewritten_until("compact", 2)
        store.delete_segments_before(10)
        for again in (False, True):
            if again and harness.backend.durable:
                await harness.reopen()
                store = await harness.open_store(**SETTINGS)
            assert store.rewritten_until("compact") == 2

    @pytest.mark.parametrize("offset", [0, 1, 7, 8, 12, 13, 29, 30, 99])
    async def test_truncate_to_lowers_rewritten_until_to_the_end_of_the_log(
        self, harness: StorageHarness, offset: int
    ) -> None:
        """Each batch has three offsets: what is appended in place of a part of one was not rewritten."""
        store = await harness.open_store(**SETTINGS)
        append_many(store, 10, 120, records=3)
        for policy, until in (("compact", 20), ("low", 2), ("high", 30)):
            store.set_rewritten_until(policy, until)
        store.truncate_to(offset)
        end = min(offset // 3 * 3, 30)
        assert store.log_end_offset == end
        append_many(store, 10, 120, records=3)
        for again in (False, True):
            if again and harness.backend.durable:
                await harness.reopen()
                store = await harness.open_store(**SETTINGS)
            found = [store.rewritten_until(policy) for policy in ("compact", "low", "high")]
            assert found == [min(20, end), min(2, end), end]

    async def test_truncate_to_below_the_log_start_lowers_rewritten_until(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        append_many(store, 20, 100)
        store.set_rewritten_until("compact", 12)
        store.delete_segments_before(10)
        store.truncate_to(4)
        assert (store.log_end_offset, store.rewritten_until("compact")) == (4, 4)

    async def test_rewritten_until_of_a_new_topic_of_the_same_name_is_none(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store()
        append_many(store, 20)
        store.set_rewritten_until("compact", 12)
        await harness.storage.delete_partitions([(harness.spec().topic_partition, store)])
        harness.forget_topic("topic")
        for again in (False, True):
            if again and not harness.backend.durable:
                break
            if again:
                await harness.reopen()
            assert (await harness.open_store()).rewritten_until("compact") is None


def written_elsewhere(writer: DraftWriter, batches: Sequence[bytes]) -> object:
    """Write batches one by one as another process does; return what it returns."""
    copy = _handed_over(writer)
    for batch in batches:
        copy.append(*_part([batch]))
    return _pickled(copy.finish())


def _make_stale(reason: str, store: PartitionStore, draft: SegmentDraft) -> None:
    match reason:
        case "truncation":
            store.truncate_to(10)
        case "close":
            store.close()
        case "another draft":
            store.draft_segment(0)
        case "use":
            store.replace_segments([draft], [0])
        case _:
            draft.discard()


def _pickled(thing: _Found) -> _Found:
    """Return what another process gets."""
    copy: _Found = pickle.loads(pickle.dumps(thing))  # noqa: S301 - written here
    return copy


def _handed_over(writer: DraftWriter) -> DraftWriter:
    """Return what another process gets of a writer, with open files of its own."""
    copy = _pickled(writer)
    copy.adopt([os.dup(each) for each in writer.descriptors()])
    return copy


def _part(batches: Sequence[bytes]) -> Part:
    """Return what a writer is given for these batches."""
    headers = [parse_header(batch) for batch in batches]
    written = [
        WrittenBatch(each.base_offset, each.last_offset, each.size, each.max_timestamp) for each in headers
    ]
    return b"".join(batches), written


def _in_another_thread(writer: DraftWriter, parts: Sequence[Part]) -> object:
    found: list[object] = []

    def write(writer: DraftWriter) -> None:
        for part in parts:
            writer.append(*part)
        found.append(writer.finish())

    thread = threading.Thread(target=write, args=[_handed_over(writer)])
    thread.start()
    thread.join()
    return _pickled(found[0])


def _in_another_process(writer: DraftWriter, parts: Sequence[Part]) -> object:
    descriptors = writer.descriptors()
    ran = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", WRITE],
        input=pickle.dumps((writer, descriptors, parts)),
        capture_output=True,
        check=True,
        pass_fds=descriptors,
    )
    return pickle.loads(ran.stdout)  # noqa: S301 - written here
