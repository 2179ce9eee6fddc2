"""`tidelog configs alter`."""

from __future__ import annotations

from pathlib import Path

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.kernel.config.secret_names import names_secret
from tidelog.kernel.config.sources.properties_file import read_properties
from tidelog.kernel.config.types import SECRET_ARGUMENT
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client_commands.config_changes import config_changes
from tidelog.plugins.client_commands.configs.resources import refused, resource_arguments, resource_of
from tidelog.plugins.client_commands.options import json_option, key_values, with_broker

_EPILOG = """\b
Examples:
  tidelog configs alter topic orders --set retention.ms=86400000 --delete segment.ms
  tidelog configs alter broker 1 --set log.cleaner.threads=2
  tidelog configs alter cluster --set log.retention.ms=86400000 --validate-only
  tidelog configs alter topic orders --append cleanup.policy=compact
  tidelog configs alter broker 1 --set-file users.properties
"""


def _no_secrets(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Parse `KEY=VALUE` settings, none of which is a secret; a `callback`."""
    values = key_values(context, option, given)
    for name in values:
        if names_secret(name):
            raise click.BadParameter(f"{name} {SECRET_ARGUMENT}: put it into a file for --set-file.")
    return values


def _of_file(_context: click.Context, _option: click.Parameter, path: Path | None) -> dict[str, str]:
    """Read the settings in a properties file; a `callback`."""
    if path is None:
        return {}
    problems: list[str] = []
    try:
        found = read_properties(path.read_text(encoding="utf-8"), str(path), problems)
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}.") from error
    if problems:
        raise click.BadParameter(f"{problems[0]}.")
    return {setting.name: setting.text for setting in found}


@click.command("alter", epilog=_EPILOG, short_help="Change configuration keys while they are used.")
@resource_arguments
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_no_secrets,
    help="Set a key; repeatable.",
)
@click.option(
    "--set-file",
    "settings_of_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    callback=_of_file,
    help="Set the keys of a properties file, such as those that are secret.",
)
@click.option(
    "--delete",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Restore the value of the next source; repeatable.",
)
@click.option(
    "--append",
    "appended",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="Add to a key that is a list; repeatable.",
)
@click.option(
    "--subtract",
    "subtracted",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="Remove from a key that is a list; repeatable.",
)
@click.option("--validate-only", is_flag=True, help="Only check whether the keys could be changed.")
@json_option
@with_broker
def command(
    client: BlockingClient,
    *,
    kind: str,
    name: str | None,
    settings: dict[str, str],
    settings_of_file: dict[str, str],
    deleted: tuple[str, ...],
    appended: dict[str, str],
    subtracted: dict[str, str],
    validate_only: bool,
    as_json: bool,
) -> None:
    """Change keys of a `topic NAME`, a `group NAME`, a `broker ID`, or of all brokers (`cluster`).

    What is not named stays. All changes are made, or none.
    """
    resource = resource_of(kind, name)
    twice = settings.keys() & settings_of_file.keys()
    if twice:
        raise click.UsageError(f"{min(twice)} is in --set and in the file.")
    changes = config_changes(settings | settings_of_file, deleted, appended, subtracted)
    if not changes:
        raise click.UsageError(
            "Say what is to be changed: --set, --set-file, --delete, --append or --subtract."
        )
    error = client.alter_configs({resource: changes}, validate_only=validate_only)[resource]
    if error is not None:
        raise refused(resource, error) from error
    if as_json:
        print_json({"kind": kind, "name": name, "altered": not validate_only})
        return
    verdict = "could be changed so; it was not" if validate_only else "was changed"
    click.echo(f"The configuration of {resource} {verdict}.")
