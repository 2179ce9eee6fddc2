"""Reading a partition's segment files, where the log directory of its broker is on the same host.

    DIRECTORY/TOPIC-PARTITION/partition.metadata          topic_id: 22 characters
                              00000000000000000000.log    record batches
                              00000000000000000000.index  int32 offset - base offset, int32 place in the .log

A broker writes, replaces and deletes these files meanwhile, so all of this is optional: where a file is not
as expected, the rest of the range is read from the broker. Source: Kafka documentation, "Log".
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

import numpy as np

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.records import HEADER_BYTES, parse_header
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client import FetchedBatch, iter_batches
from tidelog.plugins.spark_sink.ranges import OffsetRange

READ_BYTES: Final = 4 * 1024 * 1024
_SEGMENT_NAME_DIGITS: Final = 20
_INDEX_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])


def find_local_log(folders: Iterable[Path], partition: TopicPartition, topic_id: UUID | None) -> Path | None:
    """Return the directory of a partition, None if no folder has one of the topic with this id."""
    if topic_id is None:
        return None
    encoded = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=")
    for folder in folders:
        directory = folder / str(partition)
        try:
            metadata = (directory / "partition.metadata").read_bytes()
        except OSError:
            continue
        if b"topic_id: " + encoded in metadata.splitlines():
            return directory
    return None


class LocalLog:
    """Reader of a range of offsets in the segment files of a partition; `position` is the next offset."""

    def __init__(self, directory: Path, wanted: OffsetRange, *, read_committed: bool) -> None:
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
            for base_offset, path in self._segments():
                for header, data in self._segment_batches(base_offset, path):
                    if self._read_committed and header.is_transactional:
                        return
                    if header.next_offset > self.position:
                        if not header.is_control:
                            yield header, data
                        self.position = header.next_offset
                    if self.position >= self._stop:
                        return
        except (OSError, BrokerError):
            # Replaced or deleted meanwhile, or not as expected: the broker knows better.
            return

    def _segments(self) -> list[tuple[int, Path]]:
        """Return the segments that may have offsets of the range, in their order."""
        found = sorted(
            (int(path.stem), path)
            for path in self._directory.glob("*.log")
            if len(path.stem) == _SEGMENT_NAME_DIGITS and path.stem.isdigit()
        )
        first = max((i for i, (base, _) in enumerate(found) if base <= self.position), default=len(found))
        return [each for each in found[first:] if each[0] < self._stop]

    def _segment_batches(self, base_offset: int, path: Path) -> Iterator[FetchedBatch]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            place = self._place(descriptor, base_offset, path.with_suffix(".index"))
            while content := whole_batches(descriptor, place):
                for header, data in iter_batches(memoryview(content)):
                    place += len(data)
                    yield header, data
        finally:
            os.close(descriptor)

    def _place(self, descriptor: int, base_offset: int, index: Path) -> int:
        """Return the place of a batch at or below the position: by the index, if there is a usable one."""
        if self.position <= base_offset:
            return 0
        try:
            content = index.read_bytes()
        except OSError:
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


def whole_batches(descriptor: int, place: int) -> bytes:
    """Return bytes from `place` on with one whole batch at least, empty at the end of the file."""
    content = os.pread(descriptor, READ_BYTES, place)
    if len(content) < HEADER_BYTES:
        return b""
    size = parse_header(content).size
    if size > len(content):
        content = os.pread(descriptor, size, place)
    return content if size <= len(content) else b""
