"""A segment that is rewritten into `.cleaned` files, to replace others.

Source: seed 001, "The atomic, crash-safe swap".
"""

from __future__ import annotations

import os
from typing import Protocol

from tidelog.kernel.errors import InvalidRecord
from tidelog.kernel.records.batch import NO_TIMESTAMP, Buffer
from tidelog.kernel.seams.indexes import MAX_RELATIVE_OFFSET, IndexPlace
from tidelog.kernel.seams.storage import AbortedTransaction
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.indexes.transaction_index import TransactionIndex
from tidelog.plugins.storage_file.names import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, TXN_INDEX_SUFFIX
from tidelog.plugins.storage_file.recovery.segment_recovery import SegmentScan
from tidelog.plugins.storage_file.segments.creation import SegmentSettings
from tidelog.plugins.storage_file.segments.log_file import LogFile
from tidelog.plugins.storage_file.segments.segment import Segment


class Lease(Protocol):
    """What binds a draft to its log."""

    def check(self) -> None:
        """Raise `StaleDraft` when the draft may not be written any more."""
        ...

    def release(self) -> bool:
        """End the draft; whether it has files to remove."""
        ...


class FileSegmentDraft:
    """`SegmentDraft` in files; one thread writes it."""

    def __init__(self, directory: str, base_offset: int, settings: SegmentSettings, lease: Lease) -> None:
        """Create the `.log`; files that an earlier attempt left are removed.

        `lease` is what the log says of the draft.

        Raises:
            OSError: the disk refused.
        """
        self.lease = lease
        self._place = IndexPlace(directory, base_offset, CLEANED_SUFFIX)
        # Not truncated: an older draft may still hold the file open and write to it.
        disk.remove_if_there(self._place.path(LOG_SUFFIX))
        self._settings = settings
        self._sampler = settings.sampler(self._place)
        self._log = LogFile(self._place.path(LOG_SUFFIX), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._scan = SegmentScan(0, base_offset, NO_TIMESTAMP, 0)
        self._aborted = TransactionIndex(self._place)
        self._aborted.discard()

    @property
    def base_offset(self) -> int:
        """See `SegmentDraft.base_offset`."""
        return self._place.base_offset

    @property
    def next_offset(self) -> int:
        """See `SegmentDraft.next_offset`."""
        return self._scan.next_offset

    @property
    def size_bytes(self) -> int:
        """See `SegmentDraft.size_bytes`."""
        return self._scan.valid_bytes

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """See `SegmentDraft.append`."""
        self.lease.check()
        scan = self._scan
        if base_offset < scan.next_offset:
            raise ValueError(f"offsets {base_offset} to {last_offset} do not follow {scan.next_offset}")
        if last_offset - self._place.base_offset > MAX_RELATIVE_OFFSET:
            raise InvalidRecord(f"offset {last_offset} is too far from base offset {self._place.base_offset}")
        disk.write_all(self._log.fd, batch, scan.valid_bytes)
        self._sampler.add(base_offset, last_offset, scan.valid_bytes, max_timestamp)
        if not scan.batches:
            scan.first_timestamp = max_timestamp
        scan.batches += 1
        scan.next_offset = last_offset + 1
        scan.valid_bytes += len(batch)

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """See `SegmentDraft.add_aborted`."""
        self.lease.check()
        self._aborted.append(aborted)

    def finish(self, modified_ms: int) -> Segment:
        """Blocking: bring all to the device; the segment, which will be found under its `.swap` names.

        Raises:
            OSError: the disk refused.
        """
        path = self._place.path(LOG_SUFFIX)
        disk.ftruncate(self._log.fd, self._scan.valid_bytes)
        disk.set_modified(path, modified_ms)
        disk.fsync(self._log.fd)
        index = self._sampler.finish()
        sync_files([*index.files, *([self._aborted.path] if self._aborted.last_offset >= 0 else [])])
        swapped = IndexPlace(self._place.directory, self._place.base_offset, SWAP_SUFFIX)
        index.relocate(swapped)
        segment = self._settings.segment(swapped, index)
        segment.adopt(self._scan, self._sampler)
        segment.indexes_durable = True
        segment.modified_ms = modified_ms
        self._aborted.durable = True
        self._aborted.place = swapped
        segment.aborted = self._aborted
        return segment

    def discard(self) -> None:
        """See `SegmentDraft.discard`."""
        if not self.lease.release():
            return
        for suffix in (*self._settings.index_format.suffixes, TXN_INDEX_SUFFIX, LOG_SUFFIX):
            disk.remove_if_there(self._place.path(suffix))


def create_stand_in(directory: str, base_offset: int) -> None:
    """Blocking: an empty `.log.cleaned`, for a segment of which nothing is left."""
    disk.write_file(IndexPlace(directory, base_offset, CLEANED_SUFFIX).path(LOG_SUFFIX), b"", durable=True)


def sync_files(paths: list[str]) -> None:
    """Blocking: bring files to the device.

    Raises:
        OSError: the disk refused.
    """
    for path in paths:
        fd = disk.open_file(path, os.O_RDONLY)
        try:
            disk.fsync(fd)
        finally:
            disk.close(fd)
