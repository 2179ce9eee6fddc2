"""`tidelog plugins`: what is installed, where it comes from, what of it is in use, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
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
  tidelog plugins --verbose
  tidelog plugins --json
"""
_CHECK_EPILOG = """\b
Examples:
  tidelog plugins check storage_memory
  tidelog plugins check my_package.plugin
"""
_NEEDED_BY_SUITES = {"hypothesis": "hypothesis", "pytest": "pytest", "pytest_trio": "pytest-trio"}
"""Modules that the conformance suites need, and the distributions that have them."""
_NAMELESS_SEAMS = {
    "tidelog_background_tasks": "background tasks",
    "tidelog_event_listeners": "event listeners",
    "tidelog_request_stages": "request stages",
}
_ALWAYS = "always in use"
_OF_OWNER = "what asks for it is not in use"
_ALWAYS_ACTIVE = frozenset({"cleanup policy", "compression codec", "partition assignor", "command"})


@click.group(
    "plugins",
    epilog=_EPILOG,
    short_help="List the plugins and what is in use.",
    invoke_without_command=True,
    subcommand_metavar="[check NAME]",
)
@config_options
@click.option("--verbose", is_flag=True, help="Describe each: why it is in use or not, its keys, its cost.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def command(
    context: click.Context,
    config_file: Path | None,
    settings: tuple[str, ...],
    verbose: bool,
    as_json: bool,
) -> None:
    """List the plugins: what they offer, whether this configuration uses it, and where they come from.

    What a plugin offers is marked with * where it is in use. A plugin that no broker would start with is
    refused, and so is a configuration that chooses what cannot be used: the reasons follow, and the exit
    status is 2.
    """
    if context.invoked_subcommand is not None:
        return
    sources = sources_of(config_file, settings)
    plugins, refused = load_usable_plugins(sources)
    config, problems = _configuration(sources, plugins)
    installed = installed_plugins(plugins, config, refused)
    if as_json:
        print_json([_as_json(plugin) for plugin in installed])
    elif verbose:
        click.echo("\n\n".join(_described(plugin) for plugin in installed))
    else:
        header = ("PLUGIN", "STATE", "OFFERS", "DISTRIBUTION", "MODULE")
        print_table(header, [_as_row(plugin) for plugin in installed])
    reasons = [str(error) for error in (*refused.values(), *problems)]
    if reasons:
        raise PluginError("\n".join(reasons))


@command.command("check", epilog=_CHECK_EPILOG, short_help="Run the conformance suites of a plugin.")
@click.argument("name")
def check(name: str) -> None:
    """Run the conformance suites of all that the plugin NAME offers: of an installed one, or of a module.

    The exit status is 0 if no test fails. What no suite can prove is reported as skipped. `pytest
    --tidelog-plugin NAME` does the same with all options of pytest.
    """
    missing = [brought_by for module, brought_by in _NEEDED_BY_SUITES.items() if find_spec(module) is None]
    if missing:
        raise click.ClickException(
            f"The suites need {', '.join(missing)}: pip install {' '.join(_NEEDED_BY_SUITES.values())}"
        )
    # Apart from whatever is configured in this folder, which is that of anyone.
    options = ("-c", os.devnull, "--rootdir", str(Path.cwd()), "-p", "no:cacheprovider", "-ra")
    program = (sys.executable, "-m", "pytest", *options, "--tidelog-plugin", name)
    raise SystemExit(subprocess.run(program, check=False).returncode)  # noqa: S603


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
    offers = [str(offer) for offer in plugin.offers]
    if plugin.keys:
        offers.append(f"{len(plugin.keys)} configuration key{'s' * (len(plugin.keys) > 1)}")
    source = f"{plugin.distribution} {plugin.version}" if plugin.distribution else "key `plugins`"
    return plugin.name, plugin.state, ", ".join(offers) or "-", source, plugin.module


def _described(plugin: InstalledPlugin) -> str:
    """Return some lines about a plugin."""
    source = f"{plugin.distribution} {plugin.version}" if plugin.distribution else "key `plugins`"
    rows = [("from", f"{source}, module {plugin.module}")]
    rows += [("offers", f"{offer} ({offer.reason})") for offer in plugin.offers]
    if plugin.keys:
        rows.append(("keys", ", ".join(dict.fromkeys(plugin.keys))))
    if plugin.import_ms is not None:
        rows.append(("import", f"{plugin.import_ms:.1f} ms at each start"))
    if plugin.blocked:
        rows.append(("blocked", "plugins.blocked names it"))
    if plugin.refused is not None:
        rows.append(("refused", plugin.refused))
    return "\n".join([f"{plugin.name}: {plugin.state}", *(f"  {title:<8} {text}" for title, text in rows)])


@attrs.frozen
class Offer:
    """One thing that a plugin offers for a seam; `name` is None where things of the seam have none.

    `active`: the configuration uses it. `reason` is why it does, or what would have it used.
    """

    seam: str
    name: str | None
    active: bool
    reason: str = attrs.field(default="the configuration is invalid", eq=False)

    def __str__(self) -> str:
        return f"{self.seam} {self.name or ''}".rstrip() + "*" * self.active


@attrs.frozen
class InstalledPlugin:
    """A plugin, where it comes from and what it offers; of a blocked or refused one the offers are not known.

    `distribution` and `version` are None for a module that the key `plugins` names. `keys` are the names of
    the configuration keys that it adds. `refused` is the reason why no broker starts with it, else None.
    `import_ms` is what its import took, beside what others had imported; None if it is not loaded.
    """

    name: str
    module: str
    distribution: str | None
    version: str | None
    blocked: bool
    refused: str | None
    offers: tuple[Offer, ...]
    keys: tuple[str, ...]
    import_ms: float | None

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
        self.import_seconds = plugins.import_seconds
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
                self._found[plugin].append(Offer(seam, None, active, _ALWAYS if active else _OF_OWNER))

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
            reason = f"the plugin {owner} {'is' if active else 'is not'} in use"
            named = [
                Offer(seam.removesuffix("s"), name, active, reason) for name in names if isinstance(name, str)
            ]
            self._found[plugin] += named or [Offer(seam, None, active, reason)]


def _metadata_store(plugins: Plugins, config: Config) -> str | None:
    """Return the name of the metadata store in use, None when the one that is chosen cannot be used."""
    try:
        storage = plugins.storage_backend(config[keys.STORAGE])
        return plugins.metadata_backend(config[keys.METADATA], storage).name
    except (ConfigError, PluginError):
        return None


def _offer(seam: str, name: str, config: Config, metadata: str | None) -> Offer:
    """Return what is offered under a name, with the setting that decides on it."""
    if seam in _ALWAYS_ACTIVE:
        return Offer(seam, name, active=True, reason=_ALWAYS)
    if seam == "metadata store":
        return Offer(seam, name, name == metadata, f"the metadata store is {metadata}")
    if seam == "sink":
        used = name in {sink.name.kind for sink in config.sinks}
        return Offer(seam, name, used, f"there is {'a' if used else 'no'} table [sinks.{name}.NAME]")
    if seam == "wire codec":
        return _of_listeners(seam, name, {each.name: each.codec for each in config.served_listeners()})
    if seam == "transport":
        protocols = {each.name: each.security_protocol for each in config.served_listeners()}
        return _of_listeners(seam, name, protocols)
    choosing = [key for key in config.keys.of_scope("broker") if key.chooses == seam]
    active = any(config[key] == name and config.has_effect(key) for key in choosing)
    settings = [
        f"{key} = {config[key] or 'nothing'}" + ("" if config.has_effect(key) else ", which has no effect")
        for key in choosing
    ]
    return Offer(seam, name, active, ", ".join(settings) or "nothing chooses it")


def _of_listeners(seam: str, name: str, chosen: Mapping[str, str]) -> Offer:
    """Return what listeners choose, which are given with the name that each of them has chosen."""
    users = [listener for listener, used in chosen.items() if used == name]
    reason = (
        f"of listener {', '.join(users)}" if users else f"no listener is mapped to it: {', '.join(chosen)}"
    )
    return Offer(seam, name, bool(users), reason)


def _describe(candidate: Candidate, blocked: bool, refused: str | None, offers: _Offers) -> InstalledPlugin:
    source, seconds = candidate.source, offers.import_seconds.get(candidate.name)
    return InstalledPlugin(
        candidate.name,
        candidate.module,
        source.name if source else None,
        source.version if source else None,
        blocked and refused is None,
        refused,
        offers.of(candidate.name),
        offers.keys_of(candidate.name),
        None if seconds is None else round(seconds * 1000, 1),
    )
