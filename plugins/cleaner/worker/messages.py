"""The messages between the broker and a worker; all of it is pickled.

    broker                          worker
    RewriteJob
                                    Progress, as often as anything was read, and while it waits
                                    GroupBegun      for each group of segments that become one
    GroupDraft
                                    Progress ...
                                    GroupWritten
    GroupReplaced
                                    JobDone or JobFailed

`Rate` may come after any `WorkerProgress`.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import attrs

from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.seams.cleanup import RecordFilter
from tidelog.kernel.seams.compression import CompressionCodec
from tidelog.kernel.seams.partition import LastBatch
from tidelog.kernel.seams.storage import AbortedTransaction, DraftWriter, SegmentSource


@attrs.frozen
class RewriteJob:
    """A log to rewrite; see `Rewrite` for most of it.

    `sources` are its inactive segments from the first on, `aborted` the aborted transactions with records or
    markers there, in the order of their markers. A group of segments becomes one of at most `segment_bytes`,
    with indexes of at most `index_bytes` each. `chunk_bytes` are read and worked
    on together. `codecs` are those of the broker, which the worker decompresses with. Of the segments that
    begin at `without_old_tombstones` tombstones of the formats 0 and 1 go.
    """

    label: str
    sources: Sequence[SegmentSource]
    until: int
    survey_from: int
    filter: RecordFilter
    now_ms: int
    delete_retention_ms: int
    aborted: Sequence[AbortedTransaction]
    segment_bytes: int
    index_bytes: int
    chunk_bytes: int
    bytes_per_second: float
    codecs: Sequence[CompressionCodec] = ()
    without_old_tombstones: Collection[int] = ()

    @property
    def horizon_ms(self) -> int:
        """From when on what this rewrite keeps for the first time may go; a retention may be for ever."""
        return min(self.now_ms + self.delete_retention_ms, LONG_MAX)

    def message_horizon_ms(self, source: SegmentSource) -> int:
        """Return the delete horizon of messages of the formats 0 and 1 in a segment, which have none."""
        return 0 if source.base_offset in self.without_old_tombstones else LONG_MAX


class GroupBegun(NamedTuple):
    """The segments with these base offsets are to become one."""

    base_offsets: Sequence[int]


class GroupDraft(NamedTuple):
    """What to write the group to, and the last batches of active producers now.

    So many open files of the writer follow the message; see `descriptors`.
    """

    writer: DraftWriter
    last_batches: Mapping[int, LastBatch]
    open_files: int = 0


class GroupWritten(NamedTuple):
    """What the draft takes over, and the aborted transactions of which something is left."""

    written: object
    aborted: Sequence[AbortedTransaction]


class GroupReplaced(NamedTuple):
    """The segments of the group were replaced."""


class WorkerProgress(NamedTuple):
    """Bytes that were read or written since the last time."""

    read_bytes: int
    written_bytes: int


class Rate(NamedTuple):
    """So much may be read and written from now on."""

    bytes_per_second: float


@attrs.frozen
class JobDone:
    """The log counts as rewritten below `until`. Counts of records and bytes, and the filter's own."""

    until: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_kept: int
    counts: Mapping[str, float]


class Failure(enum.Enum):
    """What kind of failure ended a job, and so whether it is done again."""

    GONE = enum.auto()
    """Files were removed, since the log was changed meanwhile, moved or deleted."""
    CORRUPT = enum.auto()
    """A part of the log cannot be read, now or later."""
    OTHER = enum.auto()
    """The disk refused, memory was short, the filter failed: it may pass, or be corrected."""


class JobFailed(NamedTuple):
    """Why the job was not done; the segments of groups that were not replaced are as they were."""

    reason: str
    failure: Failure = Failure.OTHER
