"""Options shared by the commands: bootstrap server, timeout, JSON output and `KEY=VALUE` settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Concatenate, Final, ParamSpec

import attrs
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
from tidelog.plugins.client.security import SecuritySettings
from tidelog.plugins.client_commands.command_config import (
    bootstrap_of_command,
    security_of_command,
    use_command_config,
)

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 10.0
CLIENT_ID = "tidelog-commands"

_ISO_DURATION: Final = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)
_SHORT_DURATION: Final = re.compile(r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s)?")
_SECONDS: Final[Mapping[str, int]] = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}

P = ParamSpec("P")


class CommandFailed(TidelogError):
    """The command failed; the message names the reason and the remedy."""


def broker_options(command: Callable[P, None]) -> Callable[P, None]:
    """Add `--bootstrap-server` and `--timeout`, passed as `bootstrap_server` and `timeout`."""
    command = click.option(
        "--timeout",
        default=DEFAULT_TIMEOUT_S,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="How long to wait for the broker's response.",
    )(command)
    command = click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        expose_value=False,
        callback=use_command_config,
        metavar="FILE",
        help="A properties file with Kafka's client keys, such as security.protocol.",
    )(command)
    return click.option(
        "-b",
        "--bootstrap-server",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        metavar="HOST:PORT",
        help="A broker to ask; several with commas. Or zookeeper://HOST:PORT/PATH: those that are registered "
        "there.",
    )(command)


def with_broker(
    command: Callable[Concatenate[BlockingClient, P], None],
) -> Callable[..., None]:
    """Add the options of `broker_options`, and pass the command a connected client."""

    @broker_options
    @wraps(command)
    def with_client(bootstrap_server: str, timeout: float, *args: P.args, **kwargs: P.kwargs) -> None:
        with connected(bootstrap_server, timeout) as client:
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
def connected(
    bootstrap: str, timeout_s: float, security: SecuritySettings | None = None
) -> Generator[BlockingClient]:
    """Connect a client to the broker; its errors are raised as `errors_in_words` does."""
    settings = ClientSettings(
        client_id=CLIENT_ID,
        request_timeout_s=timeout_s,
        operation_timeout_s=timeout_s,
        connect_timeout_s=timeout_s,
        security=security or security_of_command(),
    )
    with (
        errors_in_words(),
        BlockingClient(_addresses(bootstrap, settings), settings=settings) as client,
    ):
        client.connect()
        yield client


def _addresses(bootstrap: str, settings: ClientSettings) -> str | Sequence[str]:
    """Return addresses of brokers, which are read once where an ensemble is named."""
    named = bootstrap_of_command(bootstrap)
    if isinstance(named, str):
        return named
    # Not at the top: few commands find brokers in ZooKeeper.
    from tidelog.plugins.client.drivers.thread_driver import ThreadDriver
    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.operations.metadata import metadata

    driver = ThreadDriver()
    # Half of the time, so that what is wrong in ZooKeeper is the error, and not that time is over.
    engine = Engine(named, attrs.evolve(settings, connect_timeout_s=settings.connect_timeout_s / 2), driver)
    driver.start(engine)
    try:
        found = driver.run(metadata(engine.session, ()), settings.operation_timeout_s)
    except RequestTimedOut as error:
        raise error.last_error or error from None
    finally:
        driver.stop()
    return [str(each) for each in found.brokers.values()]


@contextmanager
def errors_in_words() -> Generator[None]:
    """Raise the errors of a client as `CommandFailed`, or as wrong usage if the address is none."""
    try:
        yield
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
                "address of a broker, and does its listener need TLS (--command-config)?"
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


def parse_duration(_context: click.Context, _option: click.Parameter, given: str | None) -> int | None:
    """Parse a duration such as 2h30m or PT2H30M into milliseconds; the `callback` of an option."""
    if given is None:
        return None
    found = _SHORT_DURATION.fullmatch(given) or _ISO_DURATION.fullmatch(given)
    parts = {} if found is None else {unit: text for unit, text in found.groupdict().items() if text}
    if not parts:
        raise click.BadParameter(f"{given!r} is no duration such as 2h30m, 7d or PT2H30M.")
    return int(sum(float(text) * _SECONDS[unit] for unit, text in parts.items()) * 1000)
