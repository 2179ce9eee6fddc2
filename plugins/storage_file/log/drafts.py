"""Drafts: segments that are rewritten into `.cleaned` files, to replace others of the same log.

Source: Kafka documentation, "Log Compaction".
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel import disk
from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.kernel.seams.storage import StaleDraft, WrittenBatch
from tidelog.plugins.storage_file.indexes.transaction_index import TransactionIndex
from tidelog.plugins.storage_file.log.operations import Change, Operation, Operations, UnderWay
from tidelog.plugins.storage_file.log_file import LogFile
from tidelog.plugins.storage_file.names import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, TXN_INDEX_SUFFIX
from tidelog.plugins.storage_file.segments.transfer import FileDraftWriter, WrittenLog

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import Buffer
    from tidelog.kernel.seams.storage import AbortedTransaction, SegmentDraft
    from tidelog.plugins.storage_file.segments.creation import SegmentSettings
    from tidelog.plugins.storage_file.segments.segment import Segment


class FileSegmentDraft:
    """`SegmentDraft` in files; one thread writes it.

    `under_way` is its operation on the log, `changes` are replacements in the log since it was begun.
    """

    def __init__(
        self,
        drafts: Drafts,
        under_way: UnderWay,
        changes: list[Change],
        place: IndexPlace,
        settings: SegmentSettings,
    ) -> None:
        """Create the `.log`; files that an earlier attempt left are removed.

        Raises:
            OSError: the disk refused.
        """
        self.under_way = under_way
        self.changes = changes
        self._drafts = drafts
        self._ended = ""
        self._place = place
        # Not truncated: an older draft may still hold the file open and write to it.
        disk.remove_if_there(place.path(LOG_SUFFIX))
        self._settings = settings
        self._log = LogFile(place.path(LOG_SUFFIX), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._writer = self.writer()
        self._written = self._writer.written
        self._aborted = TransactionIndex(place)
        self._aborted.discard()

    @property
    def base_offset(self) -> int:
        """Return the base offset of the draft."""
        return self._place.base_offset

    @property
    def next_offset(self) -> int:
        """The offset behind its last batch, `base_offset` without one."""
        return self._written.builder.next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        return self._written.builder.size

    def writer(self) -> FileDraftWriter:
        """Return a writer of the draft's file for another process."""
        return FileDraftWriter(self._log, self._place.base_offset, self._settings.index_interval_bytes)

    def take(self, written: object) -> None:
        """Take over what a writer has written.

        Raises:
            StaleDraft: the draft is stale.
            TypeError: it is not what a writer of such drafts returns.
        """
        self.check()
        if not isinstance(written, WrittenLog):
            raise TypeError(f"a draft in files cannot take over {type(written).__name__}")
        self._written = written

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch. See `SegmentDraft` for errors."""
        self.check()
        self._writer.append(batch, (WrittenBatch(base_offset, last_offset, len(batch), max_timestamp),))

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker is in this segment.

        Raises:
            StaleDraft: the draft is stale.
        """
        self.check()
        self._aborted.append(aborted)

    def finish(self, modified_ms: int) -> Segment:
        """Blocking: bring all to the device; return the segment, which will be found under its `.swap` names.

        Raises:
            OSError: the disk refused.
        """
        builder = self._written.builder
        # An append that the disk refused may have left bytes behind the last batch.
        disk.ftruncate(self._log.fd, builder.size)
        disk.set_modified(self._place.path(LOG_SUFFIX), modified_ms)
        disk.fsync(self._log.fd)
        settings = self._settings
        index = self._written.finish_index(settings.index_format.build(self._place, settings.index_bytes))
        _sync_files([*index.files, *([self._aborted.path] if self._aborted.last_offset >= 0 else [])])
        swapped = IndexPlace(self._place.directory, self._place.base_offset, SWAP_SUFFIX)
        index.relocate(swapped)
        segment = settings.segment(swapped, index)
        segment.adopt(builder)
        segment.indexes_durable = True
        segment.modified_ms = modified_ms
        self._aborted.durable = True
        self._aborted.place = swapped
        segment.aborted = self._aborted
        return segment

    def discard(self) -> None:
        """Remove it without replacing anything; no error when it is stale or removed already."""
        if not self._drafts.take(self, "it was discarded"):
            return
        for suffix in (*self._settings.index_format.suffixes, TXN_INDEX_SUFFIX, LOG_SUFFIX):
            disk.remove_if_there(self._place.path(suffix))

    def check(self) -> None:
        """Raise `StaleDraft` when the draft may not be written and used any more."""
        why, aborted_by = self._ended, self.under_way.aborted_by
        if aborted_by is not None:
            why = f"the log has had a {aborted_by.value} since it was begun"
        if why:
            raise StaleDraft(f"the draft at {self.base_offset} is stale: {why}")

    def end(self, why: str) -> None:
        """Make the draft stale."""
        self._ended = self._ended or why

    def is_of(self, drafts: Drafts) -> bool:
        """Return whether it belongs to the log of `drafts`."""
        return self._drafts is drafts


class Drafts:
    """Drafts of one log that were begun and neither used nor discarded, by base offset.

    Any thread may use it. The files of a base offset belong to the draft that was begun last.
    """

    __slots__ = ("_beginning", "_begun", "_operations")

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._begun: dict[int, FileSegmentDraft] = {}
        self._beginning = threading.Lock()

    def begin(
        self, directory: Callable[[], str], base_offset: int, settings: SegmentSettings
    ) -> FileSegmentDraft:
        """Blocking: begin a draft; one of the same base offset, whose files it takes, is stale from now on.

        Raises:
            LogBusy: see `operations.RULES`.
            OSError: the disk refused.
        """
        changes: list[Change] = []
        under_way = self._operations.begin(Operation.DRAFT, changes.append)
        try:
            with self._beginning:
                older = self._begun.pop(base_offset, None)
                if older is not None:
                    self._end(older, "another draft was begun at its base offset")
                # The directory is asked for after the operation began: a replica move, which changes it,
                # aborts the draft from then on.
                place = IndexPlace(directory(), base_offset, CLEANED_SUFFIX)
                draft = FileSegmentDraft(self, under_way, changes, place, settings)
                self._begun[base_offset] = draft
        except OSError:
            self._operations.end(under_way)
            raise
        return draft

    def check(self, drafts: Sequence[SegmentDraft]) -> list[FileSegmentDraft]:
        """Return drafts that may be used in this log now.

        Raises:
            StaleDraft: one of them may not.
        """
        mine = [draft for draft in drafts if isinstance(draft, FileSegmentDraft)]
        if len(mine) < len(drafts):
            raise StaleDraft("a draft is not of this store")
        for draft in mine:
            if not draft.is_of(self):
                raise StaleDraft(f"the draft at {draft.base_offset} is of another store")
            draft.check()
        return mine

    def check_up_to_date(
        self, drafts: Sequence[FileSegmentDraft], start_offset: int, end_offset: int
    ) -> None:
        """Check that what is to be replaced is what the drafts were made of.

        Raises:
            StaleDraft: some of it was itself put in by a replacement, since a draft was begun.
        """
        for draft in drafts:
            for change in draft.changes:
                if change.start_offset < end_offset and start_offset < change.end_offset:
                    raise StaleDraft(
                        f"segments in {start_offset} to {end_offset} were replaced since the draft at "
                        f"{draft.base_offset} was begun"
                    )

    def use(self, drafts: Sequence[FileSegmentDraft]) -> None:
        """Note that the files of drafts become segments."""
        for draft in drafts:
            self.take(draft, "it was used")

    def take(self, draft: FileSegmentDraft, why: str) -> bool:
        """End a draft; return whether the files of its name were its own until now."""
        with self._beginning:
            own = self._begun.get(draft.base_offset) is draft
            if own:
                del self._begun[draft.base_offset]
        self._end(draft, why)
        return own

    def _end(self, draft: FileSegmentDraft, why: str) -> None:
        draft.end(why)
        self._operations.end(draft.under_way)


def _sync_files(paths: Sequence[str]) -> None:
    for path in paths:
        fd = disk.open_file(path, os.O_RDONLY)
        try:
            disk.fsync(fd)
        finally:
            disk.close(fd)
