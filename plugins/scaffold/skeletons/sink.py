"""A sink: appends a line of JSON for each committed record to a file for each partition, once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import trio

from tidelog.kernel import ConfigKey, hookimpl
from tidelog.kernel.config import string
from tidelog.kernel.errors import OffsetBelowLogStart
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.seams.sinks import Committed, CommittedLog, Sink, SinkContext, SinkFeed, SinkKind

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

PATH = ConfigKey(
    name="path", type=string(), default="", required=True, documentation="The directory of the files."
)


class SkeletonSink:
    """One run of a sink: how far each file is says the file itself, which outlives the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._positions: dict[Path, int] = {}

    async def run(self, feed: SinkFeed) -> None:
        """Deliver until the feed ends."""
        async for changes in feed:
            for change in changes:
                if isinstance(change, Committed):
                    await self._copy(change.log, change.next_offset)

    async def _copy(self, log: CommittedLog, until: int) -> None:
        topic, partition = log.topic_partition
        # With the id: a topic that is created again under its name is another one.
        file = self._folder / f"{topic}-{partition}-{log.topic_id}.jsonl"
        if file not in self._positions:
            found = await trio.to_thread.run_sync(resume, file)
            self._positions[file] = log.log_start_offset if found is None else found
        try:
            async for chunk in log.read(self._positions[file], until):
                records = [
                    record
                    for batch in chunk.batches
                    for record in iter_records(batch.data, batch.header)
                    if record.offset >= chunk.first_offset
                ]
                # Blocking calls belong in a thread.
                await trio.to_thread.run_sync(partial(append_lines, file, records))
                self._positions[file] = chunk.next_offset
                log.delivered(chunk.next_offset)
        except OffsetBelowLogStart as error:
            self._positions[file] = error.log_start_offset
            await self._copy(log, until)


def resume(file: Path) -> int | None:
    """Return the offset behind the last line, None without one; a line that is cut off is removed."""
    content = file.read_bytes() if file.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        file.write_bytes(whole)
    lines = whole.splitlines()
    return json.loads(lines[-1])["offset"] + 1 if lines else None


def append_lines(file: Path, records: Sequence[Record]) -> None:
    """Append records to a file; keys and values are in hexadecimal, as they need not be text."""
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(
            json.dumps({"offset": each.offset, "key": _hex(each.key), "value": _hex(each.value)}) + "\n"
            for each in records
        )


def _hex(content: bytes | None) -> str | None:
    return None if content is None else content.hex()


class SkeletonSinkKind:
    """What tables `[sinks.skeleton.NAME]` choose."""

    name = "skeleton"
    keys = (PATH,)

    def create(self, context: SinkContext) -> Sink:
        """Return a sink for one run."""
        return SkeletonSink(Path(context.config[PATH]))


@hookimpl
def tidelog_sinks() -> Iterable[SinkKind]:
    """Offer the sink."""
    return [SkeletonSinkKind()]


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of the sink."""
    from tidelog.plugins.scaffold.skeletons.sink_conformance import SkeletonSinkConformance

    return [SkeletonSinkConformance]
