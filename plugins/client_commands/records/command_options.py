"""Options that `tidelog produce` and `tidelog consume` share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import attrs
import click

from tidelog.kernel.config.secret_names import names_secret
from tidelog.kernel.config.types import SECRET_ARGUMENT
from tidelog.plugins.client.security import SecuritySettings
from tidelog.plugins.client_commands.command_config import bootstrap_of_command
from tidelog.plugins.client_commands.options import key_values, parse_duration, parse_time
from tidelog.plugins.client_commands.records.encodings import ENCODINGS

if TYPE_CHECKING:
    from tidelog.plugins.client_commands.records.encodings import RecordEncoding

P = ParamSpec("P")
T = TypeVar("T")

_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_SECURITY: Final = frozenset(each.name for each in attrs.fields(SecuritySettings))
"""Options that are text, though a password may have digits alone."""
_BOOLEANS: Final = {"true": True, "false": False}


def unescape(text: str) -> bytes:
    r"""Return bytes with \n, \t, \r, \0, \\ and \xNN replaced; other backslashes stay.

    Raises:
        ValueError: \x is followed by something else than two hexadecimal digits.
    """
    found = bytearray()
    rest = text
    while rest:
        before, backslash, rest = rest.partition("\\")
        found += before.encode(errors="surrogateescape")
        if not backslash:
            break
        if rest[:1] == "x":
            found += bytes.fromhex(rest[1:3].rjust(2, "?"))
            rest = rest[3:]
        elif rest[:1] in _ESCAPES:
            found += _ESCAPES[rest[:1]]
            rest = rest[1:]
        else:
            found += b"\\"
    return bytes(found)


def parse_escaped(_context: click.Context, _option: click.Parameter, given: str | None) -> bytes | None:
    r"""Parse text with \n, \t and so on; the `callback` of an option."""
    if given is None:
        return None
    try:
        return unescape(given)
    except ValueError:
        raise click.BadParameter(f"{given!r} has \\x without two hexadecimal digits.") from None


def parse_encoding(_context: click.Context, _option: click.Parameter, given: str) -> RecordEncoding:
    """Parse the name of an encoding; the `callback` of an option."""
    return ENCODINGS[given]


def encoding_options(command: Callable[P, None]) -> Callable[P, None]:
    """Add `--key-format` and `--value-format`, passed as `key_encoding` and `value_encoding`."""
    for part in ("value", "key"):
        command = click.option(
            f"--{part}-format",
            f"{part}_encoding",
            type=click.Choice(list(ENCODINGS)),
            default="text",
            show_default=True,
            callback=parse_encoding,
            metavar="FORMAT",
            help=f"How the {part} is written: {', '.join(ENCODINGS)}.",
        )(command)
    return command


def client_options(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """Parse `NAME=VALUE` options of the client, in Kafka's spelling or Python's; a `callback`.

    Raises:
        click.BadParameter: one is malformed, or has a secret.
    """
    pairs = key_values(context, option, given).items()
    named = {name.replace(".", "_").replace("-", "_"): value for name, value in pairs}
    for name in named:
        if names_secret(name):
            raise click.BadParameter(f"{name} {SECRET_ARGUMENT}: put it into the file of --command-config.")
    return {name: value if name in _SECURITY else _value(value) for name, value in named.items()}


def client_option(command: Callable[P, None]) -> Callable[P, None]:
    """Add `-X`, passed as `options`: keyword arguments of a client."""
    return click.option(
        "-X",
        "options",
        multiple=True,
        callback=client_options,
        metavar="NAME=VALUE",
        help="Another option of the client, such as request.timeout.ms=5000; repeatable.",
    )(command)


def parse_moment(context: click.Context, option: click.Parameter, given: str | None) -> int | None:
    """Parse 2026-11-01T12:00:00Z, milliseconds since the epoch, or 1h for an hour ago; a `callback`."""
    if given is None:
        return None
    if given.isdecimal():
        return int(given)
    try:
        ago = parse_duration(context, option, given)
    except click.BadParameter:
        return parse_time(context, option, given)
    return None if ago is None else int(time.time() * 1000) - ago


def security_of(options: Mapping[str, Any]) -> SecuritySettings:
    """Return how the options of a client have it connect; raises as `made`."""
    given = {name: value for name, value in options.items() if name in _SECURITY}

    def create(_bootstrap: object, **named: Any) -> SecuritySettings:
        return SecuritySettings(**named)

    return made(create, "", given)


def made(create: Callable[..., T], bootstrap: str, options: Mapping[str, Any]) -> T:
    """Return a client with these options.

    Raises:
        click.BadParameter: an option is unknown, or has a value that it cannot have.
    """
    try:
        return create(bootstrap_of_command(bootstrap), **options)
    except (TypeError, ValueError) as error:
        raise click.BadParameter(f"{error}.", param_hint="-X") from error


def _value(text: str) -> bool | int | float | str:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
