"""Options shared by the commands: bootstrap server, timeout, JSON output and `KEY=VALUE` settings."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from typing import Concatenate, ParamSpec

import click

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.client import BlockingClient, ClientSettings
from tidelog.plugins.client.errors import (
    BrokerUnreachable,
    ClientError,
    ErrorResponse,
    InvalidAddress,
    ProtocolError,
    RequestTimedOut,
)

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 10.0
CLIENT_ID = "tidelog-commands"

P = ParamSpec("P")


class CommandFailed(TidelogError):
    """The command failed; the message names the reason and the remedy."""


def with_broker(
    command: Callable[Concatenate[BlockingClient, P], None],
) -> Callable[..., None]:
    """Add `--bootstrap-server` and `--timeout`, and pass the command a connected client."""

    @click.option(
        "--bootstrap-server",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        metavar="HOST:PORT",
        help="A broker to ask; several with commas.",
    )
    @click.option(
        "--timeout",
        default=DEFAULT_TIMEOUT_S,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="How long to wait for the broker's response.",
    )
    @wraps(command)
    def with_client(bootstrap_server: str, timeout: float, *args: P.args, **kwargs: P.kwargs) -> None:
        with _connected(bootstrap_server, timeout) as client:
            command(client, *args, **kwargs)

    return with_client


def raise_all(failures: Sequence[Exception], things: str) -> None:
    """Raise the failures of several `things`, if any; each is reported as a sentence of its own."""
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup(f"several {things}", failures)


def json_option(command: Callable[P, None]) -> Callable[P, None]:
    """Add `--json`, passed to the command as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


@contextmanager
def _connected(bootstrap: str, timeout_s: float) -> Generator[BlockingClient]:
    settings = ClientSettings(
        client_id=CLIENT_ID,
        request_timeout_s=timeout_s,
        operation_timeout_s=timeout_s,
        connect_timeout_s=timeout_s,
    )
    try:
        with BlockingClient(bootstrap, settings=settings) as client:
            client.connect()
            yield client
    except InvalidAddress as error:
        raise click.BadParameter(f"{error}.", param_hint="--bootstrap-server") from error
    except ClientError as error:
        raise CommandFailed(_in_words(error)) from error


def _in_words(error: ClientError) -> str:
    match error:
        case BrokerUnreachable():
            return (
                f"No broker answers at {_attempts(error)}. Is it running? `tidelog serve` starts one; "
                "--bootstrap-server names another address."
            )
        case ProtocolError():
            return (
                f"What listens at {error.peer} does not speak Kafka's protocol ({error.reason}). Is this the "
                "address of a PLAINTEXT listener of a broker?"
            )
        case RequestTimedOut():
            return f"The broker gave {error}. --timeout SECONDS lets it take longer."
        case ErrorResponse():
            return f"The broker refuses: {error}."
        case _:
            return f"{str(error)[:1].upper()}{str(error)[1:]}."


def _attempts(error: BrokerUnreachable) -> str:
    return ", nor at ".join(f"{address} ({reason})" for address, reason in error.attempts)


def key_values(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Parse `KEY=VALUE` settings into values by key; the `callback` of a repeatable option."""
    values: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{pair!r} is not of the form KEY=VALUE.")
        if name in values:
            raise click.BadParameter(f"{name} is given more than once.")
        values[name] = value
    return values


def parse_time(_context: click.Context, _option: click.Parameter, given: str | None) -> int | None:
    """Parse a time such as 2026-11-01T12:00:00Z into milliseconds; the `callback` of an option."""
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise click.BadParameter(f"{given!r} is no time such as 2026-11-01T12:00:00Z.") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    # Negative times have another meaning for brokers, and no record is older than 1970.
    return max(0, int(found.timestamp() * 1000))
