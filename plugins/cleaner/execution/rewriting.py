"""The rewriting of one log, on the broker's side: a worker copies, the broker provides drafts and swaps.

Nothing of it runs on the event loop but messages: what waits for a disk is done in threads.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pickle import PickleError
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from tidelog.kernel.config import Config, TopicConfig
from tidelog.kernel.errors import LogBusy, TidelogError
from tidelog.kernel.seams.cleanup import Rewrite
from tidelog.kernel.seams.compression import registered_codecs
from tidelog.kernel.seams.storage import SegmentDraft, SegmentView, StaleDraft, TopicPartition
from tidelog.kernel.seams.storage.keys import SEGMENT_BYTES, SEGMENT_INDEX_BYTES
from tidelog.plugins.cleaner import keys
from tidelog.plugins.cleaner.errors import LogCorrupt, RewriteAborted, RewriteFailed
from tidelog.plugins.cleaner.worker.messages import (
    Failure,
    GroupBegun,
    GroupDraft,
    GroupReplaced,
    GroupWritten,
    JobDone,
    JobFailed,
    Rate,
    RewriteJob,
    WorkerProgress,
)

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.plugins.cleaner.worker.process import WorkerProcess

CHUNK_BYTES: Final = 3 * 1024 * 1024
"""So many records of 1 KB are worth arrays: a step in all of them takes hardly longer than a step in one.

More would take memory, of which a worker needs three times as much: what it reads, what stays of that, and
what is written.
"""

_ERRORS: Final[Mapping[Failure, type[TidelogError]]] = {
    Failure.GONE: RewriteAborted,
    Failure.CORRUPT: LogCorrupt,
    Failure.OTHER: RewriteFailed,
}

Observe: TypeAlias = Callable[[TopicPartition, int, int], None]
"""Callback for progress: a log, its bytes read so far, and all bytes to read."""


@attrs.frozen
class Rewritten:
    """What a rewrite did, and how long it took."""

    done: JobDone
    seconds: float


class Worker:
    """A worker process that does one rewrite after the other."""

    def __init__(self, process: WorkerProcess, config: Config, rate: Callable[[], float]) -> None:
        self._process = process
        self._config = config
        self._rate = rate
        self.works = False
        """Whether it has a job that has not ended."""

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    async def rewrite(
        self,
        partition: UnifiedLog,
        rewrite: Rewrite,
        config: TopicConfig,
        now_ms: int,
        observe: Observe | None = None,
    ) -> Rewritten:
        """Rewrite a log, as far as the filter gets; `observe` receives the progress.

        Raises:
            RewriteAborted: the log changed meanwhile, and the worker is of no use any more.
            LogCorrupt: a part of the log cannot be read.
            RewriteFailed: the worker could not do it.
            WorkerDied: the process has ended.
            StorageError, OSError: the disk refused.
        """
        began = time.monotonic()
        # An older record, which may be durable, goes because of a newer one, or of the marker of a newer
        # transaction. With a loss of power both would be gone.
        await partition.flush()
        rate = self._rate()
        job = await trio.to_thread.run_sync(
            partial(_job, partition, rewrite, config, self._config, now_ms, rate)
        )
        if not job.sources:
            raise RewriteAborted("its segments were deleted")
        # Before it is sent: a worker that has got a part of a job is of no further use.
        self.works = True
        await self._send_job(job)
        progress = _ReadBytes(partition, job, observe)
        async with _Groups(partition, job) as groups:
            done = await self._serve_job(groups, progress, rate)
            return Rewritten(done, time.monotonic() - began)

    async def _serve_job(self, groups: _Groups, progress: _ReadBytes, rate: float) -> JobDone:
        """Answer what the worker asks, and keep it at the current rate, until it has done its job.

        Raises:
            RewriteAborted: the log changed meanwhile.
            RewriteFailed: the worker could not do it.
        """
        while True:
            message = await self._process.receive()
            if isinstance(message, WorkerProgress):
                progress.add(message.read_bytes)
                if self._rate() != rate:
                    rate = self._rate()
                    await self._process.send(Rate(rate))
            self.works = not isinstance(message, JobDone | JobFailed)
            if isinstance(message, JobDone):
                return message
            if isinstance(message, JobFailed):
                # What was cut off while it was read looks damaged.
                await trio.to_thread.run_sync(groups.check_sources)
                raise _ERRORS[message.failure](message.reason)
            answer = await groups.take(message)
            if answer is not None:
                await self._process.send(*answer)

    async def _send_job(self, job: RewriteJob) -> None:
        try:
            await self._process.send(job)
        except (AttributeError, TypeError, ValueError, PickleError) as error:
            raise RewriteFailed(f"the filter cannot be sent to another process: {error}") from None


class _ReadBytes:
    """How much of a rewrite's segments was read, for an observer."""

    def __init__(self, partition: UnifiedLog, job: RewriteJob, observe: Observe | None) -> None:
        self._partition = partition.topic_partition
        self._observe = observe
        self._total = _bytes_to_read(job)
        self._read = 0

    def add(self, read_bytes: int) -> None:
        """Note that so many more bytes were read."""
        self._read += read_bytes
        if self._observe is not None:
            self._observe(self._partition, min(self._read, self._total), self._total)


class _Groups:
    """The drafts of one rewrite, of which one at most is begun at a time."""

    def __init__(self, partition: UnifiedLog, job: RewriteJob) -> None:
        self._partition = partition
        self._sources = {source.base_offset: source.size_bytes for source in job.sources}
        """Base offset → size of the segments that were not replaced yet."""
        self._draft: SegmentDraft | None = None
        self._base_offsets: Sequence[int] = ()

    async def __aenter__(self) -> _Groups:
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._draft is not None:
            with trio.CancelScope(shield=True), contextlib.suppress(OSError):
                await trio.to_thread.run_sync(self._draft.discard)

    async def take(self, message: object) -> tuple[object, Sequence[int]] | None:
        """Do what a message asks for; return the answer and the descriptors that go with it, if there is one.

        Raises:
            RewriteAborted: the log changed meanwhile.
            OSError: the disk refused.
        """
        try:
            match message:
                case WorkerProgress():
                    if self._draft is not None:
                        self._draft.check()
                    if self._partition.offline is not None:
                        raise self._partition.offline
                    return None
                case GroupBegun():
                    return await self._begin(message)
                case GroupWritten():
                    await self._replace(message)
                    return GroupReplaced(), ()
                case _:
                    raise TypeError(f"a worker said {type(message).__name__}")
        except (StaleDraft, LogBusy) as error:
            raise RewriteAborted(str(error)) from None

    async def _begin(self, begun: GroupBegun) -> tuple[GroupDraft, Sequence[int]]:
        self._base_offsets = begun.base_offsets

        draft = await trio.to_thread.run_sync(self._partition.store.draft_segment, begun.base_offsets[0])
        self._draft = draft
        # From now on a truncation makes the draft stale.
        await trio.to_thread.run_sync(self.check_sources)
        writer = draft.writer()
        descriptors = writer.descriptors()
        return GroupDraft(writer, self._partition.last_batches(), len(descriptors)), descriptors

    def check_sources(self) -> None:
        """Blocking: check that what is still to be rewritten is as it was when the rewrite began.

        Raises:
            RewriteAborted: segments were deleted, or the log was truncated.
        """
        sizes = {each.base_offset: each.size_bytes for each in self._partition.store.segments()[:-1]}
        if not self._sources.items() <= sizes.items():
            raise RewriteAborted("segments were deleted, or the log was truncated")

    async def _replace(self, written: GroupWritten) -> None:
        draft, base_offsets = self._draft, self._base_offsets
        if draft is None:
            raise TypeError("a worker has written a group that it had not begun")

        def fill() -> None:
            draft.take(written.written)
            for aborted in written.aborted:
                draft.add_aborted(aborted)

        await trio.to_thread.run_sync(fill)
        try:
            await self._partition.replace_segments([draft], base_offsets)
        except ValueError:
            # The draft does not become stale when a segment is deleted.
            await trio.to_thread.run_sync(self.check_sources)
            raise
        # Only now: after an error `__aexit__` has to discard it.
        self._draft = None
        for base_offset in base_offsets:
            del self._sources[base_offset]


def _bytes_to_read(job: RewriteJob) -> int:
    """Return how many bytes a worker reads at most: first to survey some of them, then to copy all."""
    sizes = [source.size_bytes for source in job.sources]
    ends = [*(source.base_offset for source in job.sources[1:]), job.until]
    surveyed = [size for size, end in zip(sizes, ends, strict=True) if end > job.survey_from]
    return sum(sizes) + sum(surveyed)


def _job(
    partition: UnifiedLog,
    rewrite: Rewrite,
    topic: TopicConfig,
    config: Config,
    now_ms: int,
    bytes_per_second: float,
) -> RewriteJob:
    """Blocking: return the job of rewriting a log."""
    store = partition.store
    sources = store.segment_sources(rewrite.until)
    start = sources[0].base_offset if sources else rewrite.until
    buffer_bytes = config[keys.LOG_CLEANER_IO_BUFFER_SIZE] // max(config[keys.LOG_CLEANER_THREADS], 1)
    return RewriteJob(
        label=str(partition.topic_partition),
        sources=sources,
        until=rewrite.until,
        survey_from=rewrite.survey_from,
        filter=rewrite.make_filter(config),
        now_ms=now_ms,
        delete_retention_ms=rewrite.delete_retention_ms,
        aborted=tuple(store.aborted_transactions(start, rewrite.until, wait=True)),
        segment_bytes=topic[SEGMENT_BYTES],
        index_bytes=topic[SEGMENT_INDEX_BYTES],
        chunk_bytes=max(buffer_bytes, CHUNK_BYTES),
        bytes_per_second=bytes_per_second,
        codecs=registered_codecs(),
        without_old_tombstones=_without_old_tombstones(store.segments(), rewrite),
    )


def _without_old_tombstones(segments: Sequence[SegmentView], rewrite: Rewrite) -> Collection[int]:
    """Return the base offsets of the segments whose tombstones of the formats 0 and 1 may go.

    Such a message cannot have a delete horizon. So the age of files counts: they may go from segments that
    were changed `delete_retention_ms` before the last one that was rewritten already, or earlier. Source:
    Apache Kafka's `Cleaner`, `legacyDeleteHorizonMs`.
    """
    rewritten = [each for each in segments if each.base_offset < rewrite.survey_from]
    if not rewritten:
        return ()
    horizon_ms = rewritten[-1].last_modified_ms - rewrite.delete_retention_ms
    return frozenset(each.base_offset for each in segments if each.last_modified_ms <= horizon_ms)
