"""Rewriting one batch by the answers of an interceptor: every record that stays keeps its offset.

A batch that comes out has the header of the one that went in, but for length, count and CRC: the sequence of
its producer, its transaction and its offsets stay. Hidden records leave gaps, as compaction does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from tidelog.kernel.errors import InvalidRecord, MessageTooLarge, RecordError
from tidelog.kernel.records.batch import CODEC_MASK, BatchHeader, Buffer, pack_batch
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.record import MIN_TIMESTAMP, Record, encode_record, iter_with_bytes
from tidelog.kernel.seams.interceptors import BatchInfo, RefusedRecord

MAX_REWRITTEN_BYTES: Final = 32 * 1024 * 1024
"""Limit of the records of a rewritten batch before they are compressed, which are in memory as a whole."""
MAX_REFUSED: Final = 100
"""Records of a batch that are reported as refused; then the rest is not looked at."""

Answer: TypeAlias = Record | RefusedRecord | None
Answers: TypeAlias = Callable[[BatchInfo, Iterator[Record]], Iterable[Answer]]
"""The method of an interceptor that answers for each record of a batch."""


class MisuseError(Exception):
    """An interceptor returned what is no answer, or not one for each record."""


class _Given(NamedTuple):
    """A record as it was handed out, and its bytes."""

    record: Record
    content: bytes


class _Source:
    """The records of a batch, handed out one by one; `count` of them were."""

    def __init__(self, records: Iterator[tuple[Record, bytes]], turn: Callable[[], None]) -> None:
        self._records = records
        self._turn = turn
        self._given: _Given | None = None
        self.count = 0

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        if self._given is not None:
            raise MisuseError("a record was taken before there was an answer for the one before it")
        self._turn()
        self._given = given = _Given(*next(self._records))
        self.count += 1
        return given.record

    def answered(self) -> _Given:
        """Return the record that an answer is for, and allow the next one to be taken."""
        given, self._given = self._given, None
        if given is None:
            raise MisuseError("there is an answer more than records were taken")
        return given


def rewritten(
    answers: Answers, info: BatchInfo, batch: Buffer, turn: Callable[[], None], *, may_hide: bool
) -> bytearray | None:
    """Return the batch as the answers make it, None if each record stays as it is.

    `turn` is called before each record and may raise what ends the work. With `may_hide` an answer may be
    None, else `RefusedRecord`. `batch` is one whole batch of format 2 whose header is that of `info`.

    Raises:
        InvalidRecord: records are refused; each is reported.
        CorruptBatch: the records are malformed.
        MessageTooLarge: the records that come out have more than 32 MiB.
        MisuseError: the answers are not one for each record.
        Exception: whatever the interceptor raises.
    """
    header = info.header
    source = _Source(iter_with_bytes(batch, header, MAX_REWRITTEN_BYTES), turn)
    out, changed, kept, refused = bytearray(), False, 0, list[RecordError]()
    for answer in answers(info, source):
        record, content = source.answered()
        if answer is record:
            out += content
        elif isinstance(answer, Record):
            changed = True
            _encode(out, answer, record, header)
        elif answer is None and may_hide:
            changed = True
            continue
        elif isinstance(answer, RefusedRecord) and not may_hide:
            refused.append(RecordError(source.count - 1, answer.message))
            if len(refused) == MAX_REFUSED:
                break
        else:
            raise MisuseError(f"{answer!r} is no answer for a record")
        kept += 1
        if len(out) > MAX_REWRITTEN_BYTES:
            raise MessageTooLarge(f"the records exceed {MAX_REWRITTEN_BYTES} bytes when they are rewritten")
    if refused:
        raise InvalidRecord(_summary(refused), refused)
    if source.count != header.record_count:
        raise MisuseError(f"{header.record_count} records got {source.count} answers")
    return _packed(header, out, kept) if changed else None


def _encode(out: bytearray, answer: Record, record: Record, header: BatchHeader) -> None:
    if answer.offset != record.offset:
        raise MisuseError(f"the record at offset {record.offset} became one at {answer.offset}")
    # Readers add in 64 bits, as Java does.
    delta = (answer.timestamp - header.base_timestamp - MIN_TIMESTAMP) % 2**64 + MIN_TIMESTAMP
    moved = Record(answer.offset, delta, answer.key, answer.value, answer.headers)
    encode_record(out, moved, header.base_offset, 0)


def _packed(header: BatchHeader, records: bytearray, count: int) -> bytearray:
    codec = header.codec
    if not count:
        # As compaction leaves a batch without records.
        return pack_batch(header._replace(record_count=0, attributes=header.attributes & ~CODEC_MASK), b"")
    packed = compress(codec, records) if codec else records
    return pack_batch(header._replace(record_count=count), packed)


def _summary(refused: list[RecordError]) -> str:
    first = refused[0]
    more = f", and {len(refused) - 1} more records are refused" if len(refused) > 1 else ""
    return f"record {first.batch_index}: {first.message}{more}"
