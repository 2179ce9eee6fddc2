"""`tidelog configs describe`."""

from __future__ import annotations

import attrs
import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient, ConfigValue
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client_commands.configs.resources import refused, resource_arguments, resource_of
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.output import show_table

_EPILOG = """\b
Examples:
  tidelog configs describe topic orders
  tidelog configs describe topic orders --all
  tidelog configs describe broker 1 --json
  tidelog configs describe cluster
"""
_DEFAULTS = ("default", "")
"""Sources of values that are not set anywhere; an old broker does not name the source."""


@click.command("describe", epilog=_EPILOG, short_help="Show configuration keys and where they are set.")
@resource_arguments
@click.option("--all", "show_all", is_flag=True, help="Also keys with their default values.")
@json_option
@with_broker
def command(client: BlockingClient, *, kind: str, name: str | None, show_all: bool, as_json: bool) -> None:
    """Show the keys of a `topic NAME`, a `group NAME`, a `broker ID`, or of all brokers (`cluster`).

    SOURCE says where a value is set: for the topic, group or broker itself, for the cluster (all brokers), in
    a broker's file (static), or nowhere (default).
    """
    resource = resource_of(kind, name)
    found = client.describe_configs([resource])[resource]
    if isinstance(found, ClientError):
        raise refused(resource, found) from found
    shown = sorted((each for each in found if show_all or _is_set(each)), key=lambda each: each.name)
    if as_json:
        print_json([attrs.asdict(each) for each in shown])
    elif shown:
        show_table(("KEY", "VALUE", "SOURCE"), [_row(each) for each in shown])
    else:
        click.echo("Nothing is set. --all shows the defaults.", err=True)


def _is_set(value: ConfigValue) -> bool:
    return value.is_own or value.source not in _DEFAULTS


def _row(each: ConfigValue) -> tuple[str, str, str]:
    value = "(secret)" if each.is_sensitive else "" if each.value is None else each.value
    return (each.name, value, each.source or ("set" if each.is_own else "-"))
