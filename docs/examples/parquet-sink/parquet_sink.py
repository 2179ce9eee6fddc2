"""Writes what is committed into Parquet files, each record exactly once."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path

import trio

from tidelog.kernel import ConfigKey, hookimpl
from tidelog.kernel.config import integer, string
from tidelog.kernel.disk import sync_directory
from tidelog.kernel.errors import OffsetBelowLogStart
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.seams import sinks

TIDELOG_INTERFACE = "1.0"
log = logging.getLogger(__name__)
PATH = ConfigKey(
    name="path",
    type=string(non_empty=True),
    default="",
    required=True,
    documentation="The directory of the files; it is created if it is missing.",
)
FILE_BYTES = ConfigKey(
    name="file.max.bytes",
    type=integer(1),
    default=16_000_000,
    documentation="How many bytes of a log become one file at most, at least one record batch.",
)
INTERVAL_MS = ConfigKey(
    name="interval.ms",
    type=integer(1),
    default=10_000,
    documentation="How long records are collected before a file is written, in milliseconds.",
)


class ParquetSink:
    """Files are named by the offsets that they cover, so they say how far the sink has got."""

    def __init__(self, context: sinks.SinkContext) -> None:
        self.config = context.config
        self.path = Path(context.config[PATH])
        self.positions: dict[Path, int] = {}

    async def run(self, feed: sinks.SinkFeed) -> None:
        async for changes in feed:
            for change in changes:
                if isinstance(change, sinks.Committed):
                    await self.copy(change.log, change.next_offset, feed)
            # What is committed meanwhile becomes one range.
            with trio.move_on_after(self.config[INTERVAL_MS] / 1000):
                await feed.wait_stopping()

    async def copy(self, source: sinks.CommittedLog, until: int, feed: sinks.SinkFeed) -> None:
        topic, partition = source.topic_partition
        # A topic that is deleted and created again counts its offsets from 0 again.
        folder = self.path / f"topic={topic}" / f"topic_id={source.topic_id}" / f"partition={partition}"
        if folder not in self.positions:
            self.positions[folder] = await trio.to_thread.run_sync(resume, folder, source.log_start_offset)
        try:
            async for chunk in source.read(self.positions[folder], until, max_bytes=self.config[FILE_BYTES]):
                await trio.to_thread.run_sync(write_file, folder, chunk)
                self.positions[folder] = chunk.next_offset
                source.delivered(chunk.next_offset)
                if feed.stopping:
                    return
        except OffsetBelowLogStart as error:
            log.warning("records are lost: %s", error)
            self.positions[folder] = error.log_start_offset
            await self.copy(source, until, feed)


def resume(folder: Path, start: int) -> int:
    """Return where the newest file ends, without any `start`."""
    folder.mkdir(parents=True, exist_ok=True)
    for draft in folder.glob(".*.parquet"):
        draft.unlink()
    return max((int(file.stem.partition("-")[2]) for file in folder.glob("[0-9]*.parquet")), default=start)


def write_file(folder: Path, chunk: sinks.CommittedChunk) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    records = (record for header, data in chunk.batches for record in iter_records(data, header))
    rows = [record for record in records if record.offset >= chunk.first_offset]
    if not rows:
        return
    columns = {
        "offset": pa.array([row.offset for row in rows], pa.int64()),
        "timestamp": pa.array([row.timestamp for row in rows], pa.timestamp("ms", "UTC")),
        "key": pa.array([row.key for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
    }
    # The file is there as a whole or not at all, also after a power failure.
    name = f"{chunk.first_offset:020}-{chunk.next_offset:020}.parquet"
    draft = folder / f".{name}"
    with draft.open("wb") as stream:
        pq.write_table(pa.table(columns), stream)
        stream.flush()
        os.fsync(stream.fileno())
    draft.rename(folder / name)
    sync_directory(folder)


class ParquetKind:
    name = "parquet"
    keys = (PATH, FILE_BYTES, INTERVAL_MS)

    def create(self, context: sinks.SinkContext) -> ParquetSink:
        return ParquetSink(context)


@hookimpl
def tidelog_sinks() -> Iterable[sinks.SinkKind]:
    return [ParquetKind()]
