"""`tidelog plugins`: what is installed, where it comes from, and what of it is in use."""

from __future__ import annotations

from pathlib import Path

import attrs
import click

from tidelog.kernel.cli.options import config_options, sources_of
from tidelog.kernel.cli.tables import print_json, print_table
from tidelog.kernel.config import Config, keys
from tidelog.kernel.errors import PluginError
from tidelog.kernel.plugins import Plugins, configure
from tidelog.kernel.plugins.discovery import Candidate
from tidelog.kernel.plugins.loaded import default_metadata_store

_EPILOG = """\b
Examples:
  tidelog plugins
  tidelog plugins --set storage=memory
  tidelog plugins --json
"""
_NAMED_SEAMS = {
    "tidelog_storage_backends": "storage",
    "tidelog_metadata_stores": "metadata store",
    "tidelog_index_formats": "index format",
    "tidelog_cleanup_policies": "cleanup policy",
    "tidelog_compression_codecs": "compression codec",
    "tidelog_wire_codecs": "wire codec",
    "tidelog_group_coordinators": "coordinator",
    "tidelog_partition_assignors": "partition assignor",
    "tidelog_sinks": "sink",
    "tidelog_commands": "command",
}
_NAMELESS_SEAMS = {
    "tidelog_background_tasks": "background tasks",
    "tidelog_event_listeners": "event listeners",
}
_ALWAYS_ACTIVE = frozenset({"cleanup policy", "compression codec", "partition assignor", "command"})


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


@attrs.frozen
class Offer:
    """One thing that a plugin offers for a seam; `name` is None where things of the seam have none.

    `active`: the configuration uses it.
    """

    seam: str
    name: str | None
    active: bool


@attrs.frozen
class InstalledPlugin:
    """A plugin, where it comes from and what it offers; of a blocked one the offers are not known.

    `distribution` and `version` are None for a module that the key `plugins` names. `keys` are the names of
    the configuration keys that it adds.
    """

    name: str
    module: str
    distribution: str | None
    version: str | None
    blocked: bool
    offers: tuple[Offer, ...]
    keys: tuple[str, ...]

    @property
    def active(self) -> bool:
        """Whether the configuration uses something of it; a plugin that only adds keys is always in use."""
        return not self.blocked and (not self.offers or any(offer.active for offer in self.offers))

    @property
    def seams(self) -> tuple[str, ...]:
        """The seams it offers something for."""
        return tuple(dict.fromkeys(offer.seam for offer in self.offers))


def installed_plugins(plugins: Plugins, config: Config) -> list[InstalledPlugin]:
    """Return all plugins with what `config` makes of them.

    Raises:
        PluginError: a hook failed.
    """
    offers: dict[str, list[Offer]] = {candidate.name: [] for candidate in plugins.candidates}
    added: dict[str, list[str]] = {candidate.name: [] for candidate in plugins.candidates}
    metadata = _metadata_store(plugins, config)
    # What the kernel itself offers is of no plugin to list.
    for hook, seam in _NAMED_SEAMS.items():
        for plugin, items in plugins.offered(hook):
            offers[plugin] += [
                _offer(seam, str(getattr(item, "name", item)), config, metadata) for item in items
            ]
    for hook, seam in _NAMELESS_SEAMS.items():
        for plugin in plugins.implementers(hook):
            if plugin in offers:
                offers[plugin].append(Offer(seam, None, active=True))
    for plugin, config_keys in plugins.config_keys_by_plugin:
        if plugin in added:
            added[plugin] += [key.name for key in config_keys]
    return [
        _describe(candidate, candidate.name in plugins.blocked, offers[candidate.name], added[candidate.name])
        for candidate in plugins.candidates
    ]


def _metadata_store(plugins: Plugins, config: Config) -> str | None:
    """Return the name of the metadata store in use, None when it depends on a missing storage."""
    try:
        return config[keys.METADATA] or default_metadata_store(plugins.storage_backend(config[keys.STORAGE]))
    except PluginError:
        return None


def _offer(seam: str, name: str, config: Config, metadata: str | None) -> Offer:
    if seam in _ALWAYS_ACTIVE:
        return Offer(seam, name, active=True)
    if seam == "metadata store":
        return Offer(seam, name, name == metadata)
    if seam == "sink":
        return Offer(seam, name, name in {sink.name.kind for sink in config.sinks})
    if seam == "wire codec":
        return Offer(seam, name, name in {listener.codec for listener in config.served_listeners()})
    choosing = (key for key in config.keys.of_scope("broker") if key.chooses == seam)
    return Offer(seam, name, any(config[key] == name and config.has_effect(key) for key in choosing))


def _describe(candidate: Candidate, blocked: bool, offers: list[Offer], added: list[str]) -> InstalledPlugin:
    source = candidate.source
    return InstalledPlugin(
        candidate.name,
        candidate.module,
        source.name if source else None,
        source.version if source else None,
        blocked,
        tuple(offers),
        tuple(added),
    )
