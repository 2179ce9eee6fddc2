"""Storage in pairs of a key and a value: a crash in the middle of a change leaves one log or the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from uuid import UUID

import pytest

from tests.tables import for_each
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.storage import AbortedTransaction, PartitionSpec, TopicPartition
from tidelog.kernel.seams.storage import key_value as module
from tidelog.kernel.seams.storage.key_value import KeyValueStore, KeyValueTable
from tidelog.kernel.testing.clock import FakeClock
from tidelog.kernel.testing.storage.harness import append_many, read_all

SPEC = PartitionSpec(TopicPartition("orders", 0), UUID(int=7), TopicConfig({"segment.bytes": 300}))


class DictTable:
    """A table in memory, which notes what it had after each write, and refuses writes beyond a number."""

    def __init__(self, pairs: Mapping[bytes, bytes] | None = None) -> None:
        self.pairs = dict(pairs or {})
        self.history = [dict(self.pairs)]
        self.writes_left = 1000

    def get(self, key: bytes) -> bytes | None:
        return self.pairs.get(key)

    def scan(self, prefix: bytes, *, values: bool = True) -> Iterator[tuple[bytes, bytes]]:
        return iter([(key, self.pairs[key]) for key in sorted(self.pairs) if key.startswith(prefix)])

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        if not self.writes_left:
            raise OSError(28, "no room")
        self.writes_left -= 1
        merged = {**self.pairs, **changes}
        self.pairs = {key: value for key, value in merged.items() if value is not None}
        self.history.append(dict(self.pairs))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def opened(table: KeyValueTable) -> KeyValueStore:
    return KeyValueStore(table, SPEC, FakeClock())


def content(store: KeyValueStore) -> tuple[object, ...]:
    """What a log has, and where it begins and ends."""
    aborted = store.aborted_transactions(0, 1000)
    return store.first_segment_offset, store.log_end_offset, read_all(store), tuple(aborted)


def rewrite(store: KeyValueStore) -> None:
    """Replace the first four segments by two that have half of their batches."""
    sources = store.segment_sources(store.segments()[4].base_offset)
    drafts = []
    for pair in (sources[:2], sources[2:]):
        draft = store.draft_segment(pair[0].base_offset)
        for source in pair:
            batch = source.read(0, source.size_bytes // 2)
            draft.append(batch, source.base_offset, source.base_offset, NO_TIMESTAMP)
        drafts.append(draft)
    drafts[0].add_aborted(AbortedTransaction(1, 0, 1, 2))
    store.replace_segments(drafts, [source.base_offset for source in sources])


def delete(store: KeyValueStore) -> None:
    store.delete_segments_before(5)


CHANGES: dict[str, Sequence[Callable[[KeyValueStore], None]]] = {
    "replace": [rewrite],
    "delete": [delete],
    "truncate": [lambda store: store.truncate_to(7)],
    "delete and empty": [delete, lambda store: store.truncate_to(1)],
}


def used(table: DictTable) -> KeyValueStore:
    store = opened(table)
    append_many(store, 12, 50)
    store.add_aborted(AbortedTransaction(1, 0, 1, 2))
    store.add_aborted(AbortedTransaction(2, 6, 8, 9))
    assert len(store.segments()) == 6
    return store


@for_each("name", list(CHANGES))
def test_key_value_store_has_all_or_nothing_of_a_change_after_a_crash(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small writes: there are more of them to crash between.
    monkeypatch.setattr(module, "MAX_ROWS_PER_WRITE", 2)
    monkeypatch.setattr(module, "MAX_BYTES_PER_WRITE", 100)
    table = DictTable()
    store = used(table)
    states = {content(store)}
    table.history.clear()
    for change in CHANGES[name]:
        change(store)
        states.add(content(store))
    store.close()
    assert len(states) == len(CHANGES[name]) + 1
    for pairs in table.history:
        left = DictTable(pairs)
        again = opened(left)
        assert content(again) in states
        # Nothing is left of what is not part of the log, and it goes on as if nothing had happened.
        rows = {key[20:21] for key in left.pairs}
        segments = {key[21:29] for key in left.pairs if key[20:21] == b"s"}
        assert rows <= {b"s", b"b", b"d", b"a", b"l", b"r"}
        assert {key[21:29] for key in left.pairs if key[20:21] in b"bda"} <= segments
        append_many(again, 3, 50)
        assert content(opened(left)) == content(again)


@for_each("name", ["replace", "delete", "truncate"])
def test_key_value_store_is_as_before_when_a_change_is_refused(name: str) -> None:
    table = DictTable()
    store = used(table)
    before = content(store)
    table.writes_left = 0
    with pytest.raises(OSError, match="no room"):
        CHANGES[name][0](store)
    for refused in (lambda: append_many(store, 1, 50), store.roll):
        with pytest.raises(OSError, match="no room"):
            refused()
    assert content(store) == before
    table.writes_left = 1000
    append_many(store, 3, 50)
    assert content(opened(table)) == content(store)


def test_key_value_store_looks_for_aborted_transactions_after_a_crash_alone() -> None:
    table = DictTable()
    store = used(table)
    assert (store.aborted_known_until, store.durable_offset) == (0, 0)
    assert store.flush() == store.durable_offset == 12
    store.close()
    again = opened(table)
    assert again.aborted_known_until == 0
    again.mark_clean()
    assert (again.aborted_known_until, again.durable_offset) == (12, 12)
