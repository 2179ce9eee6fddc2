"""Bytes of a log as a storage returns them: in memory, or as a region of a file."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import attrs


class WouldBlock(Exception):
    """The bytes are not in memory; repeat the call in a thread with `wait=True`."""


class OpenFile(Protocol):
    """A file that stays readable as long as this object is referenced, even after it was deleted."""

    def fileno(self) -> int:
        """Return the descriptor, for `sendfile` and `pread`."""
        ...

    def resident(self, position: int, size: int) -> bool:
        """Return whether these bytes seem to be in memory, so that sending them does not block; cheap."""
        ...

    def prefetch(self, position: int, size: int) -> None:
        """Blocking: read these bytes into memory."""
        ...

    def report_error(self, error: OSError) -> None:
        """Take note that reading or sending the file failed; any thread may call this."""
        ...


@attrs.frozen
class FileRegion:
    """`size` bytes of a file from `position` on: what `sendfile` can send without copying."""

    file: OpenFile
    position: int
    size: int


Region: TypeAlias = bytes | memoryview | FileRegion


@attrs.frozen
class LogSlice:
    """Consecutive batches of a log in one or more regions; the last batch may be incomplete.

    All offsets in it are below `end_offset`, which may be further than its last batch.
    """

    regions: Sequence[Region]
    size: int
    end_offset: int = 0


EMPTY_SLICE = LogSlice((), 0)


def region_bytes(region: Region) -> bytes | memoryview:
    """Blocking: return all bytes of a region.

    Raises:
        OSError: the disk refused, or the file ends before the region does.
    """
    if not isinstance(region, FileRegion):
        return region
    try:
        parts = _parts_of(region)
    except OSError as error:
        region.file.report_error(error)
        raise
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _parts_of(region: FileRegion) -> list[bytes]:
    fd, position, end = region.file.fileno(), region.position, region.position + region.size
    parts: list[bytes] = []
    while position < end:
        part = os.pread(fd, end - position, position)
        if not part:
            # Another program has truncated the file. Not EIO, by which a storage would take its directory for
            # failed.
            raise OSError(errno.ENODATA, f"a file ended at byte {position}, {end - position} bytes too early")
        parts.append(part)
        position += len(part)
    return parts
