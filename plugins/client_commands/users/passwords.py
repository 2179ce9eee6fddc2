"""Passwords of the commands `tidelog users`: from a file, the environment or a prompt, never an argument."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final, ParamSpec

import click

from tidelog.plugins.client_commands.options import CommandFailed

P = ParamSpec("P")

MOST_CHARACTERS: Final = 1024
_STANDARD_INPUT: Final = "-"


def password_options(command: Callable[P, None]) -> Callable[P, None]:
    """Add the options by which a password is named, passed as `password_file` and `password_env`."""
    command = click.option(
        "--password-env", metavar="NAME", help="The environment variable that has the password."
    )(command)
    return click.option(
        "--password-file",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
        metavar="PATH",
        help="The file whose first line is the password, - for standard input.",
    )(command)


def given_password(user: str, password_file: str | None, password_env: str | None) -> str:
    """Return the password; asks for it at the terminal without the options.

    Raises:
        UsageError: both options are there, or neither and no terminal.
        CommandFailed: there is no password, or one that is too long.
    """
    if password_file is not None and password_env is not None:
        raise click.UsageError("Say --password-file or --password-env, not both.")
    if password_file is not None:
        password = _first_line(password_file)
    elif password_env is not None:
        password = os.environ.get(password_env, "")
    elif sys.stdin.isatty():
        password = click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True)
    else:
        raise click.UsageError(
            "There is no terminal to ask for the password at: say --password-file or --password-env."
        )
    if not password:
        where = password_file or password_env or "what was typed"
        raise CommandFailed(f"There is no password in {where}.")
    if len(password) > MOST_CHARACTERS:
        raise CommandFailed(f"A password has at most {MOST_CHARACTERS} characters.")
    return password


def _first_line(path: str) -> str:
    try:
        with click.open_file(path, encoding="utf-8") as file:
            return str(file.readline(MOST_CHARACTERS + 2)).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise CommandFailed(f"{path} cannot be read: {reason}.") from None
