"""`tidelog topics alter`."""

from __future__ import annotations

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import BrokerClosed, ClientError, ErrorResponse, RequestTimedOut
from tidelog.plugins.client_commands.config_changes import config_changes
from tidelog.plugins.client_commands.options import json_option, key_values, with_broker
from tidelog.plugins.client_commands.topics.failures import alteration_failed, in_doubt

_EPILOG = """\b
Examples:
  tidelog topics alter orders --config max.message.bytes=2000000
  tidelog topics alter orders --delete-config max.message.bytes
  tidelog topics alter orders --partitions 6
  tidelog topics alter orders --config segment.ms=3600000 --validate-only
"""


@click.command("alter", epilog=_EPILOG, short_help="Change a topic while it is used.")
@click.argument("name")
@click.option(
    "--config",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="Set a topic key; repeatable.",
)
@click.option(
    "--delete-config",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Restore the broker's value; repeatable.",
)
@click.option(
    "--append-config",
    "appended",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="Add to a key that is a list; repeatable.",
)
@click.option(
    "--subtract-config",
    "subtracted",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="Remove from a key that is a list; repeatable.",
)
@click.option("--partitions", type=click.IntRange(min=1), help="The new number of partitions, more than now.")
@click.option("--validate-only", is_flag=True, help="Only check whether the topic could be changed.")
@json_option
@with_broker
def command(
    client: BlockingClient,
    *,
    name: str,
    settings: dict[str, str],
    deleted: tuple[str, ...],
    appended: dict[str, str],
    subtracted: dict[str, str],
    partitions: int | None,
    validate_only: bool,
    as_json: bool,
) -> None:
    """Change keys and the number of partitions of the topic NAME; what is not named stays."""
    changes = config_changes(settings, deleted, appended, subtracted)
    if not changes and partitions is None:
        raise click.UsageError("Say what is to be changed: --config, --delete-config or --partitions.")
    try:
        if changes:
            _settle(client, name, client.alter_configs({name: changes}, validate_only=validate_only))
        if partitions is not None:
            _settle(client, name, client.create_partitions({name: partitions}, validate_only=validate_only))
    except (BrokerClosed, RequestTimedOut) as error:
        if validate_only:
            raise
        raise in_doubt(
            f"topic {name!r} was changed", error, check=f"tidelog topics describe {name}"
        ) from error
    if as_json:
        print_json({"name": name, "altered": not validate_only})
    else:
        verdict = "could be changed so; it was not" if validate_only else "was changed"
        click.echo(f"Topic {name} {verdict}.")


def _settle(client: BlockingClient, name: str, outcomes: dict[str, ClientError | None]) -> None:
    outcome = outcomes[name]
    if isinstance(outcome, ErrorResponse):
        raise alteration_failed(name, outcome, client.metadata().topics) from outcome
    if outcome is not None:
        raise outcome
