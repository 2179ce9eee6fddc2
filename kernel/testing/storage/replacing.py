"""Conformance: rewritten segments that replace others, as compaction does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from tidelog.kernel.records.batch import BatchHeader, parse_header
from tidelog.kernel.seams.storage import AbortedTransaction, PartitionStore, SegmentDraft, StaleDraft
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import (
    StorageHarness,
    append,
    append_many,
    read_all,
    read_bytes,
    slice_bytes,
)

SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 100}


@pytest.mark.trio
class Replacing:
    """Rewritten segments replace others."""

    @pytest.mark.parametrize("keep", ["all", "none", "odd", "first", "last", "front", "back"])
    @pytest.mark.parametrize("chosen", [slice(0, 1), slice(0, 4), slice(1, 3), slice(2, None)])
    async def test_replace_segments_is_what_is_read(
        self, harness: StorageHarness, keep: str, chosen: slice
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        old = [view.base_offset for view in store.segments()[:-1]][chosen]
        end = next(view.next_offset for view in store.segments() if view.base_offset == old[-1])
        inside = [batch for batch in batches if old[0] <= parse_header(batch).base_offset < end]
        kept = _kept(inside, keep)
        expected = [batch for batch in batches if batch not in inside or batch in kept]
        store.replace_segments([draft_of(store, old[0], kept)], old)
        await check_log(harness, store, expected)

    async def test_replace_segments_of_several_by_several(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        old = [view.base_offset for view in store.segments()[:-1]]
        halves = [batches[0:4:2], batches[7:9]]
        drafts = [draft_of(store, 0, halves[0]), draft_of(store, 5, halves[1])]
        store.replace_segments(drafts, old)
        assert [view.base_offset for view in store.segments()][:2] == [0, 5]
        active = store.segments()[-1].base_offset
        await check_log(harness, store, [*halves[0], *halves[1], *batches[active:]])

    async def test_replace_segments_keeps_what_cleanup_policies_read(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        before = store.segments()
        harness.clock.advance(1_000_000)
        store.replace_segments([draft_of(store, 0, batches[:2])], [before[0].base_offset])
        after = store.segments()
        assert after[0].size_bytes == len(batches[0]) + len(batches[1])
        assert after[0].max_timestamp == START_MS + 1
        assert after[0].last_modified_ms == before[0].last_modified_ms
        assert after[1:] == before[1:]

    async def test_replace_segments_moves_aborted_transactions_with_their_markers(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        old = [view.base_offset for view in store.segments()[:-1]]
        aborted = AbortedTransaction(7, 0, old[1], old[1] + 1)
        store.add_aborted(aborted)
        draft = draft_of(store, 0, [batches[old[1]]])
        draft.add_aborted(aborted)
        store.replace_segments([draft], old[:2])
        for again in (False, True):
            if again and harness.backend.durable:
                await harness.reopen()
                store = await harness.open_store(**SETTINGS)
            assert list(store.aborted_transactions(0, store.log_end_offset, wait=True)) == [aborted]

    async def test_replace_segments_keeps_regions_of_old_segments_readable(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        region = store.read_batches(0, 1, 20, wait=True)
        store.replace_segments([draft_of(store, 0, [])], [store.segments()[0].base_offset])
        assert slice_bytes(region) == batches[0]

    async def test_draft_segment_that_is_discarded_leaves_nothing(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        draft = draft_of(store, 0, batches[:1])
        draft.discard()
        await check_log(harness, store, batches)

    async def test_replace_segments_is_followed_by_appends(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        old = [view.base_offset for view in store.segments()[:-1]]
        store.replace_segments([draft_of(store, 0, [])], old)
        rest = batches[store.segments()[-1].base_offset :]
        rest += [append(store, 100) for _ in range(10)]
        assert read_all(store) == b"".join(rest)
        assert store.log_start_offset == 0
        assert read_bytes(store, 3, 1) == rest[0]

    @pytest.mark.parametrize("case", ["active", "hole", "none", "unknown", "start", "end", "order"])
    async def test_replace_segments_refuses_what_does_not_fit(
        self, harness: StorageHarness, case: str
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        bases = [view.base_offset for view in store.segments()]
        old, draft = bases[1:3], draft_of(store, bases[1], [])
        match case:
            case "active":
                old, draft = bases[-1:], draft_of(store, bases[-1], [])
            case "hole":
                old = [bases[1], bases[3]]
            case "none":
                old = []
            case "unknown":
                old = [bases[1] + 1]
            case "start":
                draft = draft_of(store, bases[1] + 1, [])
            case "end":
                draft = draft_of(store, bases[1], batches[bases[3] : bases[3] + 1])
            case _:
                with pytest.raises(ValueError, match="do not follow"):
                    draft_of(store, bases[1], [batches[bases[2]], batches[bases[1]]])
                draft = draft_of(store, bases[0], [])
        with pytest.raises(ValueError, match=r"segments|draft"):
            store.replace_segments([draft], old)
        assert read_all(store) == b"".join(batches)

    async def test_replace_segments_refuses_a_draft_of_another_partition(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        other = await harness.open_store(partition=1, **SETTINGS)
        batches, others = append_many(store, 20, 100), append_many(other, 20, 50)
        draft = draft_of(other, 0, [])
        with pytest.raises(StaleDraft, match="another store"):
            store.replace_segments([draft], [0, store.segments()[1].base_offset])
        assert read_all(store) == b"".join(batches)
        assert read_all(other) == b"".join(others)
        other.replace_segments([draft], [0])
        second = other.segments()[1].base_offset
        assert read_all(other) == b"".join(others[second:])

    async def test_replace_segments_refuses_a_draft_of_an_earlier_opening(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        append_many(store, 20, 100)
        old, draft = store, draft_of(store, 0, [])
        await harness.reopen()
        store = await harness.open_store(**SETTINGS)
        if not harness.backend.durable:
            append_many(store, 20, 100)
        content = read_all(store)
        with pytest.raises(StaleDraft, match=r"stale|another store"):
            store.replace_segments([draft], [0])
        with pytest.raises(StaleDraft, match="stale"):
            old.replace_segments([draft], [0])
        draft.discard()
        assert read_all(store) == content

    @pytest.mark.parametrize("offset", [0, 5, 18, 19])
    async def test_replace_segments_refuses_a_draft_from_before_a_truncation(
        self, harness: StorageHarness, offset: int
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        bases = [view.base_offset for view in store.segments()]
        draft = draft_of(store, 0, batches[:1])
        store.truncate_to(offset)
        content = read_all(store) + b"".join(append_many(store, 20, 100))
        with pytest.raises(StaleDraft, match="stale"):
            draft.append(batches[1], 1, 1, START_MS)
        with pytest.raises(StaleDraft, match="stale"):
            draft.add_aborted(AbortedTransaction(7, 0, 1, 2))
        with pytest.raises(StaleDraft, match="stale"):
            store.replace_segments([draft], bases[:1])
        draft.discard()
        assert read_all(store) == content

    async def test_truncate_to_that_removes_nothing_keeps_drafts_valid(self, harness: StorageHarness) -> None:
        store = await harness.open_store(**SETTINGS)
        append_many(store, 20, 100)
        draft = draft_of(store, 0, [])
        store.truncate_to(20)
        second = store.segments()[1].base_offset
        store.replace_segments([draft], [0])
        assert next(iter(store.headers(0))).base_offset == second

    @pytest.mark.parametrize("end", ["used", "discarded"])
    async def test_replace_segments_refuses_a_used_draft(self, harness: StorageHarness, end: str) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        draft = draft_of(store, 0, batches[:1])
        if end == "used":
            store.replace_segments([draft], [0])
        else:
            draft.discard()
        content = read_all(store)
        with pytest.raises(StaleDraft, match=end):
            store.replace_segments([draft], [0])
        with pytest.raises(StaleDraft, match=end):
            draft.append(batches[1], 1, 1, START_MS)
        draft.discard()
        await _reread(harness, store, content)

    async def test_draft_segment_at_the_same_offset_makes_the_earlier_draft_stale(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        earlier, later = draft_of(store, 0, batches[:1]), draft_of(store, 0, [])
        with pytest.raises(StaleDraft, match="another draft"):
            earlier.append(batches[1], 1, 1, START_MS)
        with pytest.raises(StaleDraft, match="another draft"):
            store.replace_segments([earlier], [0])
        assert read_all(store) == b"".join(batches)
        later.append(batches[1], 1, 1, START_MS + 1)
        earlier.discard()
        store.replace_segments([later], [0])
        second = store.segments()[1].base_offset
        await _reread(harness, store, b"".join([batches[1], *batches[second:]]))

    async def test_replace_segments_refuses_a_draft_of_segments_replaced_since(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        bases = [view.base_offset for view in store.segments()]
        outdated, other = draft_of(store, 0, batches[: bases[1] + 1]), draft_of(store, bases[3], [])
        store.replace_segments([draft_of(store, bases[1], [batches[bases[1]]])], bases[1:3])
        content = read_all(store)
        with pytest.raises(StaleDraft, match="replaced"):
            store.replace_segments([outdated], bases[:2])
        assert read_all(store) == content
        store.replace_segments([other], bases[3:4])
        left = [*batches[: bases[1] + 1], *batches[bases[4] :]]
        await _reread(harness, store, b"".join(left))

    async def test_replace_segments_refuses_a_draft_of_deleted_segments(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(**SETTINGS)
        batches = append_many(store, 20, 100)
        bases = [view.base_offset for view in store.segments()]
        gone, there = draft_of(store, 0, batches[:1]), draft_of(store, bases[2], [])
        assert len(store.delete_segments_before(bases[2])) == 2
        with pytest.raises(ValueError, match=r"segments|fit"):
            store.replace_segments([gone], bases[:2])
        gone.discard()
        store.replace_segments([there], [bases[2]])
        assert store.log_start_offset == bases[2]
        assert read_all(store) == b"".join(batches[bases[3] :])


def _kept(batches: Sequence[bytes], keep: str) -> Sequence[bytes]:
    half = len(batches) // 2
    return {
        "all": batches,
        "none": batches[:0],
        "odd": batches[1::2],
        "first": batches[:1],
        "last": batches[-1:],
        "front": batches[:half],
        "back": batches[half:],
    }[keep]


def draft_of(store: PartitionStore, base_offset: int, batches: Iterable[bytes]) -> SegmentDraft:
    """Begin a draft that has these batches."""
    draft = store.draft_segment(base_offset)
    for batch in batches:
        header: BatchHeader = parse_header(batch)
        draft.append(batch, header.base_offset, header.last_offset, header.max_timestamp)
    return draft


async def _reread(harness: StorageHarness, store: PartitionStore, content: bytes) -> None:
    """Check that the log has this content, now and when it is opened again."""
    assert read_all(store) == content
    if harness.backend.durable:
        await harness.reopen()
        assert read_all(await harness.open_store(**SETTINGS)) == content


async def check_log(harness: StorageHarness, store: PartitionStore, expected: Sequence[bytes]) -> None:
    """Check by every way to read the log that it has these batches and its old end, now and later."""
    end_offset = store.log_end_offset
    for again in (False, True):
        if again and harness.backend.durable:
            await harness.reopen()
            store = await harness.open_store(**SETTINGS)
        assert read_all(store) == b"".join(expected)
        assert store.log_end_offset == end_offset
        assert store.log_start_offset == 0
        assert store.size_bytes == sum(map(len, expected))
        headers = [parse_header(batch) for batch in expected]
        assert [each.base_offset for each in store.headers(0)] == [each.base_offset for each in headers]
        for header, batch in zip(headers, expected, strict=True):
            assert read_bytes(store, header.base_offset, 1) == batch
            assert store.batch_at_timestamp(header.max_timestamp) == batch
