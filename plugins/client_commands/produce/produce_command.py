"""`tidelog produce`: sends records of arguments, files and standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.kernel.cli.options import LocalPath
from tidelog.plugins.client_commands.command_config import security_options
from tidelog.plugins.client_commands.options import CLIENT_ID, broker_options
from tidelog.plugins.client_commands.records.command_options import (
    client_option,
    encoding_options,
    parse_escaped,
    parse_moment,
)

if TYPE_CHECKING:
    from tidelog.plugins.client_commands.records.encodings import RecordEncoding

_EPILOG = """\b
Examples:
  tidelog produce orders "a cup of tea" "a slice of cake"
  tidelog produce orders < orders.txt
  tidelog produce orders -K : -H source=till < orders.txt
  tidelog produce orders --key "table 7" --tombstone
  tidelog produce photos --file a.jpg --file b.jpg --whole-files -z zstd
  tidelog produce orders --format json --file orders.jsonl --rate 100
  tidelog consume orders --format json | tidelog produce --format json -b other:9092
  tidelog produce orders --transactional-id till-1 --file orders.txt

\b
Exit codes: 0 all records are in the log, 1 one is not, 2 wrong usage, 130 interrupted.
"""


def _headers(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for text in given:
        name, equals, value = text.partition("=")
        if not name:
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE, or NAME for null.")
        found.append((name, value.encode(errors="surrogateescape") if equals else None))
    return found


@click.command("produce", epilog=_EPILOG, short_help="Send records of arguments, files or standard input.")
@click.argument("topic", required=False)
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=LocalPath(path_type=Path, allow_dash=True),
    metavar="PATH",
    help="Read records of a file, - for standard input, instead of VALUE; repeatable.",
)
@click.option("--whole-files", is_flag=True, help="Each file is one record.")
@click.option(
    "--format",
    "input_format",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="json: a line is an object such as `tidelog consume --format json` prints; its topic and partition "
    "are used unless the command names them.",
)
@click.option(
    "-D",
    "--delimiter",
    default="\\n",
    show_default=True,
    callback=parse_escaped,
    metavar="TEXT",
    help="What is between records; \\n, \\t, \\r, \\0 and \\xNN are understood.",
)
@click.option(
    "-K",
    "--key-delimiter",
    callback=parse_escaped,
    metavar="TEXT",
    help="What is between key and value; without it there are no keys.",
)
@click.option("-k", "--key", "given_key", metavar="KEY", help="The key of all records that have none.")
@encoding_options
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    callback=_headers,
    metavar="NAME=VALUE",
    help="A header of all records, NAME alone for one with null; repeatable.",
)
@click.option("-Z", "--null-empty", is_flag=True, help="Empty keys and values are null (tombstones).")
@click.option("--tombstone", is_flag=True, help="Send one record whose value is null, with --key.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="The partition of all records.")
@click.option(
    "--partitioner",
    type=click.Choice(
        ["murmur2", "murmur2_random", "consistent", "consistent_random", "sticky", "round_robin", "random"]
    ),
    default="murmur2",
    show_default=True,
    metavar="NAME",
    help="How a partition is chosen otherwise: murmur2 as Java does, consistent_random as librdkafka does, "
    "murmur2_random, consistent, sticky, round_robin or random.",
)
@click.option(
    "--timestamp",
    "timestamp_ms",
    callback=parse_moment,
    metavar="TIME",
    help="The timestamp of all records: 2026-11-01T12:00:00Z, milliseconds since the epoch, or 1h ago as 1h.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    type=click.Choice(["partition", "timestamp", "headers"]),
    help="What is not taken from JSON records; repeatable.",
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    metavar="CODEC",
    help="gzip, snappy, lz4 or zstd.",
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option(
    "--idempotence/--no-idempotence",
    default=None,
    help="Whether retries append nothing twice.  [default: if the broker can]",
)
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Send all records in one transaction, which is aborted if one of them fails.",
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Records per second, at most.")
@click.option("--stop-on-error", is_flag=True, help="Read no more after the first error.")
@click.option("--offsets", "prints_places", is_flag=True, help="Print topic, partition and offset of each.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors alone: no counts, no progress bar.")
@client_option
@broker_options
def command(
    *,
    topic: str | None,
    values: tuple[str, ...],
    files: tuple[Path, ...],
    whole_files: bool,
    input_format: str,
    delimiter: bytes,
    key_delimiter: bytes | None,
    given_key: str | None,
    key_encoding: RecordEncoding,
    value_encoding: RecordEncoding,
    headers: list[tuple[str, bytes | None]],
    null_empty: bool,
    tombstone: bool,
    partition: int | None,
    partitioner: str,
    timestamp_ms: int | None,
    ignored: tuple[str, ...],
    compression: str,
    acks: str,
    idempotence: bool | None,
    transactional_id: str | None,
    rate: float | None,
    stop_on_error: bool,
    prints_places: bool,
    quiet: bool,
    options: dict[str, Any],
    bootstrap_server: str,
    timeout: float,
) -> None:
    """Send records to a topic, each line of standard input unless VALUE or --file says otherwise.

    An error of one record is reported, and the others are sent. Works with tidelog and with Apache Kafka.
    """
    if topic is None and input_format != "json":
        raise click.UsageError("Name the topic; only records of --format json name their own.")
    if tombstone and (values or files or given_key is None):
        raise click.UsageError("--tombstone is one record with --key and no value.")
    if values and files:
        raise click.UsageError("Give values or files, not both.")
    if not delimiter:
        raise click.UsageError("--delimiter is not empty; --whole-files makes one record of a file.")
    client = {
        "client_id": CLIENT_ID,
        "acks": acks if acks == "all" else int(acks),
        "compression_type": compression,
        "enable_idempotence": idempotence,
        "partitioner": partitioner,
        "transactional_id": transactional_id,
        **security_options(),
        **options,
    }

    from tidelog.plugins.client_commands.produce.record_input import InputFormat, input_of
    from tidelog.plugins.client_commands.produce.record_sender import SendPlan, send_records
    from tidelog.plugins.client_commands.records.json_lines import InputRecord

    source = input_of(("",) if tombstone else values, files, None if whole_files else delimiter)
    key = _encoded_key(given_key, key_encoding)
    plan = SendPlan(
        source=source,
        form=InputFormat(
            key_encoding, value_encoding, input_format == "json", key_delimiter, null_empty or tombstone
        ),
        defaults=InputRecord(None, key, headers, topic, partition, timestamp_ms),
        ignored=frozenset(ignored),
        rate=rate,
        stops_on_error=stop_on_error or transactional_id is not None,
        prints_places=prints_places,
        is_quiet=quiet,
        has_progress=sys.stderr.isatty() and not (quiet or source.is_typed),
    )
    send_records(plan, bootstrap_server, timeout, client)


def _encoded_key(given: str | None, encoding: RecordEncoding) -> bytes | None:
    if given is None:
        return None
    try:
        return encoding.from_input(given.encode(errors="surrogateescape"))
    except ValueError as error:
        raise click.BadParameter(f"it is no {encoding.name}: {error}.", param_hint="--key") from error
