"""`tidelog tokens expire`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.delegation_tokens import expire_delegation_token
from tidelog.plugins.client_commands.options import with_broker
from tidelog.plugins.client_commands.tokens.delegation_tokens import moment, period_option, refused, token_of

_EPILOG = """\b
Examples:
  tidelog tokens expire 9vK1ZsGOSpaWIj2yi4eLGg
  tidelog tokens expire 9vK1ZsGOSpaWIj2yi4eLGg --period 10m
"""


@click.command("expire", epilog=_EPILOG, short_help="Have a token expire, now or soon.")
@click.argument("token_id", metavar="ID")
@period_option("10m", "now")
@with_broker
def command(client: BlockingClient, *, token_id: str, period_ms: int | None) -> None:
    """Have a token expire, now or soon; connections that are open stay until it would have expired."""
    token = token_of(client, token_id)
    try:
        expires_ms = client.run(expire_delegation_token, token.hmac, -1 if period_ms is None else period_ms)
    except ErrorResponse as error:
        raise refused(error) from error
    if period_ms is None:
        click.echo(f"{token_id} has expired")
    else:
        click.echo(f"{token_id} expires at {moment(expires_ms)}")
