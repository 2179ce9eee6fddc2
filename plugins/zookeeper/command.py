"""`tidelog zookeeper`: how the broker of this machine is registered in ZooKeeper."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from tidelog.kernel import configure
from tidelog.kernel.cli.options import config_options, sources_of
from tidelog.kernel.cli.tables import print_json, print_table
from tidelog.kernel.errors import ConfigError
from tidelog.plugins.zookeeper import keys

if TYPE_CHECKING:
    from tidelog.plugins.zookeeper.status import RegistrationStatus

_EPILOG = """\b
Examples:
  tidelog zookeeper --config server.properties
  tidelog zookeeper --set log.dirs=data --json
"""


@click.command(
    "zookeeper", epilog=_EPILOG, short_help="Show how a running broker is registered in ZooKeeper."
)
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, null without a running broker.")
def zookeeper(config_file: Path | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Show how the broker that runs on this machine with this configuration is registered in ZooKeeper."""
    # Not at the top: what it is written with takes longer to import than most commands to run.
    from tidelog.plugins.zookeeper.status import read_status, status_file

    config, _ = configure(sources_of(config_file, settings))
    file = status_file(config)
    try:
        status = None if file is None else read_status(file)
    except OSError as error:
        raise ConfigError(f"the status of the registration cannot be read: {error}") from error
    if as_json:
        print_json(None if status is None else attrs.asdict(status))
    elif status is not None:
        _print(status)
    elif config[keys.ZOOKEEPER_CONNECT] is None:
        click.echo("zookeeper.connect is not set, so the broker registers in no ZooKeeper.")
    else:
        click.echo("No broker with this configuration runs on this machine.")


def _print(status: RegistrationStatus) -> None:
    since = datetime.fromtimestamp(status.since_ms / 1000).astimezone().isoformat(" ", "seconds")
    row = (status.connect, status.state, since, status.session or "-", str(status.topics))
    print_table(("ZOOKEEPER", "STATE", "SINCE", "SESSION", "TOPICS"), [row])
    if status.refused_topics:
        click.echo(f"ZooKeeper does not take {status.refused_topics} topics, which the broker's log names.")
    if status.last_error:
        click.echo(f"Last of {status.failures} errors: {status.last_error}")
