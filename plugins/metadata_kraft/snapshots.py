"""Snapshots: files that replace everything in the metadata log below their offset.

    00000000000000000174-0000000005.checkpoint      20 digits of the offset, 10 digits of the epoch before it

    batch   control     SnapshotHeader, and with `kraft.version` 1 KRaftVersion and KRaftVoters
    batches             framed metadata records; offsets count from 0 through the file
    batch   control     SnapshotFooter

A snapshot that is being written ends in `.part`, one that waits for its removal in `.deleted`.
Source: KIP-630; the bytes as Apache Kafka 4.4.0 writes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.kernel import disk
from tidelog.kernel.errors import BrokerError, CorruptBatch, UnsupportedMessageFormat
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, parse_header, verify_crc
from tidelog.kernel.records.record import iter_records
from tidelog.plugins.metadata_kraft.encoding import control_batch, control_type, data_batch, in_chunks
from tidelog.plugins.metadata_kraft.records.control import (
    CONTROL_TYPES,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from tidelog.plugins.schema.compiled import decode
from tidelog.plugins.schema.errors import CodecError

SUFFIX = ".checkpoint"
PART_SUFFIX = ".part"
DELETED_SUFFIX = ".deleted"
BATCH_BYTES = 1024 * 1024
"""Records go into batches of about this size, so that a reader never needs more memory than that."""
PREAMBLE_BYTES = 4096
"""More than the first batch of a single node's snapshot ever has."""

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint(\.part|\.deleted)?")


class SnapshotId(NamedTuple):
    """The end offset of a snapshot (exclusive), and the epoch of the last batch before it."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The name of the snapshot's file."""
        return f"{self.offset:020d}-{self.epoch:010d}{SUFFIX}"


def list_snapshots(directory: Path) -> list[SnapshotId]:
    """Blocking: return all complete snapshots, oldest first; remove what is left of others."""
    found: list[SnapshotId] = []
    with disk.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        if match[3]:
            disk.remove_if_there(directory / name)
        else:
            found.append(SnapshotId(int(match[1]), int(match[2])))
    return sorted(found)


def write_snapshot(
    path: Path, epoch: int, preamble: Sequence[object], values: Iterable[bytes], now_ms: int
) -> int:
    """Blocking: write a snapshot so that a crash leaves none or all of it; its size in bytes.

    `preamble` are the control messages of its first batch, the header first; `values` framed records.
    """
    part = f"{path}{PART_SUFFIX}"
    size = offset = 0
    fd = disk.open_file(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for batch, count in _batches(epoch, preamble, values, now_ms):
            disk.write_all(fd, batch, size)
            size += len(batch)
            offset += count
        # Before the file gets its name: one without `.part` counts as complete.
        disk.fsync(fd)
    finally:
        disk.close(fd)
    disk.rename(part, path)
    disk.sync_directory(path.parent)
    return size


def _batches(
    epoch: int, preamble: Sequence[object], values: Iterable[bytes], now_ms: int
) -> Iterator[tuple[bytearray, int]]:
    yield control_batch(preamble, 0, epoch, now_ms), len(preamble)
    offset = len(preamble)
    for chunk in in_chunks(values, BATCH_BYTES):
        yield data_batch(chunk, offset, epoch, now_ms), len(chunk)
        offset += len(chunk)
    yield control_batch([SnapshotFooterRecord()], offset, epoch, now_ms), 1


def read_snapshot(path: Path) -> list[tuple[BatchHeader, bytes]]:
    """Blocking: return a snapshot's batches, every one of them intact.

    Raises:
        CorruptBatch: it is damaged or not complete.
        OSError: it cannot be read.
    """
    content = disk.read_file(path)
    if content is None:
        raise CorruptBatch(f"{path} is not there")
    batches: list[tuple[BatchHeader, bytes]] = []
    position = 0
    while position < len(content):
        try:
            header = parse_header(content, position)
        except BrokerError as error:
            raise CorruptBatch(f"byte {position}: {error}") from None
        batch = content[position : position + header.size]
        if header.size < HEADER_BYTES or len(batch) < header.size or not verify_crc(batch, header):
            raise CorruptBatch(f"the batch at byte {position} is damaged")
        batches.append((header, batch))
        position += header.size
    kinds = [_first_control_type(header, batch) for header, batch in (batches[:1] + batches[-1:])]
    if kinds != [CONTROL_TYPES[SnapshotHeaderRecord], CONTROL_TYPES[SnapshotFooterRecord]]:
        raise CorruptBatch("it does not begin with a snapshot header and end with a footer")
    return batches


def snapshot_time(path: Path) -> int:
    """Blocking: return the time (milliseconds) of the last batch that a snapshot covers.

    Raises:
        CorruptBatch: it is damaged.
        OSError: it cannot be read.
    """
    fd = disk.open_file(path, os.O_RDONLY)
    try:
        batch = disk.read_up_to(fd, PREAMBLE_BYTES, 0)
    finally:
        disk.close(fd)
    try:
        value = next(iter_records(batch, parse_header(batch))).value or b""
        return decode(SnapshotHeaderRecord, 0, value).last_contained_log_timestamp
    except (CodecError, UnsupportedMessageFormat, StopIteration) as error:
        raise CorruptBatch(f"{path.name}: {error}") from None


def _first_control_type(header: BatchHeader, batch: bytes) -> int | None:
    if not header.is_control:
        return None
    for record in iter_records(batch, header):
        return control_type(record.key or b"")
    return None
