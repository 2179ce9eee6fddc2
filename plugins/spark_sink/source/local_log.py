"""Reading a partition's segment files, where the log directory of its broker is on the same host.

    DIRECTORY/TOPIC-PARTITION/partition.metadata             topic_id: 22 characters
                              00000000000000000000.log       record batches
                              00000000000000000000.index     int32 offset - base offset, int32 place in .log
                              00000000000000000000.log.swap  is about to take the place of others

A broker writes, replaces and deletes these files meanwhile, so all of this is optional: where a file is not
as expected, the rest of the range is read from the broker. A segment that is missing looks like the gap that
a compaction leaves. So all segments of a range are open before one of them is read, and they are those of the
log at one time: it has the same ones afterwards, and none is about to be replaced.
Sources: Kafka documentation, "Log"; Apache Kafka's `SegmentFilesReader.replaceSegments` for `.swap`.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs
import numpy as np

from tidelog.kernel.errors import BrokerError, CorruptBatch
from tidelog.kernel.records import HEADER_BYTES, parse_header
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client import FetchedBatch, iter_batches
from tidelog.plugins.spark_sink.ranges import OffsetRange

READ_BYTES: Final = 4 * 1024 * 1024
_SEGMENT_NAME_DIGITS: Final = 20
_LOG, _SWAP = ".log", ".log.swap"
_INDEX_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])


_log = logging.getLogger(__name__)


def _log_unless_missing(error: OSError | BrokerError) -> None:
    """Log why a file is read from the broker instead; that one is gone is usual."""
    if not isinstance(error, FileNotFoundError):
        _log.warning("the broker is asked for what its files do not give: %s", error)


@attrs.frozen
class PartitionDirectory:
    """The directory at `path`, as long as it is of a partition of the topic with this id."""

    path: Path
    topic_id: UUID

    def is_of_topic(self) -> bool:
        """Return whether it is there, and of that topic; one of the same name may take its place."""
        encoded = base64.urlsafe_b64encode(self.topic_id.bytes).rstrip(b"=")
        try:
            metadata = (self.path / "partition.metadata").read_bytes()
        except OSError as error:
            _log_unless_missing(error)
            return False
        return b"topic_id: " + encoded in metadata.splitlines()


def find_local_log(
    folders: Iterable[Path], partition: TopicPartition, topic_id: UUID | None
) -> PartitionDirectory | None:
    """Return the directory of a partition, None if no folder has one of the topic with this id."""
    if topic_id is None:
        return None
    directories = (PartitionDirectory(folder / str(partition), topic_id) for folder in folders)
    return next((each for each in directories if each.is_of_topic()), None)


class SegmentFilesReader:
    """Reader of a range of offsets in the segment files of a partition; `position` is the next offset."""

    def __init__(self, directory: PartitionDirectory, wanted: OffsetRange, *, read_committed: bool) -> None:
        self._directory = directory
        self._stop = wanted.stop
        self._read_committed = read_committed
        self.position = wanted.start

    def batches(self) -> Iterator[FetchedBatch]:
        """Yield data batches up to the end of the range, or up to what cannot be read here.

        Whether a transaction was committed is not in its batches, so with `read_committed` the first one of a
        transaction is such an end.
        """
        try:
            with ExitStack() as files:
                for base_offset, descriptor in self._open_segments(files):
                    for header, data in self._segment_batches(base_offset, descriptor):
                        if self._read_committed and header.is_transactional:
                            return
                        if header.next_offset > self.position:
                            if not header.is_control:
                                yield header, data
                            self.position = header.next_offset
                        if self.position >= self._stop:
                            return
        except (OSError, BrokerError) as error:
            # Replaced or deleted meanwhile, or not as expected: the broker knows better.
            _log_unless_missing(error)
            return

    def _open_segments(self, files: ExitStack) -> list[tuple[int, int]]:
        """Return base offset and descriptor of the segments that may have offsets of the range, in order.

        There are none if they are not those of one time and of the topic.
        """
        bases = self._segments()
        opened: list[tuple[int, int]] = []
        for base_offset in bases:
            descriptor = os.open(self._path(base_offset, _LOG), os.O_RDONLY)
            files.callback(os.close, descriptor)
            opened.append((base_offset, descriptor))
        # Looked at again once all are open: none was replaced or deleted in between.
        return opened if self._segments() == bases and self._directory.is_of_topic() else []

    def _segments(self) -> list[int]:
        """Return the base offsets of these segments, none if others are about to take their place."""
        names = [path.name for path in self._directory.path.iterdir()]
        if any(base_offset < self._stop for base_offset in _base_offsets(names, _SWAP)):
            return []
        found = _base_offsets(names, _LOG)
        first = max((i for i, base in enumerate(found) if base <= self.position), default=len(found))
        return [each for each in found[first:] if each < self._stop]

    def _path(self, base_offset: int, suffix: str) -> Path:
        return self._directory.path / f"{base_offset:0{_SEGMENT_NAME_DIGITS}}{suffix}"

    def _segment_batches(self, base_offset: int, descriptor: int) -> Iterator[FetchedBatch]:
        place = self._place(descriptor, base_offset, self._path(base_offset, ".index"))
        while content := whole_batches(descriptor, place):
            for header, data in iter_batches(memoryview(content)):
                place += len(data)
                yield header, data

    def _place(self, descriptor: int, base_offset: int, index: Path) -> int:
        """Return the place of a batch at or below the position: by the index, if there is a usable one."""
        if self.position <= base_offset:
            return 0
        try:
            content = index.read_bytes()
        except OSError as error:
            _log_unless_missing(error)
            return 0
        entries = np.frombuffer(content, _INDEX_ENTRY, len(content) // _INDEX_ENTRY.itemsize)
        offsets = entries["offset"].astype(np.int64)
        # The rest of an active index may be zeros.
        falls = np.flatnonzero(np.diff(offsets) <= 0)
        used = offsets[: falls[0] + 1] if falls.size else offsets
        slot = int(np.searchsorted(used, self.position - base_offset, "right")) - 1
        if slot < 0:
            return 0
        place = int(entries["position"][slot])
        try:
            found = parse_header(os.pread(descriptor, HEADER_BYTES, place)).base_offset
        except BrokerError:
            return 0
        return place if base_offset <= found <= self.position else 0


def _base_offsets(names: Iterable[str], suffix: str) -> list[int]:
    """Return the base offsets of the segments that have a file with this suffix, in order."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if len(stem) == _SEGMENT_NAME_DIGITS and stem.isdigit())


def whole_batches(descriptor: int, place: int) -> bytes:
    """Return bytes from `place` on with one whole batch at least, empty at the end of the file.

    Raises:
        CorruptBatch: the file ends inside a batch.
    """
    content = os.pread(descriptor, READ_BYTES, place)
    if not content:
        return b""
    size = parse_header(content).size
    if size > len(content):
        content = os.pread(descriptor, size, place)
    if size > len(content):
        raise CorruptBatch(f"a segment file ends inside the batch at byte {place}")
    return content
