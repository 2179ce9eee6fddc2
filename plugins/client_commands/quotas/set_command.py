"""`tidelog quotas set`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client_commands.options import json_option, key_values, with_broker
from tidelog.plugins.client_commands.quotas.entities import change, entity_options, named_entity, show

_EPILOG = """\b
Examples:
  tidelog quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152
  tidelog quotas set --user alice --default-client-id request_percentage=25
  tidelog quotas set --default-ip connection_creation_rate=10
"""


def _numbers(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    values: dict[str, float] = {}
    for name, text in key_values(context, option, given).items():
        try:
            values[name] = float(text)
        except ValueError:
            raise click.BadParameter(f"{name}={text} is no number.") from None
    return values


@click.command("set", epilog=_EPILOG, short_help="Set quotas.")
@click.argument("quotas", nargs=-1, required=True, callback=_numbers, metavar="KEY=VALUE...")
@entity_options
@json_option
@with_broker
def command(
    client: BlockingClient, /, *, quotas: Mapping[str, float], as_json: bool, **names: str | bool | None
) -> None:
    """Set quotas of the entity that is named; its other ones stay."""
    entity = named_entity(**names)
    change(client, entity, quotas)
    show({entity: quotas}, as_json=as_json)
