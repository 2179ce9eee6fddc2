"""What the commands `tidelog tokens` ask for, and how they show tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import ParamSpec

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.delegation_tokens import DelegationToken, describe_delegation_tokens
from tidelog.plugins.client_commands.options import CommandFailed, parse_duration
from tidelog.plugins.client_commands.output import show_table
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

P = ParamSpec("P")
_SENTENCES = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
        "The cluster has no delegation tokens: its brokers need delegation.token.secret.key."
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "Tokens are requested by clients that have logged in with SASL or a certificate, and not by a token: "
        "--command-config has how."
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "This principal may not request tokens of another one: it needs CREATE_TOKENS on that user."
    ),
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: (
        "A token is renewed and expired by its owner and its renewers only."
    ),
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "There is no such token any more.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "The token has expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "Tokens are renewed by users only, such as User:alice.",
}


def period_option(what: str, default: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Add `--period`, passed to the command as `period_ms`, None where it is not given."""
    return click.option(
        "--period",
        "period_ms",
        callback=parse_duration,
        metavar="DURATION",
        help=f"In how long it expires, such as {what}.  [default: {default}]",
    )


def token_of(client: BlockingClient, token_id: str) -> DelegationToken:
    """Return the token with an id, of those that may be seen.

    Raises:
        CommandFailed: there is none.
    """
    for token in tokens_of(client):
        if token.token_id == token_id:
            return token
    raise CommandFailed(f"There is no token {token_id!r}, or this principal may not see it.")


def tokens_of(client: BlockingClient, principals: Sequence[str] = ()) -> Sequence[DelegationToken]:
    """Return the tokens that concern some principals, or all that may be seen.

    Raises:
        CommandFailed: the broker refuses.
    """
    try:
        return client.run(describe_delegation_tokens, principals or None)
    except (ErrorResponse, ValueError) as error:
        raise refused(error) from error


def refused(error: ErrorResponse | ValueError) -> CommandFailed:
    """Return the error for a request that the broker refuses, or that cannot be made."""
    if isinstance(error, ValueError):
        return CommandFailed(f"{error}.")
    return CommandFailed(_SENTENCES.get(error.code) or f"The broker refuses: {error}.")


def show_tokens(tokens: Sequence[DelegationToken], *, as_json: bool) -> None:
    """Print tokens, without their secrets, as a table or as JSON."""
    if as_json:
        print_json([_as_dictionary(token) for token in tokens])
    elif tokens:
        rows = [
            (
                token.token_id,
                token.owner,
                token.requester,
                ", ".join(token.renewers) or "-",
                moment(token.expires_ms),
                moment(token.max_ms),
            )
            for token in tokens
        ]
        show_table(("ID", "OWNER", "REQUESTER", "RENEWERS", "EXPIRES", "RENEWABLE UNTIL"), rows)
    else:
        click.echo("There are no such tokens.", err=True)


def _as_dictionary(token: DelegationToken) -> dict[str, object]:
    return {
        "id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": [*token.renewers],
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
    }


def moment(time_ms: int) -> str:
    """Return a time for a table."""
    try:
        return (
            datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        )
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
