"""`tidelog plugins`: what is installed, where it comes from, and what of it is in use."""

from __future__ import annotations

from pathlib import Path

import attrs
import click

from tidelog.kernel.cli.options import config_options, sources_of
from tidelog.kernel.cli.tables import print_json, print_table
from tidelog.kernel.plugins import configure
from tidelog.kernel.plugins.listing import InstalledPlugin, installed_plugins

_EPILOG = """\b
Examples:
  tidelog plugins
  tidelog plugins --set storage=memory
  tidelog plugins --json
"""


@click.command("plugins", epilog=_EPILOG, short_help="List the plugins and what is in use.")
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(config_file: Path | None, settings: tuple[str, ...], as_json: bool) -> None:
    """List the plugins: what they offer, whether this configuration uses it, and where they come from.

    What a plugin offers is marked with * where it is in use.
    """
    config, plugins = configure(sources_of(config_file, settings))
    installed = installed_plugins(plugins, config)
    if as_json:
        print_json([_as_json(plugin) for plugin in installed])
    else:
        header = ("PLUGIN", "STATE", "OFFERS", "DISTRIBUTION", "MODULE")
        print_table(header, [_as_row(plugin) for plugin in installed])


def _as_json(plugin: InstalledPlugin) -> dict[str, object]:
    return {**attrs.asdict(plugin), "active": plugin.active, "seams": plugin.seams}


def _as_row(plugin: InstalledPlugin) -> tuple[str, ...]:
    offers = [f"{offer.seam} {offer.name or ''}".rstrip() + "*" * offer.active for offer in plugin.offers]
    if plugin.keys:
        offers.append(f"{len(plugin.keys)} configuration key{'s' * (len(plugin.keys) > 1)}")
    source = f"{plugin.distribution} {plugin.version}" if plugin.distribution else "key `plugins`"
    state = "blocked" if plugin.blocked else "active" if plugin.active else "idle"
    return plugin.name, state, ", ".join(offers) or "-", source, plugin.module
