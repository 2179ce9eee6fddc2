"""`tidelog quotas delete`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.quotas.entities import (
    change,
    entity_options,
    named_entity,
    quotas_of,
    show,
)

_EPILOG = """\b
Examples:
  tidelog quotas delete --user alice
  tidelog quotas delete --default-client-id producer_byte_rate
"""


@click.command("delete", epilog=_EPILOG, short_help="Delete quotas.")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@entity_options
@json_option
@with_broker
def command(
    client: BlockingClient, /, *, keys: tuple[str, ...], as_json: bool, **names: str | bool | None
) -> None:
    """Delete the quotas of the entity that is named, or those of its keys."""
    entity = named_entity(**names)
    own = quotas_of(client, entity, strict=True).get(entity, {})
    doomed = {key: value for key, value in own.items() if not keys or key in keys}
    if doomed:
        change(client, entity, dict.fromkeys(doomed))
    show({entity: doomed}, as_json=as_json)
