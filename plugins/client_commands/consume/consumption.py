"""Reading records, filtering and printing them."""

from __future__ import annotations

import re
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import attrs

from tidelog.plugins.client.consumer.consumer import Consumer
from tidelog.plugins.client_commands.chosen_topics import ChosenTopic, selected
from tidelog.plugins.client_commands.consume.record_reader import GroupReading, RecordReader
from tidelog.plugins.client_commands.options import CommandFailed, connected, errors_in_words
from tidelog.plugins.client_commands.records.command_options import made, security_of
from tidelog.plugins.client_commands.records.progress import ProgressBar
from tidelog.plugins.client_commands.records.record_errors import RecordErrors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client_commands.consume.output_formats import OutputFormat
    from tidelog.plugins.client_commands.consume.read_range import End, Start
    from tidelog.plugins.client_commands.consume.record_filters import RecordFilter

_COMMIT_EVERY_S: Final = 1.0


@attrs.frozen
class ReadPlan:
    """What to read and how.

    Attributes:
        chosen: topics and partitions
        pattern: or all topics with names that match it as a whole, None for none
        group: the group whose member reads, None for none
        start: where to begin; in a group where nothing is committed
        end: where to stop
        most: number of records to print, None for all
        passes: which records are printed, None for all
        show: what is printed of each
        has_progress: show a progress bar
    """

    chosen: Sequence[ChosenTopic]
    pattern: str | None
    group: str | None
    start: Start
    end: End
    most: int | None
    passes: RecordFilter | None
    show: OutputFormat
    has_progress: bool


class RecordPrinter:
    """Prints records to a file until there were enough; those that cannot be shown are errors."""

    def __init__(self, plan: ReadPlan, file: BinaryIO, errors: RecordErrors) -> None:
        self.printed = 0
        self._plan = plan
        self._file = file
        self._errors = errors

    @property
    def is_done(self) -> bool:
        """Return whether there were enough."""
        return self._plan.most is not None and self.printed >= self._plan.most

    def print(self, records: Sequence[ConsumerRecord]) -> ConsumerRecord:
        """Print the records that pass; return the last one that was looked at.

        Raises:
            BrokenPipeError: no one reads the output any more.
        """
        passes, show = self._plan.passes, self._plan.show
        lines: list[bytes] = []
        last = records[0]
        for record in records:
            if self.is_done:
                break
            last = record
            if passes is not None and not passes(record):
                continue
            try:
                lines.append(show(record))
            except ValueError as error:
                where = f"{record.topic}-{record.partition}, offset {record.offset}"
                self._errors.report(where, error)
            else:
                self.printed += 1
        if lines:
            self._file.write(b"".join(lines))
            self._file.flush()
        return last


def print_records(plan: ReadPlan, bootstrap: str, timeout_s: float, options: Mapping[str, Any]) -> None:
    """Read with a consumer that has these options, and print.

    Raises:
        CommandFailed: no broker answers, something does not exist, or a record could not be shown.
    """
    partitions = _partitions(plan, bootstrap, timeout_s, options)
    errors = RecordErrors()
    limit_ms = timeout_s * 1000
    known = {
        "default_api_timeout_ms": limit_ms,
        "request_timeout_ms": limit_ms,
        "socket_connection_setup_timeout_ms": limit_ms,
        "fetch_max_wait_ms": min(500, int(limit_ms / 2)),
    }
    with ExitStack() as stack:
        stack.enter_context(errors_in_words())
        consumer = stack.enter_context(made(Consumer, bootstrap, {**known, **options}))
        reader = RecordReader(consumer, plan.end, timeout_s)
        group: GroupReading | None = None
        if plan.group is None:
            reader.assign(partitions, plan.start)
        else:
            group = GroupReading(consumer, reader)
            topics = sorted({each.topic for each in plan.chosen})
            consumer.subscribe(topics, pattern=plan.pattern, listener=group)
        shown = plan.has_progress and not plan.end.is_followed
        bar = stack.enter_context(ProgressBar("Reading", "offsets", reader.total(), is_shown=shown))
        _print_chunks(RecordPrinter(plan, sys.stdout.buffer, errors), reader, group, bar)
    errors.fail_if_any("printed")


def _print_chunks(
    printer: RecordPrinter, reader: RecordReader, group: GroupReading | None, bar: ProgressBar
) -> None:
    committed_at = time.monotonic()
    for records in reader.chunks():
        reader.processed(printer.print(records))
        if printer.is_done:
            return
        if group is not None and time.monotonic() > committed_at + _COMMIT_EVERY_S:
            group.commit()
            committed_at = time.monotonic()
        if bar.is_shown:
            bar.update(printer.printed, reader.done())


def _partitions(
    plan: ReadPlan, bootstrap: str, timeout_s: float, options: Mapping[str, Any]
) -> list[TopicPartition]:
    """Return what is read now; of a group it is only checked that there is something."""
    with connected(bootstrap, timeout_s, security_of(options)) as client:
        chosen = plan.chosen
        if plan.pattern is not None:
            pattern = re.compile(plan.pattern)
            topics = client.metadata().topics
            chosen = [ChosenTopic(name, None) for name in sorted(topics) if pattern.fullmatch(name)]
            if not chosen and plan.group is None:
                raise CommandFailed(f"No topic matches {plan.pattern!r}. `tidelog topics list` lists them.")
        return selected(client, chosen)
