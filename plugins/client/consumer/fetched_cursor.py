"""Cursor in fetched data of a partition: its batches, and the records of the batch that is being read."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from tidelog.plugins.client.consumer.record_batch import RecordBatch
from tidelog.plugins.client.errors import CorruptRecords, DecodingFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.plugins.client.batches import FetchedBatch
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.fetched import Fetched


class FetchedCursor:
    """Reads one fetch response of a partition, record by record or batch by batch.

    Attributes:
        fetched: the response
        next_offset: the position after what was read
        epoch: leader epoch of the batch that was read last, -1 before
    """

    def __init__(self, fetched: Fetched, settings: ConsumerSettings) -> None:
        self.fetched = fetched
        self.next_offset = fetched.offset
        self.epoch = -1
        self._settings = settings
        self._batches: Iterator[FetchedBatch] = fetched.committed_batches(check_crcs=settings.check_crcs)
        self._records: list[ConsumerRecord] = []
        self._index = 0
        self._after_batch = fetched.offset
        self._decoded = 0
        self._failure: CorruptRecords | None = None

    def read_batch(self) -> RecordBatch | None:
        """Return the next batch, or what is left of one that is partly read; None at the end.

        Raises:
            CorruptRecords: it cannot be read; the cursor stays before it, and raises the same again.
        """
        first = self.fetched.offset
        if self._index < len(self._records):
            first = self._records[self._index].offset
            # That batch once more: no more of it is kept than its records.
            self._batches = self.fetched.committed_batches(check_crcs=False)
            self._records, self._index = [], 0
        found = self._next()
        while found is not None and found[0].last_offset < first:
            found = self._next()
        if found is None:
            self.next_offset = max(self.next_offset, self.fetched.next_offset())
            return None
        self.next_offset = found[0].next_offset
        return RecordBatch(self.fetched.partition, *found, first)

    def read_records(self, most: int) -> list[ConsumerRecord]:
        """Return the next records, at most so many, of one batch; none at the end. Raises as `read_batch`.

        Raises:
            DecodingFailed: a decoder has raised; the cursor is before that record.
        """
        while self._index >= len(self._records):
            found = self._next()
            if found is None:
                self.next_offset = max(self.next_offset, self.fetched.next_offset())
                return []
            batch = RecordBatch(self.fetched.partition, *found, self.fetched.offset)
            try:
                self._records = batch.records()
            except CorruptRecords as error:
                self._failure = error
                raise
            self._index = self._decoded = 0
            self._after_batch = batch.next_offset
            if not self._records:
                self.next_offset = batch.next_offset
        stop = min(self._index + most, len(self._records))
        if self._settings.key_decoder is not None or self._settings.value_decoder is not None:
            stop = self._decode(stop)
        records = self._records
        found_records = records if stop - self._index == len(records) else records[self._index : stop]
        self._move_to(stop)
        return found_records

    def go_back_to(self, offset: int) -> None:
        """Continue at an offset among the records of the batch that was read last."""
        self._move_to(bisect_left(self._records, offset, key=lambda record: record.offset))

    def _move_to(self, index: int) -> None:
        self._index = index
        is_whole = index >= len(self._records)
        self.next_offset = self._after_batch if is_whole else self._records[index].offset

    def _next(self) -> FetchedBatch | None:
        if self._failure is not None:
            raise self._failure
        try:
            found = next(self._batches, None)
        except CorruptRecords as error:
            self._failure = error
            raise
        if found is not None:
            self.epoch = found[0].leader_epoch
        return found

    def _decode(self, stop: int) -> int:
        """Replace keys and values of records up to an index; return the index up to which it was possible."""
        key_decoder, value_decoder = self._settings.key_decoder, self._settings.value_decoder
        for index in range(max(self._index, self._decoded), stop):
            record, part = self._records[index], "key"
            try:
                key, value = record.key, record.value
                if key_decoder is not None and key is not None:
                    key = key_decoder(key)
                part = "value"
                if value_decoder is not None and value is not None:
                    value = value_decoder(value)
            except Exception as error:
                if index > self._index:
                    return index
                raise DecodingFailed(str(self.fetched.partition), record.offset, part, error) from error
            record.key, record.value = key, value
            self._decoded = index + 1
        return stop
