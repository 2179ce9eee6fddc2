"""The conformance suite of sinks passes a right one, and each fault is caught by a test of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest
import trio

from tidelog.kernel import ConfigKey, hookimpl
from tidelog.kernel.config import string
from tidelog.kernel.errors import OffsetBelowLogStart
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.sinks import Committed, CommittedLog, Sink, SinkContext, SinkFeed, SinkKind
from tidelog.kernel.testing.sinks import Delivered, SinkConformance, SinkHarness

PATH = ConfigKey(name="path", type=string(), default="", required=True, documentation="The directory.")


@attrs.define
class Lines:
    """A right sink: a line of JSON for each record in one file for each log, and the offset that follows.

    A line that was not written to its end is truncated at the next start. Subclasses do one thing wrong.
    """

    folder: Path
    positions: dict[Path, int] = attrs.field(factory=dict[Path, int])

    async def run(self, feed: SinkFeed) -> None:
        """Deliver until the end."""
        async for changes in feed:
            for change in changes:
                if isinstance(change, Committed):
                    await self.copy(change.log, change.next_offset)

    def file_of(self, log: CommittedLog) -> Path:
        """The file of a log."""
        topic, partition = log.topic_partition
        return self.folder / f"{topic}-{partition}-{log.topic_id}"

    def resume(self, log: CommittedLog, file: Path) -> int:
        """Where to begin; half a line at the end of the file is dropped."""
        content = file.read_bytes() if file.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            file.write_bytes(whole)
        lines = whole.splitlines()
        return json.loads(lines[-1])["next"] if lines else log.log_start_offset

    def wanted(self, record: Record) -> bool:
        """Whether to deliver a record."""
        del record
        return True

    async def copy(self, log: CommittedLog, until: int) -> None:
        """Write what is committed below `until`."""
        file = self.file_of(log)
        if file not in self.positions:
            self.positions[file] = self.resume(log, file)
        try:
            async for chunk in log.read(self.positions[file], until):
                records = [
                    record
                    for batch in chunk.batches
                    for record in iter_records(batch.data, batch.header)
                    if record.offset >= chunk.first_offset and self.wanted(record)
                ]
                await self.write(file, records, log)
                self.positions[file] = chunk.next_offset
        except OffsetBelowLogStart as error:
            self.positions[file] = error.log_start_offset
            await self.copy(log, until)

    async def write(self, file: Path, records: Sequence[Record], log: CommittedLog) -> None:
        """Append lines."""
        topic, partition = log.topic_partition
        lines = [
            json.dumps(
                {
                    "record": [topic, partition, each.offset, _text(each.key), _text(each.value)],
                    "next": each.offset + 1,
                }
            )
            + "\n"
            for each in records
        ]
        with file.open("a") as stream:
            stream.write("".join(lines))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def delivered(folder: Path) -> list[Delivered]:
    """The whole lines of all files."""
    found: list[Delivered] = []
    for file in folder.iterdir():
        for line in file.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                topic, partition, offset, key, value = json.loads(line)["record"]
                found.append(Delivered(topic, partition, offset, _bytes(key), _bytes(value)))
    return found


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def plugin_of(make: Callable[[Path], Sink]) -> ModuleType:
    """A plugin with one kind of sink."""

    class Kind:
        name = "lines"
        keys = (PATH,)

        def create(self, context: SinkContext) -> Sink:
            return make(Path(context.config[PATH]))

    @hookimpl
    def tidelog_sinks() -> Sequence[SinkKind]:
        return [Kind()]

    module = ModuleType(f"lines_{id(make)}")
    vars(module)["tidelog_sinks"] = tidelog_sinks
    return module


SETTINGS = {"path": "{folder}"}


class TestLines(
    SinkConformance, plugin=plugin_of(Lines), settings=SETTINGS, delivered=delivered, exactly_once=True
):
    """The right one."""


class Forgetful(Lines):
    """Begins again at the log start after each start."""

    def resume(self, log: CommittedLog, file: Path) -> int:
        """Whatever the file says."""
        return log.log_start_offset


class Skipping(Lines):
    """Begins at the end of the log, as a consumer with `auto.offset.reset=latest` does."""

    def resume(self, log: CommittedLog, file: Path) -> int:
        """Miss what was there before."""
        return max(super().resume(log, file), log.end_offset - 1)


class Picky(Lines):
    """Leaves records without a value out."""

    def wanted(self, record: Record) -> bool:
        """Whether it has a value."""
        return record.value is not None


class Careless(Lines):
    """Reads past transactions, whatever it is told."""

    async def copy(self, log: CommittedLog, until: int) -> None:
        """Read what is not committed."""
        log._isolation = Isolation.READ_UNCOMMITTED  # type: ignore[attr-defined]  # pyright: ignore
        await super().copy(log, log.high_watermark)


class Nearsighted(Lines):
    """Takes a topic of the same name for the same topic."""

    def file_of(self, log: CommittedLog) -> Path:
        """Without the topic's id."""
        topic, partition = log.topic_partition
        return self.folder / f"{topic}-{partition}"


class Blocking(Lines):
    """Waits on the event loop."""

    async def write(self, file: Path, records: Sequence[Record], log: CommittedLog) -> None:
        """Sleep as a slow disk does."""
        time.sleep(0.6)  # noqa: ASYNC251 that is the fault
        await super().write(file, records, log)


class Hanging(Lines):
    """Does not end with its feed."""

    async def run(self, feed: SinkFeed) -> None:
        """Go on for ever."""
        await super().run(feed)
        await trio.sleep_forever()


class Leaking(Lines):
    """Leaves a task behind."""

    async def run(self, feed: SinkFeed) -> None:
        """Start one that no nursery ends."""
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        await super().run(feed)


class Early(Lines):
    """Notes how far it is before it has delivered, and is interrupted in between."""

    async def write(self, file: Path, records: Sequence[Record], log: CommittedLog) -> None:
        """Write positions first."""
        await super().write(file, records[-1:], log)
        await trio.lowlevel.checkpoint()
        await super().write(file, records[:-1], log)


class Fragile(Lines):
    """Fails when a log was trimmed."""

    async def copy(self, log: CommittedLog, until: int) -> None:
        """Do not expect the error."""
        file = self.file_of(log)
        self.positions.setdefault(file, self.resume(log, file))
        async for chunk in log.read(self.positions[file], until):
            self.positions[file] = chunk.next_offset


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """The errors in groups of any depth."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves_of(each)
    else:
        yield error


NEVER = {"are not delivered", "did not end within"}
"""What is waited for in vain; all else comes, on a busy machine after seconds."""


@pytest.mark.parametrize(
    ("wrong", "test", "message"),
    [
        (Forgetful, "a_sink_resumes_when_the_broker_is_started_again", "delivered more than once"),
        (Forgetful, "a_sink_resumes_after_a_crash_at_any_time", "delivered more than once"),
        (Forgetful, "a_sink_resumes_after_its_reads_have_failed", "delivered more than once"),
        (Skipping, "records_that_were_there_before_the_sink_are_delivered", "are not delivered"),
        (Picky, "every_committed_record_is_delivered", "are not delivered"),
        (Careless, "aborted_and_open_transactions_are_not_delivered", "that were not committed"),
        (Nearsighted, "a_topic_that_is_created_again_is_another_one", "are not delivered"),
        (Blocking, "the_event_loop_is_never_blocked", "blocking calls belong in a thread"),
        (Hanging, "a_sink_ends_when_the_broker_stops", "did not end within"),
        (Leaking, "a_sink_ends_when_the_broker_stops", "a task of the sink is still running"),
        (Early, "a_sink_resumes_when_the_broker_is_started_again", "delivered more than once"),
        (Fragile, "deleted_records_are_left_out", "are not delivered"),
    ],
)
def test_a_wrong_sink_is_caught(
    wrong: type[Lines], test: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if message in NEVER:
        monkeypatch.setattr("tidelog.kernel.testing.sinks.PATIENCE_S", 1.0)
    module = plugin_of(wrong)

    class Suite(
        SinkConformance, plugin=module, settings=SETTINGS, delivered=delivered, exactly_once=True
    ): ...

    suite: Any = Suite()
    harness: SinkHarness = suite.make_harness(next(iter(module.tidelog_sinks())), tmp_path)
    run = getattr(suite, f"test_{test}")
    patched = {"monkeypatch": monkeypatch} if test.startswith("a_sink_resumes_after") else {}

    async def play() -> None:
        await run(harness, **patched)

    with pytest.raises((AssertionError, ExceptionGroup)) as found:
        trio.run(play)
    del sys.modules[module.__name__]
    assert [message in str(each) for each in leaves_of(found.value)] == [True]
