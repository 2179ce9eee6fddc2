"""Interception of batches: which interceptors are for a topic and a listener, and calling them.

A wire protocol asks `Interception.of(listener, topic)` and gets None, nearly always, or the interceptors of
that topic. What they do is the same for every protocol: `admit` and `rewrite` before an append, `appended`
after it, `shown_by` and `show` for what is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final

from tidelog.kernel.errors import BrokerError, CorruptBatch, MessageTooLarge, StorageError
from tidelog.kernel.records.batch import Buffer, parse_header, verify_crc
from tidelog.kernel.records.stored import as_batch, iter_stored, verify_stored_crc
from tidelog.kernel.request.active_interceptor import SLOW_SECONDS, ActiveInterceptor
from tidelog.kernel.request.interceptor_threads import InterceptorThreads, TookTooLong, Watch
from tidelog.kernel.request.rewriting import rewritten
from tidelog.kernel.seams.interceptors import BatchInfo, FetchInfo, RunsIn
from tidelog.kernel.seams.storage import LogSlice, region_bytes

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.seams.partition import AppendResult

MAX_KNOWN_TOPICS: Final = 10_000
"""Topics of a listener whose interceptors are known; beyond it all are looked up again."""
LOOP_RECORDS: Final = 64
LOOP_BYTES: Final = 16 * 1024
"""Batches with more records or bytes, and compressed ones, are rewritten in a thread."""
MAX_SHOWN_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a partition in a response, in memory until they are sent; a batch more at most."""


class Interception:
    """The interceptors of a broker."""

    def __init__(self, interceptors: Sequence[ActiveInterceptor]) -> None:
        self._interceptors = interceptors
        self._threads = InterceptorThreads()
        self._known: dict[str, dict[str, TopicInterceptors | None]] = {}

    def of(self, listener: str, topic: str) -> TopicInterceptors | None:
        """Return the interceptors for a topic that exists and clients of a listener, None without one."""
        known = self._known.get(listener)
        if known is None:
            known = self._known[listener] = {}
        try:
            return known[topic]
        except KeyError:
            if len(known) >= MAX_KNOWN_TOPICS:
                known.clear()
            found = [each for each in self._interceptors if each.is_for(listener, topic)]
            known[topic] = TopicInterceptors(found, self._threads) if found else None
            return known[topic]


class TopicInterceptors:
    """The interceptors of one topic, in the order of their tables.

    Attributes:
        intercepts_appends: whether some have to do with what is appended
        rewrites: whether some of them look at its records
        hears: whether some of them are notified of it when it is in the log
        shows: whether some look at what is fetched
    """

    def __init__(self, interceptors: Sequence[ActiveInterceptor], threads: InterceptorThreads) -> None:
        def with_own(method: str) -> Sequence[ActiveInterceptor]:
            return [each for each in interceptors if each.overrides(method)]

        self._threads = threads
        self._before = with_own("before_append")
        self._rewriting = with_own("rewrite")
        self._after = with_own("after_append")
        self._showing = [
            each for each in interceptors if each.overrides("show") or each.overrides("before_fetch")
        ]
        self.rewrites = bool(self._rewriting)
        self.hears = bool(self._after)
        self.intercepts_appends = bool(self._before or self._rewriting or self._after)
        self.shows = bool(self._showing)

    def admit(self, info: BatchInfo) -> str | None:
        """Return the topic to which a client's batch is routed, None if it stays.

        Raises:
            BrokerError: it is refused.
        """
        for active in self._before:
            started = perf_counter()
            try:
                route = active.interceptor.before_append(info)
            except BrokerError:
                raise
            except Exception as error:
                active.failed(f"a batch for {info.topic}-{info.partition}", error)
                continue
            if (seconds := perf_counter() - started) > SLOW_SECONDS:
                active.note_slow("before_append", seconds)
            if route is not None and route != info.topic:
                return route
        return None

    async def rewrite(self, info: BatchInfo, batch: Buffer) -> Buffer:
        """Return a client's batch as it is to be appended; the same object if no record changes.

        Raises:
            CorruptBatch: its records are malformed.
            BrokerError: it is refused.
        """
        # The log refuses it, with the error that it has for that.
        if info.header.size != len(batch) or not verify_crc(batch, info.header):
            return batch
        for active in self._rewriting:
            work = partial(_rewritten_by, active, info, batch)
            try:
                watch = Watch()
                if _is_for_loop(active, info):
                    changed = work(watch)
                else:
                    changed = await self._threads.run(work, watch, active.timeout_s)
            except TookTooLong as error:
                active.failed(f"a batch for {info.topic}-{info.partition}", error)
                continue
            if changed is not None:
                batch = changed
                info = info._replace(header=parse_header(batch), size_bytes=len(batch))
        return batch

    def appended(self, info: BatchInfo, result: AppendResult) -> None:
        """Report that a batch is in the log; a failure cannot refuse it any more."""
        for active in self._after:
            started = perf_counter()
            try:
                active.interceptor.after_append(info, result)
            except Exception as error:
                active.note_failure("after_append", error)
            if (seconds := perf_counter() - started) > SLOW_SECONDS:
                active.note_slow("after_append", seconds)

    def shown_by(self, fetch: FetchInfo) -> Sequence[ActiveInterceptor]:
        """Return the interceptors that are to see the records that a client fetches.

        Raises:
            BrokerError: it may not fetch them.
        """
        chosen: list[ActiveInterceptor] = []
        for active in self._showing:
            started = perf_counter()
            try:
                if active.interceptor.before_fetch(fetch) and active.overrides("show"):
                    chosen.append(active)
            except BrokerError:
                raise
            except Exception as error:
                active.failed(f"a fetch of {fetch.topic}-{fetch.partition}", error)
            if (seconds := perf_counter() - started) > SLOW_SECONDS:
                active.note_slow("before_fetch", seconds)
        return chosen

    async def show(self, fetch: FetchInfo, stored: LogSlice, chosen: Sequence[ActiveInterceptor]) -> LogSlice:
        """Return what a client gets of a slice of the log, in memory; at least its first batch.

        Raises:
            BrokerError: the slice cannot be read, or an interceptor failed.
        """
        showing = _Showing(fetch, stored, chosen)
        longest_s = sum(active.timeout_s for active in chosen)
        while not showing.is_done:
            watch = Watch()
            try:
                await self._threads.run(showing.run, watch, longest_s)
            except TookTooLong as error:
                active = watch.current or chosen[0]
                active.failed(f"a fetch of {fetch.topic}-{fetch.partition}", error)
                # Again without it alone: the others may hide what this client may not see.
                rest = [each for each in chosen if each is not active]
                return await self.show(fetch, stored, rest) if rest else stored
        return showing.result()

    def show_in_thread(
        self, fetch: FetchInfo, stored: LogSlice, chosen: Sequence[ActiveInterceptor]
    ) -> LogSlice:
        """Blocking, in a thread: return what `show` does."""
        showing = _Showing(fetch, stored, chosen)
        while not showing.is_done:
            showing.run(Watch())
        return showing.result()


def _is_for_loop(active: ActiveInterceptor, info: BatchInfo) -> bool:
    header = info.header
    return (
        active.interceptor.runs_in is RunsIn.LOOP
        and header.record_count <= LOOP_RECORDS
        and info.size_bytes <= LOOP_BYTES
        and not header.codec
    )


def _rewritten_by(
    active: ActiveInterceptor, info: BatchInfo, batch: Buffer, watch: Watch
) -> bytearray | None:
    watch.begin(active)
    try:
        return rewritten(active.interceptor.rewrite, info, batch, watch.turn, may_hide=False)
    except (BrokerError, TookTooLong):
        raise
    except Exception as error:
        if not watch.is_over:
            active.failed(f"a batch for {info.topic}-{info.partition}", error)
        return None


class _Showing:
    """Showing a slice batch by batch, in calls of threads."""

    def __init__(self, fetch: FetchInfo, stored: LogSlice, chosen: Sequence[ActiveInterceptor]) -> None:
        self.is_done = False
        self._fetch = fetch
        self._stored = stored
        self._chosen = chosen
        self._batches: Iterator[tuple[BatchHeader, memoryview]] | None = None
        self._out: list[Buffer] = []
        self._size = 0

    def run(self, watch: Watch) -> None:
        """Blocking: show some batches."""
        if self._batches is None:
            self._batches = iter_stored(self._content())
        for header, batch in self._batches:
            shown = self._shown(header, batch, watch)
            self._out.append(shown)
            self._size += len(shown)
            if self._size >= MAX_SHOWN_BYTES:
                break
            if watch.portion_is_done:
                return
        self.is_done = True

    def result(self) -> LogSlice:
        """Return what was shown."""
        return LogSlice((b"".join(self._out),), self._size, self._stored.end_offset)

    def _content(self) -> memoryview:
        try:
            return memoryview(b"".join(map(region_bytes, self._stored.regions)))
        except OSError as error:
            raise StorageError(
                f"{self._fetch.topic}-{self._fetch.partition} cannot be read: {error}"
            ) from error

    def _shown(self, header: BatchHeader, stored: memoryview, watch: Watch) -> Buffer:
        if header.is_control:
            return stored
        if not verify_stored_crc(stored, header):
            raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")
        header, batch = as_batch(header, stored)
        topic, partition, listener, host, principal, client_id = self._fetch
        for active in self._chosen:
            info = BatchInfo(topic, partition, header, len(batch), listener, host, principal, client_id)
            watch.begin(active)
            try:
                changed = rewritten(active.interceptor.show, info, batch, watch.turn, may_hide=True)
            except MessageTooLarge as error:
                active.failed(f"a fetch of {topic}-{partition}", error)
                continue
            except BrokerError:
                raise
            except Exception as error:
                if watch.is_over:
                    raise
                active.failed(f"a fetch of {topic}-{partition}", error)
                continue
            if changed is not None:
                batch, header = memoryview(changed), parse_header(changed)
        return batch
