"""Record batches: checked, appended, and gone through by every reader of records.

An input is a batch whose length and CRC are set right before it is used: a fuzzer cannot guess those.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.kernel.log.parts import compressed, open_partition, sent
from tests.kernel.records.odd_batches import mended
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.batch import HEADER_BYTES, parse_header
from tidelog.kernel.records.record import Record, iter_records, iter_timestamps
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.clock import START_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

_APPENDS_PER_PARTITION = 200
_SEARCHES_EVERY = 10


class Batches:
    """Partitions above memory: one as it comes, and a compacted one, whose records need keys."""

    def __init__(self) -> None:
        self._runs = 0
        self._plain, self._compacted = _partitions()

    def __enter__(self) -> Batches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def seeds(self) -> Sequence[bytes]:
        """Return batches of each codec, of producers, with keys, headers and times."""
        times = [START_MS + index for index in range(3)]
        plain = [
            make_batch([b"value"]),
            make_batch([b"a", None, b"c" * 100], keys=[b"k", b"", b"kk"], timestamps=times),
            sent(7, 0, 0, 3),
            make_batch([b"x"] * 30, keys=[b"k"] * 30),
            make_batch([b"t"], producer_id=9, producer_epoch=1, base_sequence=0, transactional=True),
            make_batch([b"\0\0\0\0\0\0"], keys=[b"\0\0\0\1"], control=True),
        ]
        packed = [compressed(batch, codec) for batch in plain[:4] for codec in (1, 2, 3, 4)]
        return [bytes(batch) for batch in (*plain, *packed)]

    def run(self, data: bytes) -> None:
        """Append it to both partitions, and read it in every way."""
        if len(data) < HEADER_BYTES:
            return
        batch = mended(data)
        _read(batch)
        self._append(self._plain, batch)
        self._append(self._compacted, batch)
        self._runs += 1
        if self._runs % _SEARCHES_EVERY == 0:
            self._search()
        if self._runs % _APPENDS_PER_PARTITION == 0:
            self._plain, self._compacted = _partitions()

    @staticmethod
    def _append(partition: UnifiedLog, batch: bytearray) -> None:
        copy, end = bytearray(batch), partition.log_end_offset
        try:
            partition.append_nowait(copy, in_transaction=True)
        except BrokerError:
            return
        if partition.log_end_offset > end:  # a retry is answered unread
            # What was let in can be read: the checker and the reader agree.
            header = parse_header(copy)
            records = list(iter_records(copy, header))
            assert len(records) == header.record_count
            assert [record.offset - header.base_offset for record in records] == [*range(len(records))]
            assert max(-1, *(record.timestamp for record in records)) == header.max_timestamp

    def _search(self) -> None:
        for partition in (self._plain, self._compacted):
            _refused_or_done(partial(partition.offset_for_timestamp, START_MS))
            _refused_or_done(partition.offset_of_max_timestamp)


def _read(batch: bytearray) -> None:
    header = parse_header(batch)
    _refused_or_done(lambda: _exhaust(iter_records(batch, header)))
    _refused_or_done(lambda: _exhaust(iter_timestamps(batch, header)))


def _exhaust(items: Iterable[Record | tuple[int, int]]) -> None:
    for _ in items:
        pass


def _refused_or_done(action: Callable[[], object]) -> None:
    try:
        action()
    except BrokerError:
        return


def _partitions() -> tuple[UnifiedLog, UnifiedLog]:
    compacted = TopicConfig({"cleanup.policy": ("compact",)})
    return open_partition(), open_partition(config=compacted)
