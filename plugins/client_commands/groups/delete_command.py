"""`tidelog groups delete`."""

from __future__ import annotations

import sys

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.groups import delete_groups
from tidelog.plugins.client_commands.groups.failures import group_failed
from tidelog.plugins.client_commands.options import CommandFailed, json_option, raise_all, with_broker
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

_EPILOG = """\b
Examples:
  tidelog groups delete shop
  tidelog groups delete shop billing --yes
  tidelog groups delete shop --if-exists --yes
"""


@click.command("delete", epilog=_EPILOG, short_help="Delete groups with their offsets.")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@click.option("--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked anyway.")
@click.option("--if-exists", is_flag=True, help="A group that does not exist is no error.")
@json_option
@with_broker
def command(
    client: BlockingClient, *, names: tuple[str, ...], yes: bool, if_exists: bool, as_json: bool
) -> None:
    """Delete the groups GROUP..., which have no members, with their committed offsets."""
    wanted = list(dict.fromkeys(names))
    if not yes and sys.stdin.isatty():
        what = f"group {wanted[0]}" if len(wanted) == 1 else f"{len(wanted)} groups ({', '.join(wanted)})"
        if not click.confirm(f"Delete {what} with all committed offsets?", err=True):
            raise CommandFailed("Nothing was deleted.")
    outcomes = client.run(delete_groups, wanted)
    if if_exists:
        outcomes = {name: outcome for name, outcome in outcomes.items() if not _is_missing(outcome)}
    deleted = [name for name, outcome in outcomes.items() if outcome is None]
    if as_json:
        print_json([{"group": name, "deleted": name in deleted} for name in wanted])
    else:
        click.echo("".join(f"Deleted group {name}.\n" for name in deleted), nl=False)
    failures = [group_failed(client, name, each) for name, each in outcomes.items() if each is not None]
    raise_all(failures, "groups")


def _is_missing(error: object) -> bool:
    return isinstance(error, ErrorResponse) and error.code is ErrorCode.GROUP_ID_NOT_FOUND
