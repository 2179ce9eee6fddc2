"""`tidelog quotas describe`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.quotas.entities import entity_options, named_entity, quotas_of, show

_EPILOG = """\b
Examples:
  tidelog quotas describe --user alice
  tidelog quotas describe --user alice --client-id loader --json
"""


@click.command("describe", epilog=_EPILOG, short_help="Describe the quotas of one entity.")
@entity_options
@json_option
@with_broker
def command(client: BlockingClient, /, *, as_json: bool, **names: str | bool | None) -> None:
    """Describe the quotas of the entity that is named, and of no other."""
    show(quotas_of(client, named_entity(**names), strict=True), as_json=as_json)
