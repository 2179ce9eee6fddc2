"""`tidelog groups delete-offsets`."""

from __future__ import annotations

import sys

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.groups import delete_offsets
from tidelog.plugins.client_commands.chosen_topics import ChosenTopic, chosen_topics, selected
from tidelog.plugins.client_commands.groups.failures import described, group_failed
from tidelog.plugins.client_commands.options import CommandFailed, json_option, raise_all, with_broker
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

_EPILOG = """\b
Examples:
  tidelog groups delete-offsets shop --topic orders
  tidelog groups delete-offsets shop --topic orders:0,3 --topic returns --yes
"""


@click.command("delete-offsets", epilog=_EPILOG, short_help="Delete committed offsets of a group.")
@click.argument("group")
@click.option(
    "--topic",
    "selections",
    multiple=True,
    required=True,
    metavar="TOPIC[:PARTITION,...]",
    callback=chosen_topics,
    help="A topic, or some of its partitions; repeatable.",
)
@click.option("--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked anyway.")
@json_option
@with_broker
def command(
    client: BlockingClient, *, group: str, selections: list[ChosenTopic], yes: bool, as_json: bool
) -> None:
    """Delete what GROUP has committed for topics that none of its members is subscribed to.

    A consumer of the group then begins there as its `auto.offset.reset` says.
    """
    described(client, group)
    places = selected(client, selections)
    if not yes and sys.stdin.isatty():
        count = len(places)
        question = f"Delete the offsets of group {group} in {count} partition{'s' * (count != 1)}?"
        if not click.confirm(question, err=True):
            raise CommandFailed("Nothing was deleted.")
    try:
        outcomes = client.run(delete_offsets, group, places)
    except ErrorResponse as error:
        raise group_failed(client, group, error) from error
    if as_json:
        print_json(
            [
                {"topic": place.topic, "partition": place.partition, "deleted": outcome is None}
                for place, outcome in outcomes.items()
            ]
        )
    else:
        for place in (place for place, outcome in outcomes.items() if outcome is None):
            click.echo(f"Deleted the offset of {place}.")
    failures = [_failure(group, str(place), each) for place, each in outcomes.items() if each is not None]
    raise_all(failures, "partitions")


def _failure(group: str, place: str, error: ClientError) -> CommandFailed:
    if isinstance(error, ErrorResponse) and error.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return CommandFailed(
            f"The offset of {place} is in use: a member of group {group!r} is subscribed to the topic. Stop "
            "it first."
        )
    return CommandFailed(f"The offset of {place} was not deleted: {error}.")
