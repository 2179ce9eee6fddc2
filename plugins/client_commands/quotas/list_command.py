"""`tidelog quotas list`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.quotas.entities import entity_of, entity_options, quotas_of, show

_EPILOG = """\b
Examples:
  tidelog quotas list
  tidelog quotas list --user alice
  tidelog quotas list --default-client-id --json
"""


@click.command("list", epilog=_EPILOG, short_help="List quotas.")
@entity_options
@json_option
@with_broker
def command(client: BlockingClient, /, *, as_json: bool, **names: str | bool | None) -> None:
    """List all quotas, or those that have the parts that are named, whatever else they have."""
    show(quotas_of(client, entity_of(**names), strict=False), as_json=as_json)
