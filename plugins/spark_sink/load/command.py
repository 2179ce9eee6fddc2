"""The command line of `tidelog load`; what it does is imported when it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from tidelog.kernel.cli.options import LocalPath
from tidelog.kernel.config.secret_names import names_secret
from tidelog.kernel.config.types import SECRET_ARGUMENT
from tidelog.plugins.spark_sink.load.times import timestamp_ms
from tidelog.plugins.spark_sink.required import SparkNotUsable, require_spark

_EPILOG = """\b
Examples:
  tidelog load tides --into warehouse/tides
  tidelog load tides --into warehouse/tides/day=2026-01-31 \\
      --from-time 2026-01-31 --to-time 2026-02-01 --partition-by topic,hour
  tidelog load tides --into heights --partition-by station \\
      --select "CAST(key AS STRING) AS station" --select "CAST(value AS STRING) AS metres"
  tidelog load --pattern '^sensor-' --into sensors --format orc --write-option compression=zstd
  tidelog load tides --into warehouse/tides --local-log-dir /var/lib/tidelog/data

The first start fixes the range in offsets. A load that was interrupted, also by kill -9, continues when the
same command is run again; each record is in the files once. The file _SUCCESS is there when it is complete.

Exit codes: 0 complete, 1 failed, 2 wrong usage, 130 interrupted.
"""


def key_values(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Parse the `NAME=VALUE` pairs of a repeatable option."""
    values: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name.strip() and equals):
            raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE.")
        if name.strip() in values:
            raise click.BadParameter(f"{name.strip()} is given more than once.")
        values[name.strip()] = value
    return values


def _no_secrets(remedy: str) -> Callable[..., dict[str, str]]:
    """Return a `callback` as `key_values` that refuses secrets, and names where to put them."""

    def parse(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
        values = key_values(context, option, given)
        for name in filter(names_secret, values):
            raise click.BadParameter(f"{name} {SECRET_ARGUMENT}: {remedy}.")
        return values

    return parse


def _client_keys(context: click.Context, option: click.Parameter, path: Path | None) -> dict[str, str]:
    """Return the keys of Kafka's clients in a file, as options of the source; references stay as they are."""
    if path is None:
        return {}
    from tidelog.plugins.client.keys_file import read_keys_file
    from tidelog.plugins.spark_sink.kafka_keys import PREFIX

    try:
        return {f"{PREFIX}{name}": text for name, text in read_keys_file(path).items()}
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from error


_SPARKS: Final = "put it into spark-defaults.conf, in the folder that SPARK_CONF_DIR names"


def _time(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    try:
        return None if given is None else str(timestamp_ms(given))
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


def _addresses(context: click.Context, option: click.Parameter, given: str) -> str:
    from tidelog.plugins.client.errors import InvalidAddress
    from tidelog.plugins.client.settings import parse_addresses

    try:
        parse_addresses(given)
    except InvalidAddress as error:
        raise click.BadParameter(f"{error}.") from error
    return given


def _columns(context: click.Context, option: click.Parameter, given: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    if len(set(names)) < len(names):
        raise click.BadParameter("a column is named more than once.")
    return names


@click.command("load", epilog=_EPILOG, short_help="Load topics into Parquet or other files, exactly once.")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--pattern", metavar="REGEX", help="Topics in whose names this is found, instead of TOPIC.")
@click.option(
    "--into",
    "target",
    required=True,
    type=LocalPath(path_type=Path),
    metavar="DIRECTORY",
    help="Where the files go: a directory that is empty, does not exist, or has this load.",
)
@click.option(
    "--bootstrap-server",
    "bootstrap",
    default="127.0.0.1:9092",
    show_default=True,
    metavar="HOST:PORT",
    callback=_addresses,
    help="A broker to ask; several with commas.",
)
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=_client_keys,
    metavar="FILE",
    help="A properties file with Kafka's client keys, such as security.protocol.",
)
@click.option(
    "--from-time",
    callback=_time,
    metavar="TIME",
    help="The first record of each partition at or after it: 2026-01-31, 2026-01-31T12:30:00+01:00 (UTC if "
    "no zone is named), or milliseconds since the epoch.",
)
@click.option(
    "--to-time",
    callback=_time,
    metavar="TIME",
    help="Up to the first record of each partition at or after it, without that one.",
)
@click.option(
    "--from-offsets",
    metavar="OFFSETS",
    help='`earliest`, or offsets of all partitions: {"tides": {"0": 23, "1": -2}}; -2 is the earliest.  '
    "[default: earliest]",
)
@click.option(
    "--to-offsets",
    metavar="OFFSETS",
    help="Up to these, without them; -1 is the latest.  [default: latest, as of the first start]",
)
@click.option(
    "--format",
    "file_format",
    default="parquet",
    show_default=True,
    metavar="FORMAT",
    help="A format of files that Spark writes: parquet, orc, json, ...",
)
@click.option(
    "--partition-by",
    default="topic,date",
    show_default=True,
    callback=_columns,
    metavar="COLUMNS",
    help="Columns that folders are made of, separated by commas; '' for none. Beside columns of the records "
    "and of --select there are `date` and `hour` of the timestamp.",
)
@click.option(
    "--select",
    multiple=True,
    metavar="EXPRESSION",
    help="A column in SQL, instead of all columns of the source; repeatable.",
)
@click.option("--no-headers", is_flag=True, help="Leave out the column of headers.")
@click.option(
    "--write-option",
    "write_options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_no_secrets(_SPARKS),
    help="An option of the format; repeatable.",
)
@click.option(
    "--option",
    "source_options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_no_secrets("put it into the file of --command-config"),
    help="An option of Spark's format tidelog; repeatable. kafka.isolation.level=read_uncommitted also loads "
    "records of open and aborted transactions.",
)
@click.option(
    "--local-log-dir",
    "local_log_dirs",
    multiple=True,
    type=LocalPath(),
    metavar="PATH",
    help="A log directory of the broker on this host, whose files are read directly; repeatable.",
)
@click.option(
    "--skip-deleted", is_flag=True, help="Do without records that were deleted before they were read."
)
@click.option("--overwrite", is_flag=True, help="Remove what an earlier load has written there, and begin.")
@click.option(
    "--task-records",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Offsets of a partition that one task reads at most.",
)
@click.option(
    "--chunk-records",
    type=click.IntRange(min=1),
    default=4_000_000,
    show_default=True,
    help="Offsets that are committed at once, about: at most so much is done again after a kill.",
)
@click.option(
    "--conf",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_no_secrets(_SPARKS),
    help="A setting of Spark, such as spark.master=local[4] or spark.driver.memory=4g; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def load(**given: Any) -> None:
    """Load the records of TOPIC... into files of a directory, each record exactly once.

    Spark reads each range of a partition in a task of its own and writes Parquet, or another format. Records
    of aborted transactions are left out.
    """
    try:
        require_spark()
    except SparkNotUsable as error:
        raise click.ClickException(str(error)) from error
    from tidelog.plugins.spark_sink.load.execution import execute

    execute(given)
