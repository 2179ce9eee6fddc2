"""The replacement of some segments of an open log by drafts.

The order of operations on the disk is in `segments/swap_files.py`. In memory the new segments replace the old
ones once it is decided; readers that hold regions of the old ones are not disturbed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from tidelog.kernel import disk
from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.plugins.storage_file.log.drafts import FileSegmentDraft
from tidelog.plugins.storage_file.names import CLEANED_SUFFIX, LOG_SUFFIX
from tidelog.plugins.storage_file.segments.log_segments import LogSegments
from tidelog.plugins.storage_file.segments.segment import Segment
from tidelog.plugins.storage_file.segments.swap_files import decide, finish, stand_ins, undo


class Replacement:
    """One call of `replace_segments`: if `prepare` fails nothing has changed; `complete` comes after it."""

    def __init__(
        self,
        directory: str,
        segments: LogSegments,
        drafts: Sequence[FileSegmentDraft],
        replaced: Sequence[int],
    ) -> None:
        """Check that the drafts fit in.

        Raises:
            ValueError: they do not; the message says why.
        """
        self._directory = directory
        self._segments = segments
        self._drafts = sorted(drafts, key=lambda draft: draft.base_offset)
        self._old = _run_of(segments.all, replaced)
        self._check()
        end = max([draft.next_offset for draft in self._drafts if draft.size_bytes], default=0)
        bases = [draft.base_offset for draft in self._drafts]
        self._stand_ins = [base for base in stand_ins(replaced, end) if base not in bases]
        self._bases = [*bases, *self._stand_ins]
        self._new: list[Segment] = []

    @property
    def start_offset(self) -> int:
        """Return the base offset of the first segment to replace."""
        return self._old[0].base_offset

    @property
    def end_offset(self) -> int:
        """The offset behind the segments that are replaced."""
        return self._old[-1].next_offset

    def _check(self) -> None:
        if not self._drafts or self._drafts[0].base_offset != self._old[0].base_offset:
            raise ValueError(f"the first draft does not begin at {self._old[0].base_offset}")
        limit = self._old[-1].next_offset
        for draft, following in zip(self._drafts, [*self._drafts[1:], None], strict=True):
            end = limit if following is None else following.base_offset
            # A segment that a loss of power left empty ends where it begins, and may be the one to replace.
            comes_first = following is None or draft.base_offset < following.base_offset
            if not draft.base_offset <= draft.next_offset <= end or not comes_first:
                raise ValueError(f"the draft at {draft.base_offset} reaches beyond {end}")

    def prepare(self) -> None:
        """Blocking: make everything durable, and decide.

        Raises:
            OSError: the disk refused; the old segments stay, nothing of the drafts does.
        """
        modified_ms = max(segment.view(active=False).last_modified_ms for segment in self._old)
        try:
            for base in self._stand_ins:
                _create_stand_in(self._directory, base)
            self._new = [draft.finish(modified_ms) for draft in self._drafts]
            decide(self._directory, self._bases)
        except OSError:
            with contextlib.suppress(OSError):
                undo(self._directory, self._bases)
            raise

    def complete(self, retire: Callable[[Segment], None]) -> None:
        """Blocking: publish the new segments, `retire` the old ones, give the new ones their names.

        Raises:
            OSError: the disk refused; the next start completes it.
        """
        front = self._segments.all[0] is not self._old[0]
        # As `_remove_marks` does on the disk: an empty segment stays only at the log's start.
        kept = [segment for index, segment in enumerate(self._new) if segment.size or not (front or index)]
        # In memory before the files: a reader whose view is older meets `removed`, and repeats with the new
        # ones.
        self._segments.replace(self._old, kept)
        for segment in self._old:
            retire(segment)
        finish(self._directory, self._bases)
        for segment in self._new:
            # A reader that used the `.swap` name after `finish` meets no file, waits for `changing` and
            # repeats.
            segment.relocate(IndexPlace(self._directory, segment.base_offset))


def _run_of(segments: Sequence[Segment], replaced: Sequence[int]) -> list[Segment]:
    """Return the segments with these base offsets.

    Raises:
        ValueError: they do not follow each other, or the active one is among them.
    """
    wanted = sorted(replaced)
    bases = [segment.base_offset for segment in segments[:-1]]
    start = bases.index(wanted[0]) if wanted and wanted[0] in bases else 0
    if not wanted or bases[start : start + len(wanted)] != wanted:
        raise ValueError(f"{wanted} are no inactive segments that follow each other; these are: {bases}")
    return list(segments[start : start + len(wanted)])


def _create_stand_in(directory: str, base_offset: int) -> None:
    """Blocking: create an empty `.log.cleaned`, for a segment of which nothing is left."""
    disk.write_file(IndexPlace(directory, base_offset, CLEANED_SUFFIX).path(LOG_SUFFIX), b"", durable=True)
