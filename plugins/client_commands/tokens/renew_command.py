"""`tidelog tokens renew`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.delegation_tokens import renew_delegation_token
from tidelog.plugins.client_commands.options import with_broker
from tidelog.plugins.client_commands.tokens.delegation_tokens import moment, period_option, refused, token_of

_EPILOG = """\b
Examples:
  tidelog tokens renew 9vK1ZsGOSpaWIj2yi4eLGg
  tidelog tokens renew 9vK1ZsGOSpaWIj2yi4eLGg --period 12h
"""


@click.command("renew", epilog=_EPILOG, short_help="Have a token expire later.")
@click.argument("token_id", metavar="ID")
@period_option("12h", "as long as the broker permits")
@with_broker
def command(client: BlockingClient, *, token_id: str, period_ms: int | None) -> None:
    """Have a token expire later; its secret is not needed for that."""
    token = token_of(client, token_id)
    try:
        expires_ms = client.run(renew_delegation_token, token.hmac, -1 if period_ms is None else period_ms)
    except ErrorResponse as error:
        raise refused(error) from error
    click.echo(f"{token_id} expires at {moment(expires_ms)}")
