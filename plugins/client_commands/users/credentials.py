"""What the commands `tidelog users` ask for and change, and how they show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, ParamSpec

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.scram_users import (
    DEFAULT_ITERATIONS,
    MECHANISMS,
    NewScramPassword,
    ScramUser,
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from tidelog.plugins.client_commands.options import CommandFailed
from tidelog.plugins.client_commands.output import show_table
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

P = ParamSpec("P")

_MOST_ITERATIONS: Final = 16_384

Credentials = Mapping[str, Mapping[str, int]]
"""Iterations by mechanism of users."""


def mechanism_option(help_text: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Return a decorator that adds `--mechanism`, passed as `mechanisms`."""
    return click.option(
        "--mechanism",
        "mechanisms",
        multiple=True,
        type=click.Choice(MECHANISMS),
        metavar="NAME",
        help=f"One of {', '.join(MECHANISMS)}; repeatable. {help_text}",
    )


def iterations_option(command: Callable[P, None]) -> Callable[P, None]:
    """Add `--iterations`."""
    return click.option(
        "--iterations",
        default=DEFAULT_ITERATIONS,
        show_default=True,
        type=click.IntRange(DEFAULT_ITERATIONS, _MOST_ITERATIONS),
        metavar="NUMBER",
        help="How often the password is hashed: as often each login, and each guess, has to do it.",
    )(command)


def credentials_of(client: BlockingClient, names: Sequence[str] = ()) -> Credentials:
    """Return the credentials of these users, of all without names; a user that there is not is left out.

    Raises:
        CommandFailed: they may not be seen.
    """
    try:
        found = client.run(describe_user_scram_credentials, names or None)
    except ErrorResponse as error:
        raise refused(error) from error
    known: dict[str, dict[str, int]] = {}
    for user, outcome in found.items():
        if not isinstance(outcome, ClientError):
            known[user] = outcome
        elif not (isinstance(outcome, ErrorResponse) and outcome.code is ErrorCode.RESOURCE_NOT_FOUND):
            raise refused(outcome) from outcome
    return known


def change(
    client: BlockingClient, user: str, mechanisms: Iterable[str], password: NewScramPassword | None
) -> None:
    """Set the password for these mechanisms of a user, None deletes it.

    Raises:
        CommandFailed: the broker refuses.
    """
    changes = {ScramUser(user, mechanism): password for mechanism in mechanisms}
    for outcome in client.run(alter_user_scram_credentials, changes).values():
        if isinstance(outcome, ClientError):
            raise refused(outcome) from outcome


def show(credentials: Credentials, *, as_json: bool) -> None:
    """Print users with their mechanisms, as a table or as JSON."""
    rows = [
        (user, mechanism, iterations)
        for user, found in sorted(credentials.items())
        for mechanism, iterations in sorted(found.items())
    ]
    if as_json:
        print_json(
            [
                {"user": user, "mechanism": mechanism, "iterations": iterations}
                for user, mechanism, iterations in rows
            ]
        )
    elif rows:
        shown = [(user, mechanism, str(iterations)) for user, mechanism, iterations in rows]
        show_table(("USER", "MECHANISM", "ITERATIONS"), shown, numbers=("ITERATIONS",))
    else:
        click.echo("There are no such users.", err=True)


def refused(error: ClientError) -> Exception:
    """Return the error for users that cannot be listed or changed."""
    if not isinstance(error, ErrorResponse):
        return error
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return CommandFailed(
            "This principal may not see or change users: it needs DESCRIBE or ALTER on the cluster, or to be "
            "one of super.users."
        )
    detail = (error.detail or error.code.name).strip().rstrip(".")
    return CommandFailed(f"{error.subject[:1].upper()}{error.subject[1:]} was refused: {detail}.")


def missing(user: str) -> CommandFailed:
    """Return the error for a user that there is not."""
    return CommandFailed(f"There is no user {user!r}. `tidelog users list` lists those there are.")
