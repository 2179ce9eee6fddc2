"""The suite of the storage seam: storages that wrap another one adopt it, and it finds each wrong one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import attrs
import pytest

from tidelog.kernel.errors import BatchTooLarge
from tidelog.kernel.records.batch import BatchHeader, Buffer
from tidelog.kernel.seams.storage import (
    AbortedTransaction,
    ForwardingStorage,
    ForwardingStore,
    LogSlice,
    PartitionSpec,
    PartitionStore,
    SegmentDraft,
    SegmentSource,
    SegmentView,
    Storage,
    StorageContext,
    TopicPartition,
)
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage import StorageConformance as Suite
from tidelog.kernel.testing.storage import StorageHarness, slice_bytes


class Wrapping(ForwardingStorage):
    """A storage that wraps another one, and knows its stores."""

    def __init__(self, wrapped: Storage, store_class: Callable[[PartitionStore], ForwardingStore]) -> None:
        super().__init__(wrapped)
        self.store_class = store_class
        self.stores: list[ForwardingStore] = []

    def wrap(self, partition: TopicPartition, store: PartitionStore) -> PartitionStore:
        self.stores.append(self.store_class(store))
        return self.stores[-1]


def wrapping(
    wrapped: str,
    store_class: Callable[[PartitionStore], ForwardingStore] = ForwardingStore,
    storage_class: Callable[[Storage, Callable[[PartitionStore], ForwardingStore]], Storage] = Wrapping,
) -> ModuleType:
    """A plugin with a storage that wraps the installed one of that name."""

    class Backend:
        name = "wrapping"
        durable = wrapped == "file"

        def create(self, context: StorageContext) -> Storage:
            return storage_class(context.backend(wrapped).create(context), store_class)

    plugin: Any = ModuleType("wrapping")
    plugin.tidelog_storage_backends = lambda: [Backend()]
    return plugin  # type: ignore[no-any-return]


@asynccontextmanager
async def harness_of(plugin: ModuleType, folder: Path) -> AsyncGenerator[StorageHarness]:
    tasks = BackgroundTasks()
    async with tasks.running():
        harness = StorageHarness(plugin, folder, tasks)
        await harness.open()
        yield harness
        await harness.close()


class TestWrapping(Suite, plugin=wrapping("memory")):
    """A storage that wraps another one adopts the suite in one line."""


# --- appending


class DropsTheLastBatch(ForwardingStore):
    """Loses the last batch when it is closed."""

    def close(self) -> None:
        self.wrapped.truncate_to(self.log_end_offset - 1)
        super().close()


class KeepsTheBuffer(ForwardingStore):
    """Reads from the memory of the caller, who uses it again."""

    kept: ClassVar[list[Buffer]] = []

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        self.kept[:] = [batch]
        return self.wrapped.append_batch(batch, base_offset, last_offset, max_timestamp)

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        return LogSlice((memoryview(self.kept[0]),), len(self.kept[0]), self.log_end_offset)


class AppendsOverOffsets(ForwardingStore):
    """Passes over offsets that do not follow instead of refusing them."""

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        with suppress(ValueError):
            return self.wrapped.append_batch(batch, base_offset, last_offset, max_timestamp)
        return False


class NeverTooLarge(ForwardingStore):
    """Drops a batch that is too large without an error."""

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        with suppress(BatchTooLarge):
            return self.wrapped.append_batch(batch, base_offset, last_offset, max_timestamp)
        return False


class ReportsNoRoll(ForwardingStore):
    """Rolls, and reports that it has not."""

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        self.wrapped.append_batch(batch, base_offset, last_offset, max_timestamp)
        return False


class NeverRolls(ForwardingStore):
    """Reports a roll that was not done."""

    def roll(self) -> bool:
        return True


# --- durability


class NoFlush(ForwardingStore):
    """Forgets the flush, and reports that all is durable."""

    def flush(self) -> int:
        return self.log_end_offset


class NoOffset(ForwardingStore):
    """Does nothing at a flush, and reports that."""

    def flush(self) -> int:
        return 0


class AcknowledgesEarly(NoFlush):
    """Reports that all is durable as soon as it is appended, and writes when it is closed."""

    @property
    def durable_offset(self) -> int:
        return self.log_end_offset


class LosesWhatIsNotClosed(Wrapping):
    """What was not flushed by the stores that are wrapped is lost with the process."""

    def abandon(self) -> None:
        for store in self.stores:
            store.wrapped.truncate_to(0)
        super().abandon()


# --- reading


class ReadsTheNextBatch(ForwardingStore):
    """Looks up the wrong position."""

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        return self.wrapped.read_batches(min(offset + 1, limit_offset), max_bytes, limit_offset, wait=wait)


class ReadsOneLess(ForwardingStore):
    """Does not return the last record."""

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        return self.wrapped.read_batches(offset, max_bytes, max(limit_offset - 1, offset), wait=wait)


class ReadsAboveTheLimit(ForwardingStore):
    """Returns what is not committed."""

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        return self.wrapped.read_batches(offset, max_bytes, self.log_end_offset, wait=wait)


class IgnoresMaxBytes(ForwardingStore):
    """Returns all that there is."""

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        return self.wrapped.read_batches(offset, 1 << 30, limit_offset, wait=wait)


class CutsTheFirstBatch(ForwardingStore):
    """Returns no more than was asked for, not even a whole batch."""

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        found = slice_bytes(self.wrapped.read_batches(offset, max_bytes, limit_offset, wait=True))
        return LogSlice((found[:max_bytes],), len(found[:max_bytes]), limit_offset)


class Reorders(ForwardingStore):
    """Returns headers in another order."""

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        return iter(list(self.wrapped.headers(from_offset))[::-1])


class LooksUpLaterTimes(ForwardingStore):
    """Finds the batch after a timestamp, not the one that has it."""

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        return self.wrapped.batch_at_timestamp(timestamp_ms + 1)


class LastOfMaxTimestamp(ForwardingStore):
    """Returns the last batch, whatever its timestamp."""

    def batch_of_max_timestamp(self) -> bytes | None:
        end = self.log_end_offset
        return slice_bytes(self.wrapped.read_batches(end - 1, 1, end, wait=True)) or None


# --- removing


class DeletesNothing(ForwardingStore):
    """Reports what it should have deleted, which comes back."""

    def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        return [view for view in self.wrapped.segments()[:-1] if view.next_offset <= offset]


class DeletesTheActiveSegment(ForwardingStore):
    """Deletes what is below the offset by rolling first."""

    def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        self.wrapped.roll()
        return self.wrapped.delete_segments_before(offset)


class TruncatesTooLittle(ForwardingStore):
    """Resurrects what another leader never had."""

    def truncate_to(self, offset: int) -> None:
        self.wrapped.truncate_to(offset + 1)


class TruncatesTooMuch(ForwardingStore):
    """Loses a record that the leader has."""

    def truncate_to(self, offset: int) -> None:
        self.wrapped.truncate_to(offset - 1)


class StartsAgainAtZero(ForwardingStore):
    """Does not raise the log start offset."""

    def raise_log_start(self, offset: int) -> None:
        pass


class ResurrectsPartitions(Wrapping):
    """Returns the log of a partition that was deleted to one that is created with its name."""

    def __init__(self, wrapped: Storage, store_class: Callable[[PartitionStore], ForwardingStore]) -> None:
        super().__init__(wrapped, store_class)
        self.deleted: dict[TopicPartition, PartitionStore] = {}

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        self.deleted.update(partitions)

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        (spec,) = specs
        if spec.topic_partition in self.deleted:
            return [self.deleted[spec.topic_partition]]
        return await super().open_partitions(specs, progress)


# --- transactions, cleanup and side files


class ForgetsAborted(ForwardingStore):
    """Does not add aborted transactions."""

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        pass


class AbortedOutliveTheirMarkers(ForwardingStore):
    """Returns aborted transactions whose markers were truncated."""

    def __init__(self, wrapped: PartitionStore) -> None:
        super().__init__(wrapped)
        self.known: list[AbortedTransaction] = []

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        self.known.append(aborted)

    def aborted_transactions(
        self, from_offset: int, to_offset: int, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        return [
            each for each in self.known if each.last_offset >= from_offset and each.first_offset < to_offset
        ]


class ReplacesNothing(ForwardingStore):
    """Leaves the old segments, whose records were to go."""

    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        for draft in drafts:
            draft.discard()


class RewritesTheActiveSegment(ForwardingStore):
    """Lets the segment that is appended to be rewritten."""

    def segment_sources(self, until: int) -> Sequence[SegmentSource]:
        self.wrapped.roll()
        return self.wrapped.segment_sources(until)


class RewrittenForGood(ForwardingStore):
    """Forgets how far a log was rewritten."""

    def set_rewritten_until(self, policy: str, offset: int) -> None:
        pass


class KeepsSideFiles(ForwardingStore):
    """Does not delete files beside the log."""

    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        pass


class SharesSideFiles(ForwardingStore):
    """Has the files beside the log for all partitions together."""

    shared: ClassVar[dict[str, bytes]] = {}

    def write_side_file(self, name: str, content: bytes) -> None:
        self.shared[name] = content

    def read_side_file(self, name: str) -> bytes | None:
        return self.shared.get(name)


class CountsWhatIsGone(ForwardingStore):
    """Counts bytes that were removed."""

    def __init__(self, wrapped: PartitionStore) -> None:
        super().__init__(wrapped)
        self.appended_bytes = 0

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        self.appended_bytes += len(batch)
        return self.wrapped.append_batch(batch, base_offset, last_offset, max_timestamp)

    @property
    def size_bytes(self) -> int:
        return self.appended_bytes


@attrs.frozen
class WrongStorage:
    """A wrong store or storage, and the test of the suite that finds it, with that test's arguments."""

    wrong: type
    test: Callable[..., Awaitable[None]]
    arguments: dict[str, object] = attrs.field(factory=dict[str, object])
    storage: type = Wrapping

    def __str__(self) -> str:
        return self.wrong.__name__ if self.storage is Wrapping else self.storage.__name__

    def plugin(self) -> ModuleType:
        return wrapping("file", self.wrong, self.storage)


WRONG = [
    WrongStorage(DropsTheLastBatch, Suite.test_close_keeps_what_was_appended_last),
    WrongStorage(
        KeepsTheBuffer, Suite.test_append_accepts_any_buffer_and_does_not_keep_it, {"kind": memoryview}
    ),
    WrongStorage(
        AppendsOverOffsets,
        Suite.test_append_refuses_offsets_below_the_log_end,
        {"base_offset": 1, "last_offset": 1},
    ),
    WrongStorage(NeverTooLarge, Suite.test_append_refuses_a_batch_larger_than_a_segment),
    WrongStorage(ReportsNoRoll, Suite.test_append_rolls_by_segment_bytes),
    WrongStorage(NeverRolls, Suite.test_roll_begins_a_segment_at_the_log_end, {"prepared": True}),
    WrongStorage(NoFlush, Suite.test_flush_makes_everything_durable),
    WrongStorage(NoOffset, Suite.test_flush_makes_everything_durable),
    WrongStorage(
        AcknowledgesEarly, Suite.test_what_was_flushed_survives_the_process, storage=LosesWhatIsNotClosed
    ),
    WrongStorage(ReadsTheNextBatch, Suite.test_read_at_every_offset_returns_its_batch),
    WrongStorage(ReadsOneLess, Suite.test_read_in_a_gap_returns_the_next_batch),
    WrongStorage(ReadsAboveTheLimit, Suite.test_read_returns_nothing_at_or_above_the_limit),
    WrongStorage(IgnoresMaxBytes, Suite.test_read_may_end_within_the_last_batch),
    WrongStorage(CutsTheFirstBatch, Suite.test_read_returns_the_first_batch_whole, {"max_bytes": 100}),
    WrongStorage(Reorders, Suite.test_headers_begins_with_the_batch_of_the_offset),
    WrongStorage(
        LooksUpLaterTimes,
        Suite.test_batch_at_timestamp_returns_the_first_batch_that_reaches_it,
        {"name": "growing", "segment_bytes": 600},
    ),
    WrongStorage(
        LastOfMaxTimestamp,
        Suite.test_batch_at_timestamp_returns_the_first_batch_that_reaches_it,
        {"name": "falling", "segment_bytes": 600},
    ),
    WrongStorage(DeletesNothing, Suite.test_delete_segments_before_deletes_whole_segments),
    WrongStorage(DeletesTheActiveSegment, Suite.test_delete_segments_before_keeps_the_active_segment),
    WrongStorage(
        TruncatesTooLittle,
        Suite.test_truncate_to_removes_the_batch_of_the_offset_and_all_above,
        {"offset": 20},
    ),
    WrongStorage(
        TruncatesTooMuch, Suite.test_truncate_to_removes_the_batch_of_the_offset_and_all_above, {"offset": 9}
    ),
    WrongStorage(StartsAgainAtZero, Suite.test_raise_log_start_raises_the_log_start_offset),
    WrongStorage(
        ForwardingStore, Suite.test_delete_partitions_deletes_for_good, storage=ResurrectsPartitions
    ),
    WrongStorage(ForgetsAborted, Suite.test_aborted_transactions_returns_all_that_overlap_a_range),
    WrongStorage(
        AbortedOutliveTheirMarkers,
        Suite.test_truncate_to_removes_aborted_transactions_with_their_markers,
        {"offset": 13},
    ),
    WrongStorage(
        ReplacesNothing, Suite.test_replace_segments_is_what_is_read, {"keep": "odd", "chosen": slice(0, 4)}
    ),
    WrongStorage(
        RewritesTheActiveSegment, Suite.test_segment_sources_are_inactive_and_begin_below_the_offset
    ),
    WrongStorage(RewrittenForGood, Suite.test_rewritten_until_is_kept_for_each_policy),
    WrongStorage(KeepsSideFiles, Suite.test_write_side_file_read_side_file_and_delete_side_file),
    WrongStorage(SharesSideFiles, Suite.test_write_side_file_is_by_partition),
    WrongStorage(
        CountsWhatIsGone, Suite.test_truncate_to_removes_the_batch_of_the_offset_and_all_above, {"offset": 9}
    ),
]


@pytest.mark.parametrize("row", WRONG, ids=str)
async def test_storage_conformance_finds_a_wrong_storage(row: WrongStorage, tmp_path: Path) -> None:
    plugin = row.plugin()
    suite = type("Suite", (Suite,), {}, plugin=plugin)()
    async with harness_of(plugin, tmp_path) as harness:
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            await row.test(suite, harness, **row.arguments)
    assert (tmp_path / "data").is_dir(), "the storage that is wrapped has a folder of the test's own"
