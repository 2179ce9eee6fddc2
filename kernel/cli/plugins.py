"""`tidelog plugins`: what is installed, where it comes from, what of it is in use, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs
import click

from tidelog.kernel.cli.options import config_options, sources_of
from tidelog.kernel.cli.tables import print_json, print_table
from tidelog.kernel.config import Config, Sources, keys
from tidelog.kernel.errors import ConfigError, PluginError
from tidelog.kernel.plugins import Plugins, load_usable_plugins
from tidelog.kernel.plugins.discovery import Candidate
from tidelog.kernel.plugins.loaded import NAMED_SEAMS

_EPILOG = """\b
Examples:
  tidelog plugins
  tidelog plugins --set storage=memory
  tidelog plugins --json
"""
_NAMELESS_SEAMS = {
    "tidelog_background_tasks": "background tasks",
    "tidelog_event_listeners": "event listeners",
    "tidelog_request_stages": "request stages",
}
_ALWAYS_ACTIVE = frozenset({"cleanup policy", "compression codec", "partition assignor", "command"})


@click.command("plugins", epilog=_EPILOG, short_help="List the plugins and what is in use.")
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(config_file: Path | None, settings: tuple[str, ...], as_json: bool) -> None:
    """List the plugins: what they offer, whether this configuration uses it, and where they come from.

    What a plugin offers is marked with * where it is in use. A plugin that no broker would start with is
    refused, and so is a configuration that chooses what cannot be used: the reasons follow, and the exit
    status is 2.
    """
    sources = sources_of(config_file, settings)
    plugins, refused = load_usable_plugins(sources)
    config, problems = _configuration(sources, plugins)
    installed = installed_plugins(plugins, config, refused)
    if as_json:
        print_json([_as_json(plugin) for plugin in installed])
    else:
        header = ("PLUGIN", "STATE", "OFFERS", "DISTRIBUTION", "MODULE")
        print_table(header, [_as_row(plugin) for plugin in installed])
    reasons = [str(error) for error in (*refused.values(), *problems)]
    if reasons:
        raise PluginError("\n".join(reasons))


def _configuration(sources: Sources, plugins: Plugins) -> tuple[Config | None, list[Exception]]:
    """Return the configuration, None if it is invalid, and why a broker would not start with it."""
    try:
        config = Config(sources, plugins.known_keys())
    except ConfigError as error:
        return None, [error]
    problems: list[Exception] = []
    for choose in _choices(plugins, config):
        try:
            choose()
        except (ConfigError, PluginError) as error:
            problems.append(error)
    return config, problems


def _choices(plugins: Plugins, config: Config) -> Iterator[Callable[[], object]]:
    """Yield what a broker looks up by name when it is created."""
    yield lambda: plugins.metadata_backend(
        config[keys.METADATA], plugins.storage_backend(config[keys.STORAGE])
    )
    if plugins.has_group_coordinators:
        yield lambda: plugins.group_coordinator(config[keys.COORDINATOR])
    for name in sorted({listener.codec for listener in config.served_listeners()}):
        yield lambda name=name: plugins.wire_codec(name)  # type: ignore[misc]


def _as_json(plugin: InstalledPlugin) -> dict[str, object]:
    return {**attrs.asdict(plugin), "state": plugin.state, "active": plugin.active, "seams": plugin.seams}


def _as_row(plugin: InstalledPlugin) -> tuple[str, ...]:
    offers = [f"{offer.seam} {offer.name or ''}".rstrip() + "*" * offer.active for offer in plugin.offers]
    if plugin.keys:
        offers.append(f"{len(plugin.keys)} configuration key{'s' * (len(plugin.keys) > 1)}")
    source = f"{plugin.distribution} {plugin.version}" if plugin.distribution else "key `plugins`"
    return plugin.name, plugin.state, ", ".join(offers) or "-", source, plugin.module


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
    """A plugin, where it comes from and what it offers; of a blocked or refused one the offers are not known.

    `distribution` and `version` are None for a module that the key `plugins` names. `keys` are the names of
    the configuration keys that it adds. `refused` is the reason why no broker starts with it, else None.
    """

    name: str
    module: str
    distribution: str | None
    version: str | None
    blocked: bool
    refused: str | None
    offers: tuple[Offer, ...]
    keys: tuple[str, ...]

    @property
    def active(self) -> bool:
        """Whether the configuration uses something of it; a plugin that only adds keys is always in use."""
        loaded = not self.blocked and self.refused is None
        return loaded and (not self.offers or any(offer.active for offer in self.offers))

    @property
    def state(self) -> str:
        """One word for people: refused, blocked, active or idle."""
        if self.refused is not None:
            return "refused"
        return "blocked" if self.blocked else "active" if self.active else "idle"

    @property
    def seams(self) -> tuple[str, ...]:
        """The seams it offers something for."""
        return tuple(dict.fromkeys(offer.seam for offer in self.offers))


def installed_plugins(
    plugins: Plugins, config: Config | None, refused: Mapping[str, PluginError] | None = None
) -> list[InstalledPlugin]:
    """Return all plugins with what `config` makes of them, and the `refused` ones, which are not loaded.

    Without a valid configuration nothing is in use.

    Raises:
        PluginError: a hook failed.
    """
    reasons = {name: str(error) for name, error in (refused or {}).items()}
    offers = _Offers(plugins, config)
    return [
        _describe(candidate, candidate.name in plugins.blocked, reasons.get(candidate.name), offers)
        for candidate in plugins.candidates
    ]


class _Offers:
    """What each plugin offers, and the keys that it adds, by its name."""

    def __init__(self, plugins: Plugins, config: Config | None) -> None:
        self._plugins = plugins
        self._config = config
        self._metadata = None if config is None else _metadata_store(plugins, config)
        # What the kernel itself offers is of no plugin to list.
        self._found: dict[str, list[Offer]] = {candidate.name: [] for candidate in plugins.candidates}
        for hook, seam in NAMED_SEAMS.items():
            for plugin, items in plugins.ask(hook):
                self._found[plugin] += [
                    self._of_seam(seam, str(getattr(item, "name", item))) for item in items
                ]
        for hook, seam in _NAMELESS_SEAMS.items():
            self._add_nameless(hook, seam, active=config is not None)
        for owner, hook in plugins.declared_hooks():
            self._add_declared(owner, hook)

    def of(self, plugin: str) -> tuple[Offer, ...]:
        """Return what a plugin offers."""
        return tuple(self._found[plugin])

    def keys_of(self, plugin: str) -> tuple[str, ...]:
        """Return the names of the configuration keys that a plugin adds."""
        added = self._plugins.config_keys_by_plugin
        return tuple(key.name for name, config_keys in added if name == plugin for key in config_keys)

    def _of_seam(self, seam: str, name: str) -> Offer:
        if self._config is None:
            return Offer(seam, name, active=False)
        return _offer(seam, name, self._config, self._metadata)

    def _add_nameless(self, hook: str, seam: str, *, active: bool) -> None:
        for plugin in self._plugins.implementers(hook):
            if plugin in self._found:
                self._found[plugin].append(Offer(seam, None, active))

    def _add_declared(self, owner: str, hook: str) -> None:
        """Add what plugins return to a hook of another plugin, the owner: it is in use if that one is."""
        seam = hook.removeprefix("tidelog_").replace("_", " ")
        active = any(offer.active for offer in self._found[owner])
        if self._plugins.takes_arguments(hook):
            self._add_nameless(hook, seam, active=active)
            return
        for plugin, items in self._plugins.ask(hook):
            if plugin == owner:
                continue
            names = [getattr(item, "name", None) for item in items]
            named = [Offer(seam.removesuffix("s"), name, active) for name in names if isinstance(name, str)]
            self._found[plugin] += named or [Offer(seam, None, active)]


def _metadata_store(plugins: Plugins, config: Config) -> str | None:
    """Return the name of the metadata store in use, None when the one that is chosen cannot be used."""
    try:
        storage = plugins.storage_backend(config[keys.STORAGE])
        return plugins.metadata_backend(config[keys.METADATA], storage).name
    except (ConfigError, PluginError):
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


def _describe(candidate: Candidate, blocked: bool, refused: str | None, offers: _Offers) -> InstalledPlugin:
    source = candidate.source
    return InstalledPlugin(
        candidate.name,
        candidate.module,
        source.name if source else None,
        source.version if source else None,
        blocked and refused is None,
        refused,
        offers.of(candidate.name),
        offers.keys_of(candidate.name),
    )
