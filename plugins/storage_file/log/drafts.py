"""The drafts of one log: which of them may still replace segments, and whose the files of a name are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.seams.storage import StaleDraft
from tidelog.plugins.storage_file.log.operations import Change, Operation, Operations, UnderWay
from tidelog.plugins.storage_file.segments.draft import FileSegmentDraft

if TYPE_CHECKING:
    from tidelog.kernel.seams.storage import SegmentDraft
    from tidelog.plugins.storage_file.segments.creation import SegmentSettings


class Drafts:
    """Drafts that were begun and neither used nor discarded, by base offset; any thread may use it."""

    __slots__ = ("_beginning", "_begun", "_operations")

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._begun: dict[int, DraftLease] = {}
        self._beginning = threading.Lock()

    def begin(
        self, directory: Callable[[], str], base_offset: int, settings: SegmentSettings
    ) -> FileSegmentDraft:
        """Blocking: begin a draft; one of the same base offset, whose files it takes, is stale from now on.

        Raises:
            LogBusy: see `operations.RULES`.
            OSError: the disk refused.
        """
        lease = DraftLease(self, base_offset)
        lease.under_way = self._operations.begin(Operation.DRAFT, lease.changes.append)
        try:
            with self._beginning:
                older = self._begun.pop(base_offset, None)
                if older is not None:
                    older.end("another draft was begun at its base offset")
                draft = FileSegmentDraft(directory(), base_offset, settings, lease)
                self._begun[base_offset] = lease
        except OSError:
            lease.end("it could not be begun")
            raise
        return draft

    def check(self, drafts: Sequence[SegmentDraft]) -> list[FileSegmentDraft]:
        """Drafts that may be used in this log now.

        Raises:
            StaleDraft: one of them may not.
        """
        mine = [draft for draft in drafts if isinstance(draft, FileSegmentDraft)]
        if len(mine) < len(drafts):
            raise StaleDraft("a draft is not of this store")
        for draft in mine:
            self._lease_of(draft).check()
        return mine

    def check_up_to_date(
        self, drafts: Sequence[FileSegmentDraft], start_offset: int, end_offset: int
    ) -> None:
        """Make sure that what is to be replaced is what the drafts were made of.

        Raises:
            StaleDraft: some of it was itself put in by a replacement, since a draft was begun.
        """
        for draft in drafts:
            for change in self._lease_of(draft).changes:
                if change.start_offset < end_offset and start_offset < change.end_offset:
                    raise StaleDraft(
                        f"segments in {start_offset} to {end_offset} were replaced since the draft at "
                        f"{draft.base_offset} was begun"
                    )

    def use(self, drafts: Sequence[FileSegmentDraft]) -> None:
        """Note that the files of drafts become segments."""
        for draft in drafts:
            self.take(self._lease_of(draft), "it was used")

    def _lease_of(self, draft: FileSegmentDraft) -> DraftLease:
        lease = draft.lease
        if not isinstance(lease, DraftLease) or not lease.is_of(self):
            raise StaleDraft(f"the draft at {draft.base_offset} is of another store")
        return lease

    def take(self, lease: DraftLease, why: str) -> bool:
        """End a draft; whether the files of its name were its own until now."""
        with self._beginning:
            own = self._begun.get(lease.base_offset) is lease
            if own:
                del self._begun[lease.base_offset]
        lease.end(why)
        return own

    def end(self, under_way: UnderWay) -> None:
        """Let the operation of a draft end."""
        self._operations.end(under_way)


class DraftLease:
    """What binds a draft to its log; `changes` are replacements since it was begun."""

    __slots__ = ("_drafts", "_ended", "base_offset", "changes", "under_way")

    def __init__(self, drafts: Drafts, base_offset: int) -> None:
        self._drafts = drafts
        self._ended = ""
        self.base_offset = base_offset
        self.changes: list[Change] = []
        self.under_way: UnderWay

    def is_of(self, drafts: Drafts) -> bool:
        """Whether the draft belongs to the log of `drafts`."""
        return self._drafts is drafts

    def check(self) -> None:
        """Make sure that the draft may still be written and used.

        Raises:
            StaleDraft: it may not.
        """
        why, aborted_by = self._ended, self.under_way.aborted_by
        if aborted_by is not None:
            why = f"the log has had a {aborted_by.value} since it was begun"
        if why:
            raise StaleDraft(f"the draft at {self.base_offset} is stale: {why}")

    def end(self, why: str) -> None:
        """Note that the draft is none any more."""
        self._ended = self._ended or why
        self._drafts.end(self.under_way)

    def release(self) -> bool:
        """End the draft when it is discarded; whether it has files to remove."""
        return self._drafts.take(self, "it was discarded")
