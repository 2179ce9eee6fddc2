"""`tidelog users change`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.operations.scram_users import NewScramPassword
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.users.credentials import (
    change,
    credentials_of,
    iterations_option,
    missing,
    show,
)
from tidelog.plugins.client_commands.users.passwords import given_password, password_options

_EPILOG = """\b
Examples:
  tidelog users change alice
  tidelog users change alice --password-file /run/secrets/alice --iterations 8192
"""


@click.command("change", epilog=_EPILOG, short_help="Set the password of a user.")
@click.argument("user")
@iterations_option
@password_options
@json_option
@with_broker
def command(
    client: BlockingClient,
    *,
    user: str,
    iterations: int,
    password_file: str | None,
    password_env: str | None,
    as_json: bool,
) -> None:
    """Set the password of a user, for all mechanisms that it has; connections that are open stay."""
    there = credentials_of(client, [user]).get(user)
    if not there:
        raise missing(user)
    password = given_password(user, password_file, password_env)
    change(client, user, there, NewScramPassword(password, iterations))
    show({user: dict.fromkeys(there, iterations)}, as_json=as_json)
