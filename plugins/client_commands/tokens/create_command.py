"""`tidelog tokens create`."""

from __future__ import annotations

import os
from typing import Final

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.delegation_tokens import DelegationToken, create_delegation_token
from tidelog.plugins.client_commands.options import CommandFailed, json_option, parse_duration, with_broker
from tidelog.plugins.client_commands.tokens.delegation_tokens import moment, refused

_EPILOG = """\b
Examples:
  tidelog tokens create
  tidelog tokens create --renewer User:scheduler --lifetime 7d --to job.properties
  tidelog tokens create --owner User:alice --json
"""
_OWNER_ONLY: Final = 0o600


@click.command("create", epilog=_EPILOG, short_help="Create a token.")
@click.option("--owner", metavar="TYPE:NAME", help="Whose token it is, instead of yours.")
@click.option(
    "--renewer", "renewers", multiple=True, metavar="User:NAME", help="Who else may renew it; repeatable."
)
@click.option(
    "--lifetime",
    "lifetime_ms",
    callback=parse_duration,
    metavar="DURATION",
    help="For how long it can be renewed, such as 7d.  [default: as long as the broker permits]",
)
@click.option(
    "--to",
    "file",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Write the client keys of a login by the token to a new file that only you can read; the secret is "
    "not printed then.",
)
@json_option
@with_broker
def command(
    client: BlockingClient,
    *,
    owner: str | None,
    renewers: tuple[str, ...],
    lifetime_ms: int | None,
    file: str | None,
    as_json: bool,
) -> None:
    """Create a token of yours, or of another owner, and print its id and the password of its holder."""
    if file is not None and os.path.lexists(file):
        raise CommandFailed(f"There is a file {file} already.")
    lifetime = -1 if lifetime_ms is None else lifetime_ms
    try:
        token = client.run(create_delegation_token, owner, renewers, lifetime)
    except (ErrorResponse, ValueError) as error:
        raise refused(error) from error
    if file is not None:
        _write(file, token)
    secret = {} if file is not None else {"password": token.password}
    if as_json:
        print_json({"id": token.token_id, **secret, "owner": token.owner, "expires_ms": token.expires_ms})
        return
    click.echo(f"id        {token.token_id}")
    if file is None:
        click.echo(f"password  {token.password}")
    click.echo(f"owner     {token.owner}\nexpires   {moment(token.expires_ms)}")


def _write(file: str, token: DelegationToken) -> None:
    line = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token.token_id}" password="{token.password}" tokenauth="true";'
    )
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "w") as out:
            out.write(f"sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={line}\n")
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}.") from error
