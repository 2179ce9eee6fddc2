"""`tidelog consume`: prints the records of topics."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click

from tidelog.plugins.client_commands.chosen_topics import ChosenTopic, chosen_topics
from tidelog.plugins.client_commands.command_config import security_options
from tidelog.plugins.client_commands.consume.read_range import End, Start, parse_start
from tidelog.plugins.client_commands.options import CLIENT_ID, broker_options
from tidelog.plugins.client_commands.records.command_options import (
    client_option,
    encoding_options,
    parse_escaped,
    parse_moment,
)

if TYPE_CHECKING:
    from tidelog.plugins.client_commands.consume.output_formats import OutputFormat
    from tidelog.plugins.client_commands.consume.record_filters import RecordFilter
    from tidelog.plugins.client_commands.records.encodings import RecordEncoding

_EPILOG = """\b
Examples:
  tidelog consume orders
  tidelog consume orders --follow
  tidelog consume orders -o -10
  tidelog consume orders:0,3 returns --since 1h
  tidelog consume orders --since 2026-11-01 --until 2026-11-02 --format json
  tidelog consume orders -f '%p %o %k: %v\\n'
  tidelog consume orders --where 'value.price > 5' --grep-header 'waiter=^A'
  tidelog consume --pattern 'sensor-.*' --value-format float64
  tidelog consume orders --group billing --count 100
  tidelog consume orders --format json | tidelog produce copies --format json

\b
Exit codes: 0 all was printed, 1 something failed, 2 wrong usage, 130 interrupted.
"""


@click.command("consume", epilog=_EPILOG, short_help="Print the records of topics.")
@click.argument("chosen", nargs=-1, metavar="[TOPIC[:PARTITION,...]]...", callback=chosen_topics)
@click.option("--pattern", metavar="REGEX", help="Topics with these names, instead of TOPIC.")
@click.option(
    "-o",
    "--offset",
    "start",
    callback=parse_start,
    metavar="OFFSET",
    help="Begin there in each partition: earliest, latest, an offset, or -10 for the last ten. latest "
    "implies --follow.  [default: earliest]",
)
@click.option(
    "--since",
    callback=parse_moment,
    metavar="TIME",
    help="Begin at the first record that is not older: 1h (ago), 2026-11-01T12:00:00Z, or milliseconds since "
    "the epoch.",
)
@click.option(
    "--until", callback=parse_moment, metavar="TIME", help="Stop before the first record from then on."
)
@click.option("--until-offset", type=click.IntRange(min=0), help="Stop before this offset in each partition.")
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after so many records were printed.")
@click.option(
    "-F", "--follow", is_flag=True, help="Wait for new records; without it the end is what there is now."
)
@click.option(
    "-g",
    "--group",
    help="Read as a member of this group, from where it has committed; what was printed is committed.",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    metavar="LEVEL",
    help="read_committed leaves out records of open and aborted transactions.",
)
@click.option(
    "-f",
    "--format",
    "output",
    default="value",
    show_default=True,
    metavar="FORMAT",
    help="value, json (an object on each line), or a template with %k key, %v value, %h headers, %t topic, "
    "%p partition, %o offset, %T timestamp, %D time, %K and %S bytes of key and value, %%, \\n and \\t.",
)
@encoding_options
@click.option(
    "-D",
    "--delimiter",
    default="\\n",
    show_default=True,
    callback=parse_escaped,
    metavar="TEXT",
    help="What is printed after each value; \\n, \\t, \\r, \\0 and \\xNN are understood.",
)
@click.option("--null", default="", callback=parse_escaped, metavar="TEXT", help="What is printed for null.")
@click.option(
    "--grep", multiple=True, metavar="REGEX", help="Only values in which this is found; repeatable."
)
@click.option("--grep-key", multiple=True, metavar="REGEX", help="The same for keys.")
@click.option(
    "--grep-header",
    multiple=True,
    metavar="NAME[=REGEX]",
    help="Only records with such a header; repeatable.",
)
@click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help='Only records for which this is true: value.items[0].price > 5, key == "a", headers.id =~ ^7, '
    "offset < 10; repeatable. Parts of key and value are those of JSON.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress bar.")
@client_option
@broker_options
def command(
    *,
    chosen: list[ChosenTopic],
    pattern: str | None,
    start: Start | None,
    since: int | None,
    until: int | None,
    until_offset: int | None,
    count: int | None,
    follow: bool,
    group: str | None,
    isolation_level: str,
    output: str,
    key_encoding: RecordEncoding,
    value_encoding: RecordEncoding,
    delimiter: bytes,
    null: bytes,
    grep: tuple[str, ...],
    grep_key: tuple[str, ...],
    grep_header: tuple[str, ...],
    conditions: tuple[str, ...],
    quiet: bool,
    options: dict[str, Any],
    bootstrap_server: str,
    timeout: float,
) -> None:
    """Print the records of topics, from the beginning to the end that there is now.

    Works with tidelog and with Apache Kafka.
    """
    _check_topics(chosen, pattern)
    begin = _start(start, since, group)
    passes = _filter(grep, grep_key, grep_header, conditions)
    show = _format(output, key_encoding, value_encoding, delimiter, null)
    client = {
        "client_id": CLIENT_ID,
        "group_id": group,
        "isolation_level": isolation_level,
        "enable_auto_commit": False,
        **_reset(begin, group),
        **security_options(),
        **options,
    }

    from tidelog.plugins.client_commands.consume.consumption import ReadPlan, print_records

    plan = ReadPlan(
        chosen=chosen,
        pattern=pattern,
        group=group,
        start=begin,
        end=End(follow or (begin.kind == "latest" and group is None), until_offset, until),
        most=count,
        passes=passes,
        show=show,
        has_progress=sys.stderr.isatty() and not (quiet or sys.stdout.isatty()),
    )
    print_records(plan, bootstrap_server, timeout, client)


def _check_topics(chosen: list[ChosenTopic], pattern: str | None) -> None:
    if bool(chosen) == (pattern is not None):
        raise click.UsageError("Name topics, or a --pattern of their names.")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise click.BadParameter(f"it is no regular expression: {error}.", param_hint="--pattern") from error


def _start(start: Start | None, since: int | None, group: str | None) -> Start:
    if start is not None and since is not None:
        raise click.UsageError("Say where to begin in one way: --offset or --since.")
    begin = start or (Start("earliest") if since is None else Start("time", since))
    if group is not None and begin.kind not in ("earliest", "latest"):
        raise click.UsageError(
            "A group begins where it has committed; --offset earliest or latest is for partitions without "
            "that. `tidelog groups reset` sets offsets."
        )
    return begin


def _reset(begin: Start, group: str | None) -> dict[str, str]:
    return {"auto_offset_reset": begin.kind if group is not None else "earliest"}


def _filter(
    grep: tuple[str, ...],
    grep_key: tuple[str, ...],
    grep_header: tuple[str, ...],
    conditions: tuple[str, ...],
) -> RecordFilter | None:
    if not (grep or grep_key or grep_header or conditions):
        return None
    from tidelog.plugins.client_commands.consume import record_filters as filters

    try:
        return filters.all_of(
            [
                *(filters.grep("value", each) for each in grep),
                *(filters.grep("key", each) for each in grep_key),
                *(filters.grep_header(each) for each in grep_header),
                *(filters.where(each) for each in conditions),
            ]
        )
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error


def _format(
    output: str, key: RecordEncoding, value: RecordEncoding, delimiter: bytes, null: bytes
) -> OutputFormat:
    from tidelog.plugins.client_commands.consume import output_formats as formats

    if output == "value":
        return formats.value_format(value, delimiter, null)
    if output == "json":
        return formats.json_format(key, value)
    if "%" not in output:
        raise click.BadParameter(
            f"{output!r} is neither value nor json, and has no field such as %v.", param_hint="--format"
        )
    try:
        return formats.template_format(output, key, value, null)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--format") from error
