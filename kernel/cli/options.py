"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tidelog.kernel.config.paths import check_local_path
from tidelog.kernel.config.sources import Sources, read_sources

CONFIG_VARIABLE = "TIDELOG_CONFIG"
DEBUG_VARIABLE = "TIDELOG_DEBUG"

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class LocalPath(click.Path):
    """A path of this machine: what has a scheme, such as `s3://bucket/x`, is refused."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the path.

        Raises:
            click.BadParameter: it has a scheme, or is not what `click.Path` expects.
        """
        try:
            check_local_path(os.fspath(value))
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        return super().convert(value, param, ctx)


def config_options(command: CommandT) -> CommandT:
    """Add `--config` and `--set`, given to the command as `config_file` and `settings`."""
    options = (
        click.option(
            "--config",
            "config_file",
            type=LocalPath(path_type=Path),
            envvar=CONFIG_VARIABLE,
            metavar="FILE",
            help=f"Configuration in TOML, or a server.properties of Kafka's. Default: ${CONFIG_VARIABLE}.",
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set one key; repeatable. Takes precedence over environment and file.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def sources_of(config_file: Path | None, settings: Sequence[str]) -> Sources:
    """Return the settings of the two options and the environment."""
    return read_sources(config_file, os.environ, settings)


def debug_wanted(arguments: Sequence[str]) -> bool:
    """Whether errors shall come with their traceback: `tidelog --debug COMMAND`, or the variable."""
    before_command = list(arguments[: next((i for i, word in enumerate(arguments) if word[:1] != "-"), None)])
    return "--debug" in before_command or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0", "false")
