"""Reader of a range of offsets of one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.fetching import DEFAULT_LIMITS, FetchLimits, fetch
from tidelog.plugins.client.operations.offsets import list_offsets
from tidelog.plugins.client.operations.sending import or_raise
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_LOCAL_TIMESTAMP

if TYPE_CHECKING:
    from tidelog.kernel.records.record import Record
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.batches import FetchedBatch
    from tidelog.plugins.client.fetched import Fetched
    from tidelog.plugins.client.steps import Session, Steps


@attrs.define
class PartitionReader:
    """Reader of a partition from `position` up to `stop`, one Fetch response at a time.

    A `stop` of None becomes the end of the log in the first response: the high watermark, for committed
    records the last stable offset. The reader ends when nothing is left below `stop`, even if compaction or
    transaction markers have left no record there. With a `stop` beyond the end it waits for records without
    limit.

    Attributes:
        partition: topic and partition
        position: the offset to fetch next
        stop: the offset before which the reader ends
        limits: limits of each fetch
        log_end: end of the log as of the last response, -1 before the first one
        log_start: log start offset as of the last response, -1 when it is unknown
    """

    partition: TopicPartition
    position: int
    stop: int | None = None
    limits: FetchLimits = DEFAULT_LIMITS
    log_end: int = attrs.field(default=-1, init=False)
    log_start: int = attrs.field(default=-1, init=False)

    @property
    def finished(self) -> bool:
        """Return whether `position` has reached `stop`."""
        return self.stop is not None and self.position >= self.stop

    def poll(self, session: Session) -> Steps[list[Record]]:
        """Return the records of the next response, none when no data arrives in time; raises as `fetch` does.

        Raises:
            CorruptRecords: the data cannot be decoded.
        """
        fetched, stop = yield from self._fetch(session)
        records = [record for record in fetched.records() if record.offset < stop]
        # After the records are decoded: when that fails, the position stays.
        yield from self._advance(session, fetched, stop)
        return records

    def poll_batches(self, session: Session) -> Steps[list[FetchedBatch]]:
        """Return the committed batches of the next response; none when no data arrives in time.

        The batches have records from `position` on and below `stop`, or at least offsets there; the first and
        the last one may have others as well. Raises as `fetch` does.

        Raises:
            CorruptRecords: the data are no batches of format v2, a CRC or a control batch is wrong.
        """
        fetched, stop = yield from self._fetch(session)
        batches = [batch for batch in fetched.committed_batches() if batch[0].base_offset < stop]
        yield from self._advance(session, fetched, stop)
        return batches

    def _fetch(self, session: Session) -> Steps[tuple[Fetched, int]]:
        limits = self.limits
        if self._reaches_stop():  # what is left below `stop` is in the log by now, or will never be
            limits = attrs.evolve(limits, max_wait_ms=0)
        fetched = yield from fetch(session, self.partition, self.position, limits)
        if self.stop is None:
            self.stop = self._end_of_log(fetched)
        return fetched, self.stop

    def _advance(self, session: Session, fetched: Fetched, stop: int) -> Steps[None]:
        """Advance behind the response; to `stop` if nothing is left below it.

        That is so if the response is empty though the log reached `stop` before it was sent, unless what is
        left is in remote storage (KIP-405), which a broker may take too long to read.
        """
        is_exhausted = not fetched.data and self._reaches_stop() and (yield from self._is_local(session))
        self.position = max(fetched.next_offset(), stop if is_exhausted else 0)
        self.log_end = self._end_of_log(fetched)
        self.log_start = fetched.log_start_offset

    def _is_local(self, session: Session) -> Steps[bool]:
        outcomes = yield from list_offsets(session, [self.partition], EARLIEST_LOCAL_TIMESTAMP)
        outcome = outcomes[self.partition]
        if isinstance(outcome, ErrorResponse) and not outcome.retriable:
            return True  # a broker without remote storage need not know that timestamp
        return or_raise(outcomes)[self.partition].offset <= self.position

    def _reaches_stop(self) -> bool:
        """Return whether the log reached `stop` when the last response was sent."""
        return self.stop is not None and self.stop <= self.log_end

    def _end_of_log(self, fetched: Fetched) -> int:
        stable = fetched.last_stable_offset
        return stable if self.limits.read_committed and stable >= 0 else fetched.high_watermark
