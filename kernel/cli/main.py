"""The entry point: finds the subcommand, and turns every error into one plain sentence and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from tidelog import __version__
from tidelog.kernel import compiled
from tidelog.kernel.cli.failures import report
from tidelog.kernel.cli.group import CommandGroup
from tidelog.kernel.cli.options import DEBUG_VARIABLE, debug_wanted

_EPILOG = f"""\b
Examples:
  tidelog serve --set listeners=PLAINTEXT://127.0.0.1:9092 --set log.dirs=data
  tidelog config log.dirs
  tidelog plugins --json

Errors are one sentence each; with --debug or {DEBUG_VARIABLE}=1 they come with a traceback.
"""


def _print_version(context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        click.echo(f"tidelog, version {__version__} ({compiled.described()})")
        context.exit()


@click.group(
    cls=CommandGroup,
    help="A Kafka-protocol broker: any Kafka client, Kafka's own files, no JVM.",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
    help="Show the version, and which modules are compiled.",
)  # fmt: skip
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def tidelog(context: click.Context, debug: bool) -> None:
    """Set what all subcommands share."""
    context.obj = debug


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `tidelog` with the process's arguments or these, and exit.

    Exit codes: 0 done, 1 failed, 2 wrong usage or wrong settings, 130 interrupted.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = tidelog.main(given, prog_name="tidelog", standalone_mode=False)
    except BaseException as error:
        if debug_wanted(given):
            traceback.print_exception(error)
        code = report(error)
    sys.exit(code)
