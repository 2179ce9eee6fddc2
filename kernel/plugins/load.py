"""Loading plugins, and the two steps to a configuration: the plugins it names, then the keys they add."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from inspect import isroutine
from types import ModuleType
from typing import cast

import pluggy

from tidelog.kernel import hookspecs
from tidelog.kernel.config.config import Config
from tidelog.kernel.config.keys import PLUGINS, PLUGINS_BLOCKED
from tidelog.kernel.config.resolve import early_value
from tidelog.kernel.config.sources import Sources, settings_from_mapping
from tidelog.kernel.errors import PluginError
from tidelog.kernel.plugins import builtin
from tidelog.kernel.plugins.discovery import Candidate, find_candidates, refuse_unknown_blocked
from tidelog.kernel.plugins.interface import log_deprecated_hooks, refuse_other_interface
from tidelog.kernel.plugins.loaded import Plugins
from tidelog.kernel.records.compression import register_codecs


def load_plugins(blocked: Sequence[str] = (), extra: Sequence[str] = ()) -> Plugins:
    """Import and register every installed plugin and the `extra` modules, without the `blocked` names.

    From then on this process has their compression codecs.

    Raises:
        PluginError: a plugin cannot be imported, is written for another version of the interface, has a hook
            that does not exist or no hook at all; two have the same name; a blocked name is none.
    """
    candidates = find_candidates(extra)
    refuse_unknown_blocked(blocked, candidates)
    manager = _ModuleManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(builtin, name=builtin.NAME)
    wanted = [candidate for name, candidate in candidates.items() if name not in blocked]
    import_seconds = {candidate.name: _register(manager, candidate) for candidate in wanted}
    plugins = Plugins(manager, tuple(candidates.values()), blocked, import_seconds)
    by_module = {manager.get_plugin(candidate.name): candidate for candidate in wanted}
    try:
        # After all plugins are registered, as any of them may declare hooks, and before the check for hooks
        # that no one declares.
        _add_hookspecs(manager, plugins)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise _misfit(by_module[error.plugin], error) from error
    for module, candidate in by_module.items():
        _refuse_without_hooks(manager, module, candidate)
        log_deprecated_hooks(manager, module, candidate)
    register_codecs(plugins.compression_codecs().values())
    return plugins


def load_usable_plugins(sources: Sources) -> tuple[Plugins, Mapping[str, PluginError]]:
    """Return the plugins that `sources` name without those that a broker refuses, and their errors by name.

    Raises:
        PluginError: none of the plugins is at fault alone, or a blocked name is none.
    """
    refused: dict[str, PluginError] = {}
    blocked, extra = early_value(sources, PLUGINS_BLOCKED), early_value(sources, PLUGINS)
    while True:
        try:
            # From the beginning each time; each round blocks one more plugin, so it ends.
            plugins = load_plugins((*blocked, *refused), extra)
            plugins.check()
        except PluginError as error:
            if error.plugin is None or error.plugin in refused:
                raise
            refused[error.plugin] = error
        else:
            return plugins, refused


def configure(settings: Sources | Mapping[str, object]) -> tuple[Config, Plugins]:
    """Return the plugins that `settings` name, and the configuration, checked against all keys.

    A program that embeds a broker gives a mapping, as to `Config.from_mapping`: `{"num.partitions": 3}`.

    Raises:
        PluginError: a plugin is missing or broken.
        ConfigError: lists every unknown key and every bad value.
    """
    sources = settings if isinstance(settings, Sources) else Sources().over(settings_from_mapping(settings))
    plugins = load_wanted_plugins(sources)
    return Config(sources, plugins.known_keys()), plugins


def load_wanted_plugins(sources: Sources) -> Plugins:
    """Return the plugins that `sources` name; other settings are not read.

    Raises:
        PluginError: a plugin is missing or broken.
    """
    return load_plugins(early_value(sources, PLUGINS_BLOCKED), early_value(sources, PLUGINS))


class _ModuleManager(pluggy.PluginManager):
    """A plugin manager whose plugins are modules, in which it looks at functions only."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        # pluggy would search each name of a module as that of any object, through all classes of its type.
        if isinstance(plugin, ModuleType) and not isroutine(vars(plugin).get(name)):
            return None
        return super().parse_hookimpl_opts(plugin, name)


def _register(manager: pluggy.PluginManager, candidate: Candidate) -> float:
    """Import and register a plugin; return the seconds that its import took."""
    began = time.perf_counter()
    module = candidate.load()
    seconds = time.perf_counter() - began
    # Before its hooks are looked at: one that is written for another version may well have others.
    refuse_other_interface(module, candidate)
    try:
        manager.register(module, name=candidate.name)
    except (pluggy.PluginValidationError, ValueError) as error:
        raise _misfit(candidate, error) from error
    return seconds


def _add_hookspecs(manager: pluggy.PluginManager, plugins: Plugins) -> None:
    """Add the hooks that plugins declare themselves."""
    for plugin, modules in plugins.ask("tidelog_hookspecs"):
        for module in modules:
            try:
                manager.add_hookspecs(cast("ModuleType", module))
            except ValueError as error:
                raise PluginError(
                    f"The plugin {plugin} hands over {module!r}, which declares no hook.", plugin
                ) from error


def _refuse_without_hooks(manager: pluggy.PluginManager, module: object, candidate: Candidate) -> None:
    if not manager.get_hookcallers(module):
        raise PluginError(
            f"The plugin {candidate} implements no hook. Its hooks have to be functions in the module "
            "itself, marked with tidelog.kernel.hookimpl.",
            candidate.name,
        )


def _misfit(candidate: Candidate, reason: object) -> PluginError:
    return PluginError(
        f"The plugin {candidate} does not fit the hooks of this version: {' '.join(str(reason).split())}",
        candidate.name,
    )
