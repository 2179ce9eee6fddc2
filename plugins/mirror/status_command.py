"""`tidelog mirrors`: what the mirrors of the broker of this machine do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tidelog.kernel import configure
from tidelog.kernel.cli.options import config_options, sources_of
from tidelog.kernel.cli.tables import print_json, print_table
from tidelog.kernel.errors import ConfigError
from tidelog.plugins.mirror import keys

_EPILOG = """\b
Examples:
  tidelog mirrors --config broker.toml
  tidelog mirrors --set log.dirs=data --json
"""


@click.command("mirrors", epilog=_EPILOG, short_help="Show what the mirrors of a running broker do.")
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with all figures.")
def mirrors(config_file: Path | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Show what the mirrors of the broker do that runs on this machine with this configuration."""
    # Not at the top: what it is written with takes longer to import than most commands to run.
    from tidelog.plugins.mirror.status import mirror_status_file, read_mirror_status

    config, _ = configure(sources_of(config_file, settings))
    file = mirror_status_file(config)
    try:
        found = [] if file is None else read_mirror_status(file)
    except OSError as error:
        raise ConfigError(f"the status of the mirrors cannot be read: {error}") from error
    if as_json:
        print_json(found)
    elif found:
        print_mirrors(found)
    elif config.tables(keys.SECTION):
        click.echo("No broker with this configuration runs on this machine.")
    else:
        click.echo("No mirror is configured.")


def print_mirrors(found: list[dict[str, Any]]) -> None:
    """Print figures as a table, with errors below."""
    rows = [
        (
            each["name"],
            each["source"],
            each["state"],
            str(each["topics"]),
            str(each["lag"]),
            str(each["records"]),
            f"{each['records_per_s']:.0f}",
            f"{each['bytes_per_s'] / 1e6:.1f}",
        )
        for each in found
    ]
    print_table(("MIRROR", "SOURCE", "STATE", "TOPICS", "LAG", "RECORDS", "RECORDS/S", "MB/S"), rows)
    for each in found:
        if each["last_error"]:
            click.echo(f"Last of {each['failures']} errors of {each['name']}: {each['last_error']}")
        for name, problem in each["problems"].items():
            click.echo(f"{each['name']}: {name}: {problem}")
