"""Records that were fetched ahead, as the user takes them: in lists, in batches, or one after the other.

    PartitionPosition.buffer ─▶ FetchedCursor ─▶ poll

Each method takes the lock of the driver, but not while records are decoded: that is why it looks again
afterwards whether the cursor is still that of the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.client.consumer.fetched_cursor import FetchedCursor
from tidelog.plugins.client.consumer.positions import NO_EPOCH
from tidelog.plugins.client.errors import ClientError, CorruptRecords, ErrorResponse, LogTruncated, NoOffset
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from contextlib import AbstractContextManager

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.assigned_partitions import AssignedPartitions
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client.consumer.interceptors import ConsumerInterceptors
    from tidelog.plugins.client.consumer.positions import PartitionPosition
    from tidelog.plugins.client.consumer.record_batch import RecordBatch
    from tidelog.plugins.client.consumer.settings import ConsumerSettings

_ARROW_BYTES: Final = 64 * 1024 * 1024
"""Fetched bytes of one table, and of one list of batches."""


class BufferedRecords:
    """Takes records out of the buffers of the partitions, and moves the positions.

    Attributes:
        current: the record that an iteration has returned last, None without one
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        positions: AssignedPartitions,
        lock: AbstractContextManager[Any],
        interceptors: ConsumerInterceptors,
        request_pump: Callable[[], None],
    ) -> None:
        """Set `request_pump`, which is called when there is room for more, or an error was raised."""
        self.current: ConsumerRecord | None = None
        self._settings = settings
        self._positions = positions
        self._lock = lock
        self._interceptors = interceptors
        self._request_pump = request_pump
        self._chunk: list[ConsumerRecord] = []
        self._chunk_of: PartitionPosition | None = None

    def take_records(self) -> list[ConsumerRecord]:
        """Return records that are there, at most `max_poll_records`, and move the positions.

        Raises:
            ClientError: why a partition cannot be read, if there are no records before that.
        """
        found: list[ConsumerRecord] = []
        most = self._settings.max_poll_records
        while len(found) < most:
            try:
                records = self._read(lambda cursor: cursor.read_records(most - len(found)))
            except ClientError:
                if not found:
                    raise
                break
            if records is None:
                break
            # The list belongs to the cursor, unless nothing is left of its batch.
            found.extend(records)
        return self._interceptors.consumed(found) if self._interceptors and found else found

    def take_batches(self, most_bytes: int = _ARROW_BYTES) -> list[RecordBatch]:
        """Return batches that are there, of about so many bytes; as `take_records`."""
        found: list[RecordBatch] = []
        size = 0
        while size < most_bytes:
            try:
                batch = self._read(lambda cursor: cursor.read_batch())
            except ClientError:
                if not found:
                    raise
                break
            if batch is None:
                break
            found.append(batch)
            size += len(batch.data)
        return found

    def take_chunk(self) -> list[ConsumerRecord]:
        """Return records for an iteration, whose positions move when it continues.

        What is left of them is returned again if something else is called before they are all used; the list
        is emptied then, which ends the iteration.
        """
        state = self._next_state()
        cursor = None if state is None else self._cursor_of(state)
        if state is None or cursor is None:
            return []
        with self._lock:
            if state.cursor is not cursor:
                return []
        read = cursor.read_records(self._settings.max_poll_records)
        records = self._interceptors.consumed(list(read)) if self._interceptors and read else list(read)
        with self._lock:
            if state.cursor is not cursor:
                return []
            if not records:
                self._advance(state, cursor, is_at_end=not read)
                return []
            self._chunk, self._chunk_of = records, state
            self.current = None
        return records

    # Called with the lock.

    def begin_read(
        self, partitions: Container[TopicPartition]
    ) -> tuple[PartitionPosition, FetchedCursor] | None:
        """Return the cursor of one of these partitions that has something to take, each in turn.

        What is read of it, without the lock, counts after `finish_read`. Raises as `take_records`.
        """
        while (state := self._positions.next_with_data(partitions)) is not None:
            cursor = self._next_cursor(state)
            if cursor is not None:
                return state, cursor
        return None

    def finish_read(self, state: PartitionPosition, cursor: FetchedCursor, *, is_at_end: bool) -> bool:
        """Move the position to that of the cursor; return False if something else has moved it meanwhile."""
        if state.cursor is not cursor or self._positions.get(state.partition) is not state:
            return False
        self._advance(state, cursor, is_at_end=is_at_end)
        return True

    def take_back(self, partition: TopicPartition, offset: int | None) -> None:
        """Continue at an offset that was passed, by default where it is; cursors before that are void."""
        state = self._positions.get(partition)
        if state is not None and state.position is not None:
            state.seek(state.position if offset is None else offset, state.epoch)
            self._request_pump()

    def has_data_of(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether there is something to take of these."""
        states = (self._positions.get(each) for each in partitions)
        return any(state is not None and state.has_data for state in states)

    @property
    def has_chunk(self) -> bool:
        """Return whether records are there that an iteration has not returned."""
        return bool(self._chunk)

    def position_of(self, state: PartitionPosition) -> int | None:
        """Return the position of a partition after what an iteration has returned."""
        if state is self._chunk_of and self.current is not None:
            return self.current.offset + 1
        return state.position

    def mark_chunk(self) -> None:
        """Move the position to what an iteration has returned."""
        state, current = self._chunk_of, self.current
        if state is None or state.cursor is None or current is None:
            return
        if self._chunk and current is self._chunk[-1]:
            self._advance(state, state.cursor, is_at_end=False)
        else:
            state.position = current.offset + 1

    def end_chunk(self) -> None:
        """End an iteration; what it has not returned is returned again."""
        state = self._chunk_of
        if state is None:
            return
        self.mark_chunk()
        chunk, self._chunk, self._chunk_of = self._chunk, [], None
        current, self.current = self.current, None
        if state.cursor is not None and chunk and current is not chunk[-1]:
            state.cursor.go_back_to(chunk[0].offset if current is None else current.offset + 1)
        chunk.clear()

    def raise_error(self, state: PartitionPosition) -> None:
        """Raise the error that is next in a partition, or reset its position."""
        error = state.buffer.popleft()
        if not isinstance(error, ClientError):
            raise AssertionError("the next is an error")
        self._request_pump()
        is_beyond = isinstance(error, ErrorResponse) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE
        if is_beyond or isinstance(error, LogTruncated):
            if self._settings.auto_offset_reset != "none":
                state.seek_to(self._settings.auto_offset_reset)
                return
            if is_beyond:
                error = NoOffset(str(state.partition), f"the log does not have {state.fetch_offset}")
        if isinstance(error, CorruptRecords):
            # It stays there until something seeks past it.
            state.buffer.appendleft(error)
        raise error

    # What follows from it.

    def _cursor_of(self, state: PartitionPosition) -> FetchedCursor | None:
        with self._lock:
            return self._next_cursor(state)

    def _next_cursor(self, state: PartitionPosition) -> FetchedCursor | None:
        """Return the cursor in the data of a partition; raise the error that is there instead of data."""
        if state.cursor is None and state.buffer:
            found = state.buffer[0]
            if isinstance(found, ClientError):
                self.raise_error(state)
                return None
            state.buffer.popleft()
            state.cursor = FetchedCursor(found, self._settings)
        return state.cursor

    def _read(self, read: Callable[[FetchedCursor], Any]) -> Any:
        """Return what `read` gets of the next cursor that is not at its end; None if there is none."""
        while (state := self._next_state()) is not None:
            cursor = self._cursor_of(state)
            if cursor is None:
                continue
            found = read(cursor)
            with self._lock:
                if state.cursor is not cursor:
                    continue
                self._advance(state, cursor, is_at_end=not found)
            if found:
                return found
        return None

    def _next_state(self) -> PartitionPosition | None:
        with self._lock:
            return self._positions.next_with_data()

    def _advance(self, state: PartitionPosition, cursor: FetchedCursor, *, is_at_end: bool) -> None:
        state.position = cursor.next_offset
        state.epoch = cursor.epoch if cursor.epoch != NO_EPOCH else state.epoch
        if is_at_end:
            state.cursor = None
            state.buffered_bytes -= len(cursor.fetched.data)
            self._request_pump()
