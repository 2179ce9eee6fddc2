"""`tidelog tokens list`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.tokens.delegation_tokens import show_tokens, tokens_of

_EPILOG = """\b
Examples:
  tidelog tokens list
  tidelog tokens list User:alice --json
"""


@click.command("list", epilog=_EPILOG, short_help="List tokens.")
@click.argument("principals", nargs=-1, metavar="[TYPE:NAME]...")
@json_option
@with_broker
def command(client: BlockingClient, *, principals: tuple[str, ...], as_json: bool) -> None:
    """List the tokens that you may see, or those that some principals own, requested or may renew."""
    show_tokens(tokens_of(client, list(dict.fromkeys(principals))), as_json=as_json)
