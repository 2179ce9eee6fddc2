"""`tidelog topics delete`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import BrokerClosed, ClientError, ErrorResponse, RequestTimedOut
from tidelog.plugins.client_commands.options import CommandFailed, json_option, raise_all, with_broker
from tidelog.plugins.client_commands.topics.failures import deletion_failed, in_doubt
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

_EPILOG = """\b
Examples:
  tidelog topics delete orders
  tidelog topics delete orders payments --yes
  tidelog topics delete orders --if-exists --yes
"""


@click.command("delete", epilog=_EPILOG, short_help="Delete topics and their records.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked anyway.")
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no error.")
@json_option
@with_broker
def command(
    client: BlockingClient, *, names: tuple[str, ...], yes: bool, if_exists: bool, as_json: bool
) -> None:
    """Delete the topics NAME... with all their records, for good."""
    wanted = list(dict.fromkeys(names))
    if not yes and sys.stdin.isatty():
        _confirm(wanted)
    outcomes = _outcomes_of(client, wanted)
    if if_exists:
        outcomes = {name: outcome for name, outcome in outcomes.items() if not _is_missing(outcome)}
    deleted = [name for name, outcome in outcomes.items() if outcome is None]
    if as_json:
        print_json([{"name": name, "deleted": name in deleted} for name in wanted])
    else:
        click.echo("".join(f"Deleted topic {name}.\n" for name in deleted), nl=False)
    failures = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
    if failures:
        existing = client.metadata().topics
        raise_all([deletion_failed(name, error, existing) for name, error in failures.items()], "topics")


def _outcomes_of(client: BlockingClient, names: Sequence[str]) -> Mapping[str, ClientError | None]:
    try:
        return client.delete_topics(names)
    except (BrokerClosed, RequestTimedOut) as error:
        what = f"{', '.join(map(repr, names))} {'was' if len(names) == 1 else 'were'} deleted"
        raise in_doubt(what, error) from error


def _confirm(names: Sequence[str]) -> None:
    topics = f"topic {names[0]}" if len(names) == 1 else f"{len(names)} topics ({', '.join(names)})"
    whose = "its" if len(names) == 1 else "their"
    if not click.confirm(f"Delete {topics} with all {whose} records?", err=True):
        raise CommandFailed("Nothing was deleted.")


def _is_missing(outcome: ClientError | None) -> bool:
    return isinstance(outcome, ErrorResponse) and outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
