"""The process that compacts takes the dedupe buffer and 64 MiB at most, however full the buffer is."""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tidelog.kernel.testing import make_batch
from tidelog.plugins.cleaner.compaction import newest_offsets
from tidelog.plugins.cleaner.compaction.keep_newest import KeepNewest
from tidelog.plugins.cleaner.execution.rewriting import CHUNK_BYTES
from tidelog.plugins.cleaner.worker.descriptors import send_descriptors
from tidelog.plugins.cleaner.worker.messages import (
    GroupBegun,
    GroupDraft,
    GroupReplaced,
    GroupWritten,
    JobDone,
    JobFailed,
    RewriteJob,
)
from tidelog.plugins.cleaner.worker.process import WorkerProcess
from tidelog.plugins.storage_file.log_file import LogFile
from tidelog.plugins.storage_file.segments.transfer import FileDraftWriter, FileSegmentSource

BUFFER_BYTES = 1 << 19
LOAD_FACTOR = 0.9
BESIDES_BYTES = 64 << 20
VALUE_BYTES = 1024
LOG_BYTES = 24 << 20
SEGMENT_BYTES = 12 << 20


def segments_of(folder: Path) -> tuple[list[FileSegmentSource], int]:
    """Write batches of one record, whose offsets are as far apart as the filter can mark; return the end."""
    key = b"the key %012d"
    batch = make_batch([bytes(VALUE_BYTES)], keys=[key % 0])
    key_at = batch.index(key % 0)
    count = LOG_BYTES // len(batch)
    stride = newest_offsets.MARKED_OFFSETS // count
    sources: list[FileSegmentSource] = []
    per_segment = SEGMENT_BYTES // len(batch)
    for first in range(0, count, per_segment):
        path = folder / f"{first * stride:020}.log"
        with path.open("wb") as file:
            for number in range(first, min(first + per_segment, count)):
                # A batch that stays as it is may have any checksum.
                batch[key_at : key_at + len(key % 0)] = key % number
                batch[:8] = (number * stride).to_bytes(8)
                file.write(batch)
        sources.append(FileSegmentSource(str(path), first * stride, path.stat().st_size, per_segment))
    return sources, count * stride


def rewrite(folder: Path, job: RewriteJob) -> tuple[JobDone, int]:
    """Have a process do a job; return its answer, and the most bytes that it had resident."""
    process = WorkerProcess()
    try:
        broker: Connection[Any, Any] = process._connection  # pyright: ignore[reportPrivateUsage]
        broker.send(job)
        while not isinstance(message := broker.recv(), JobDone):
            assert not isinstance(message, JobFailed), message
            if isinstance(message, GroupBegun):
                path = folder / f"{message.base_offsets[0]}.cleaned"
                log = LogFile(str(path), os.O_RDWR | os.O_CREAT)
                writer = FileDraftWriter(log, message.base_offsets[0], 4096)
                broker.send(GroupDraft(writer, {}, 1))
                send_descriptors(broker, writer.descriptors())
            elif isinstance(message, GroupWritten):
                broker.send(GroupReplaced())
        status = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process._connection.close()  # pyright: ignore[reportPrivateUsage]
        process.kill()
    peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return message, peak_kib * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory of a process")
def test_worker_process_takes_64_mib_besides_the_dedupe_buffer_when_that_is_full(tmp_path: Path) -> None:
    sources, until = segments_of(tmp_path)
    job = RewriteJob(
        label="full-0",
        sources=sources,
        until=until,
        survey_from=0,
        filter=KeepNewest(0, BUFFER_BYTES, LOAD_FACTOR),
        now_ms=0,
        delete_retention_ms=0,
        aborted=(),
        segment_bytes=2 * LOG_BYTES,
        index_bytes=10 << 20,
        chunk_bytes=CHUNK_BYTES,
        bytes_per_second=float("inf"),
    )
    done, peak_bytes = rewrite(tmp_path, job)
    assert done.until < until
    assert done.counts["share of the buffer filled"] == pytest.approx(LOAD_FACTOR, rel=1e-3)
    assert peak_bytes <= BUFFER_BYTES + BESIDES_BYTES, f"{peak_bytes / 2**20:.1f} MiB"
