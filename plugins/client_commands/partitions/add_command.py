"""`tidelog partitions add`."""

from __future__ import annotations

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import BrokerClosed, ErrorResponse, RequestTimedOut
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.topics.failures import alteration_failed, in_doubt

_EPILOG = """\b
Examples:
  tidelog partitions add orders 6
  tidelog partitions add orders 6 --validate-only
"""


@click.command("add", epilog=_EPILOG, short_help="Raise the number of partitions of a topic.")
@click.argument("topic")
@click.argument("total", type=click.IntRange(min=1))
@click.option("--validate-only", is_flag=True, help="Only check whether they could be added.")
@json_option
@with_broker
def command(client: BlockingClient, *, topic: str, total: int, validate_only: bool, as_json: bool) -> None:
    """Have TOPIC have TOTAL partitions, more than now.

    Records that are in it stay where they are: the partition of a key may be another one from now on.
    """
    try:
        error = client.create_partitions({topic: total}, validate_only=validate_only)[topic]
    except (BrokerClosed, RequestTimedOut) as unknown:
        check = f"tidelog partitions describe {topic}"
        raise in_doubt(f"topic {topic!r} was changed", unknown, check=check) from unknown
    if isinstance(error, ErrorResponse):
        raise alteration_failed(topic, error, client.metadata().topics) from error
    if error is not None:
        raise error
    if as_json:
        print_json({"topic": topic, "partitions": total, "altered": not validate_only})
    else:
        verb, rest = ("could have", "; it was not changed") if validate_only else ("has", "")
        click.echo(f"Topic {topic} {verb} {total} partition{'s' * (total != 1)}{rest}.")
