"""Errors as a person at the console should see them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import cast

import click

from tidelog.kernel.errors import ConfigError, PluginError, TidelogError

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def report(error: BaseException) -> int:
    """Print one sentence per cause on standard error; the exit code that suits them.

    trio reports the failures of several tasks as a group: each member is a cause of its own.
    """
    codes = [_report_one(cause) for cause in dict.fromkeys(_causes(error))]
    return max(codes, default=EXIT_FAILED)


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for member in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _causes(member)
    else:
        yield error


def _report_one(error: BaseException) -> int:
    match error:
        case SystemExit():
            return _exit_code(error)
        case KeyboardInterrupt() | click.Abort():
            return EXIT_INTERRUPTED
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return EXIT_USAGE
        case click.UsageError(ctx=context) if context is not None:
            message = error.format_message()
            end = "" if message.endswith((".", "?")) else "."
            _say(f"{message}{end} See `{context.command_path} --help`.")
            return EXIT_USAGE
        case click.ClickException():
            _say(error.format_message())
            return error.exit_code
        case ConfigError() | PluginError():
            _say(str(error))
            return EXIT_USAGE
        case TidelogError():
            _say(str(error))
        case BrokenPipeError():
            _stop_writing()
        case OSError(strerror=str()):
            _say(f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}.")
        case _:
            _say(
                f"An unexpected {type(error).__name__}: {error}. Please report it, with the output of "
                "--debug."
            )
    return EXIT_FAILED


def _exit_code(error: SystemExit) -> int:
    if isinstance(error.code, int):
        return error.code
    if error.code:
        _say(str(error.code))
    return EXIT_FAILED if error.code else 0


def _say(sentence: str) -> None:
    print(f"tidelog: {sentence}", file=sys.stderr)


def _stop_writing() -> None:
    """Discard what is left to flush at exit, since the reader of the output has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
