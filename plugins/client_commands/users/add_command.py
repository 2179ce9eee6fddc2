"""`tidelog users add`."""

from __future__ import annotations

import click

from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.operations.scram_users import MECHANISMS, NewScramPassword
from tidelog.plugins.client_commands.options import CommandFailed, json_option, with_broker
from tidelog.plugins.client_commands.users.credentials import (
    change,
    credentials_of,
    iterations_option,
    mechanism_option,
    show,
)
from tidelog.plugins.client_commands.users.passwords import given_password, password_options

_EPILOG = """\b
Examples:
  tidelog users add alice
  tidelog users add alice --password-file /run/secrets/alice
  tidelog users add batch --password-env BATCH_PASSWORD --mechanism SCRAM-SHA-512 --iterations 8192
"""


@click.command("add", epilog=_EPILOG, short_help="Add a user.")
@click.argument("user")
@mechanism_option("Without it: all of them.")
@iterations_option
@password_options
@json_option
@with_broker
def command(
    client: BlockingClient,
    *,
    user: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: str | None,
    password_env: str | None,
    as_json: bool,
) -> None:
    """Add a user, with a password from a file, the environment or a prompt; the broker does not get it."""
    wanted = list(dict.fromkeys(mechanisms)) or list(MECHANISMS)
    there = credentials_of(client, [user]).get(user, {})
    if any(mechanism in there for mechanism in wanted):
        raise CommandFailed(f"There is a user {user!r} already. `tidelog users change` sets its password.")
    password = given_password(user, password_file, password_env)
    change(client, user, wanted, NewScramPassword(password, iterations))
    show({user: dict.fromkeys(wanted, iterations)}, as_json=as_json)
