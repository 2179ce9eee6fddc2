"""Conformance: any sequence of operations leaves what the simplest log would have."""

from __future__ import annotations

import random

import pytest

from tidelog.kernel.records.batch import NO_TIMESTAMP, Buffer, parse_header
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import StorageHarness, append, read_all, read_bytes
from tidelog.kernel.testing.storage.model import ModelLog
from tidelog.kernel.testing.storage.rewriting import written_elsewhere

POLICIES = ("compact", "other")
WALKS = 6
STEPS = 150
SETTINGS = {"segment_bytes": 3000, "index_interval_bytes": 300, "segment_index_bytes": 120}


def check(store: PartitionStore, model: ModelLog, choose: random.Random) -> None:
    """Compare everything that can be asked of a log."""
    assert (store.log_start_offset, store.log_end_offset) == (model.start_offset, model.end_offset)
    expected = model.read(store.segments()[0].base_offset, model.end_offset)
    assert read_all(store, store.segments()[0].base_offset) == expected
    assert store.size_bytes == len(expected)
    if model.start_offset < model.end_offset:
        offset = choose.randrange(model.start_offset, model.end_offset)
        limit = choose.randrange(offset, model.end_offset + 1)
        content = read_bytes(store, offset, choose.randrange(2000), limit)
        assert model.read(offset, limit).startswith(content)
    timestamp = START_MS + choose.randrange(1000)
    assert store.batch_at_timestamp(timestamp) == model.at_timestamp(timestamp)
    assert store.batch_of_max_timestamp() == model.of_max_timestamp()
    for policy in POLICIES:
        assert store.rewritten_until(policy) == model.rewritten.get(policy)
    for view in store.segments():
        inside = (
            batch for batch in model.batches if view.base_offset <= batch.base_offset < view.next_offset
        )
        first = next(inside, None)
        assert store.first_timestamp(view.base_offset) == (first.max_timestamp if first else NO_TIMESTAMP)


def add(store: PartitionStore, model: ModelLog, choose: random.Random) -> Buffer:
    """Append a batch of some size, somewhere behind the end."""
    batch = append(
        store,
        choose.choice([1, 50, 400, 2500]),
        gap=choose.choice([0, 0, 0, 1, 20]),
        timestamp=START_MS + choose.randrange(1000),
        records=choose.choice([1, 2, 10]),
    )
    model.append(batch)
    return batch


def truncate(store: PartitionStore, model: ModelLog, choose: random.Random) -> None:
    """Truncate somewhere; an emptied log ends where a segment begins, which only the store can tell."""
    offset = choose.randrange(model.start_offset, model.end_offset + 2)
    store.truncate_to(offset)
    model.truncate_to(offset)
    assert store.log_end_offset <= max(offset, model.end_offset)
    model.end_offset = store.log_end_offset
    model.start_offset = min(model.start_offset, model.end_offset)
    model.lower_rewritten()


def delete(store: PartitionStore, model: ModelLog, choose: random.Random) -> None:
    """Raise the start of the log and delete the segments below."""
    offset = choose.randrange(model.start_offset, model.end_offset + 1)
    store.raise_log_start(offset)
    store.delete_segments_before(offset)
    first = store.segments()[0].base_offset
    model.batches = [batch for batch in model.batches if batch.base_offset >= first]
    model.start_offset = max(model.start_offset, offset)


def rewrite(store: PartitionStore, model: ModelLog, choose: random.Random) -> None:
    """Replace some inactive segments by one that has a part of their batches, and note how far."""
    views = store.segments()[:-1]
    if not views:
        return
    first = choose.randrange(len(views))
    views = views[first : first + choose.randrange(1, 4)]
    base, end = views[0].base_offset, views[-1].next_offset
    inside = [batch for batch in model.batches if base <= batch.base_offset < end]
    kept = [batch for batch in inside if choose.randrange(3)]
    draft = store.draft_segment(base)
    if choose.randrange(2):
        draft.take(written_elsewhere(draft.writer(), [batch.data for batch in kept]))
    else:
        for batch in kept:
            draft.append(batch.data, batch.base_offset, batch.last_offset, batch.max_timestamp)
    if not choose.randrange(4):
        draft.discard()
        return
    store.replace_segments([draft], [view.base_offset for view in views])
    model.batches = [batch for batch in model.batches if batch not in inside or batch in kept]
    policy = choose.choice(POLICIES)
    store.set_rewritten_until(policy, end)
    model.rewritten[policy] = end


@pytest.mark.trio
class RandomWalk:
    """Any sequence of operations."""

    @pytest.mark.parametrize("seed", range(WALKS))
    async def test_a_store_agrees_with_the_simplest_log(self, harness: StorageHarness, seed: int) -> None:
        choose = random.Random(seed)
        store, model = await harness.open_store(**SETTINGS), ModelLog()
        for _ in range(STEPS):
            step = choose.choices(
                ["add", "truncate", "delete", "reopen", "flush", "roll", "rewrite"], [20, 2, 1, 1, 1, 1, 2]
            )[0]
            if step == "add":
                batch = add(store, model, choose)
                assert read_bytes(store, parse_header(batch).base_offset) == bytes(batch)
            elif step == "truncate":
                truncate(store, model, choose)
            elif step == "delete":
                delete(store, model, choose)
            elif step == "rewrite":
                rewrite(store, model, choose)
            elif step == "roll":
                store.prepare_roll()
                store.roll()
            elif step == "flush":
                assert store.flush() == model.end_offset
            elif harness.backend.durable:
                await harness.reopen()
                store = await harness.open_store(**SETTINGS)
            check(store, model, choose)
