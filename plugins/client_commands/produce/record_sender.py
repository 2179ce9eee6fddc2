"""Sending the records of the input, as fast as brokers take them or at a rate."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tidelog.plugins.client.errors import ClientError, QueueFull
from tidelog.plugins.client.producer.producer import Producer
from tidelog.plugins.client_commands.options import CommandFailed, connected, errors_in_words
from tidelog.plugins.client_commands.records.command_options import made, security_of
from tidelog.plugins.client_commands.records.progress import ProgressBar
from tidelog.plugins.client_commands.records.record_errors import RecordErrors

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from tidelog.plugins.client.producer.delivery import Delivery
    from tidelog.plugins.client_commands.produce.record_input import InputFormat, Piece, RecordInput
    from tidelog.plugins.client_commands.records.json_lines import InputRecord

_SHOWN_EVERY: Final = 512
"""Records between two changes of the progress bar."""
_INTERRUPTED_S: Final = 5.0
"""How long what was read is still sent after Ctrl-C."""


@attrs.frozen
class SendPlan:
    """What to send and how.

    Attributes:
        source: the input
        form: what a piece means
        defaults: what is used where a record does not say it; its topic and partition are used for all
        ignored: fields of JSON records that are not used
        rate: records per second, None for no limit
        stops_on_error: nothing is read after an error
        prints_places: print topic, partition and offset of each record
        is_quiet: print errors alone
        has_progress: show a progress bar
    """

    source: RecordInput
    form: InputFormat
    defaults: InputRecord
    ignored: frozenset[str]
    rate: float | None
    stops_on_error: bool
    prints_places: bool
    is_quiet: bool
    has_progress: bool


class RecordSender:
    """Sends records with a producer, and counts what becomes of them.

    Attributes:
        read: records of the input
        acknowledged: those that are in a log
        value_bytes: bytes of their values
        failure: why places cannot be printed any more
    """

    def __init__(self, producer: Producer, plan: SendPlan, errors: RecordErrors, bar: ProgressBar) -> None:
        self.read = 0
        self.acknowledged = 0
        self.value_bytes = 0
        self.failure: OSError | None = None
        self._producer = producer
        self._plan = plan
        self._errors = errors
        self._bar = bar

    def send_all(self) -> None:
        """Send all records.

        Raises:
            CommandFailed: brokers take no more.
            OSError: the input cannot be read, or nothing can be printed any more.
        """
        plan = self._plan
        began = time.monotonic()
        for piece in plan.source.pieces:
            if plan.rate is not None:
                time.sleep(max(0.0, began + self.read / plan.rate - time.monotonic()))
            self.read += 1
            self._send(piece)
            if not self.read % _SHOWN_EVERY or plan.rate is not None:
                self._bar.update(self.read, piece.end)
            if self.failure is not None:
                raise self.failure
            if plan.stops_on_error and self._errors.count:
                return

    def _send(self, piece: Piece) -> None:
        defaults, ignored = self._plan.defaults, self._plan.ignored
        try:
            record = self._plan.form.parse(piece.data)
            topic = defaults.topic or record.topic
            if topic is None:
                raise ValueError("it names no topic, and the command names none")
            partition = None if "partition" in ignored else record.partition
            timestamp_ms = None if "timestamp" in ignored else record.timestamp_ms
            headers = () if "headers" in ignored else record.headers
            self._producer.send(
                topic,
                record.value,
                defaults.key if record.key is None else record.key,
                partition=partition if defaults.partition is None else defaults.partition,
                timestamp_ms=timestamp_ms if defaults.timestamp_ms is None else defaults.timestamp_ms,
                headers=[*headers, *defaults.headers],
                on_delivery=partial(self._delivered, piece.where, len(record.value or b"")),
            )
        except QueueFull as error:
            raise CommandFailed(f"Brokers take no more records: {error}.") from error
        except (ClientError, ValueError) as error:
            self._errors.report(piece.where, error)

    def _delivered(self, where: str, size: int, delivery: Delivery) -> None:
        # One thread of the producer calls it, so that counting needs no lock.
        error = delivery.exception()
        if error is not None:
            self._errors.report(where, error)
            return
        self.acknowledged += 1
        self.value_bytes += size
        if self._plan.prints_places and self.failure is None:
            place = delivery.result()
            try:
                click.echo(f"{place.topic}\t{place.partition}\t{place.offset}")
            except OSError as failure:
                self.failure = failure


def send_records(plan: SendPlan, bootstrap: str, timeout_s: float, options: Mapping[str, Any]) -> None:
    """Send records to the brokers with a producer that has these options.

    Raises:
        CommandFailed: no broker answers, or a record was not sent.
    """
    with connected(bootstrap, timeout_s, security_of(options)):
        # Nothing is read from a pipe before there is a broker.
        pass
    errors = RecordErrors()
    limit_ms = timeout_s * 1000
    known = {
        "max_block_ms": limit_ms,
        "request_timeout_ms": limit_ms,
        "socket_connection_setup_timeout_ms": limit_ms,
    }
    with (
        errors_in_words(),
        made(Producer, bootstrap, {**known, **options}) as producer,
        ProgressBar("Sending", "bytes", plan.source.total_bytes, is_shown=plan.has_progress) as bar,
    ):
        sender = RecordSender(producer, plan, errors, bar)
        with _until_interrupted(producer):
            if options.get("transactional_id") is None:
                sender.send_all()
            else:
                _send_in_transaction(producer, sender, errors)
    if not plan.is_quiet:
        _print_counts(sender, errors)
    errors.fail_if_any("sent")
    if sender.failure is not None:
        raise sender.failure


@contextmanager
def _until_interrupted(producer: Producer) -> Generator[None]:
    """Send what was read before Ctrl-C, for a short time: brokers may have vanished."""
    try:
        yield
    except KeyboardInterrupt:
        producer.close(_INTERRUPTED_S)
        raise


def _send_in_transaction(producer: Producer, sender: RecordSender, errors: RecordErrors) -> None:
    with producer.transaction():
        sender.send_all()
        producer.flush()
        if errors.count:
            raise CommandFailed("Nothing was sent: the transaction was aborted.")


def _print_counts(sender: RecordSender, errors: RecordErrors) -> None:
    count = sender.acknowledged
    failed = f", {errors.count} failed" if errors.count else ""
    text = f"{count} record{'s' * (count != 1)} sent, {sender.value_bytes} bytes of values{failed}."
    print(text, file=sys.stderr)
