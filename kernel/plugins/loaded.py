"""The plugins of one broker: their hooks asked by keyword, what they hand over checked and found by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.registry import ConfigKeys, nearest_name
from tidelog.kernel.config.unsupported import UnsupportedKey
from tidelog.kernel.errors import ConfigError, PluginError
from tidelog.kernel.seams.tasks import LifespanTask, PeriodicTask

if TYPE_CHECKING:
    import click
    import pluggy

    from tidelog.kernel.plugins.discovery import Candidate
    from tidelog.kernel.seams.broker import BrokerContext
    from tidelog.kernel.seams.coordination.assignors import PartitionAssignor
    from tidelog.kernel.seams.coordination.backend import CoordinatorBackend
    from tidelog.kernel.seams.events import EventListener
    from tidelog.kernel.seams.indexes import IndexFormat
    from tidelog.kernel.seams.metadata import MetadataBackend
    from tidelog.kernel.seams.storage import StorageBackend
    from tidelog.kernel.seams.tasks import BackgroundTask
    from tidelog.kernel.seams.wire import WireCodec


T = TypeVar("T")


class Plugins:
    """The loaded plugins. Objects of one seam are asked for once and kept: `storage_backend("file")`."""

    def __init__(
        self, manager: pluggy.PluginManager, candidates: Sequence[Candidate], blocked: Sequence[str]
    ) -> None:
        self.candidates = candidates
        self.blocked = frozenset(blocked)
        self._manager = manager

    def config_keys(self) -> tuple[ConfigKey[object], ...]:
        """Return the keys that the kernel and plugins hand over.

        Raises:
            PluginError: a hook failed, or two keys of one name differ.
        """
        return tuple(key for _, keys in self.config_keys_by_plugin() for key in keys)

    def unsupported_keys(self) -> tuple[UnsupportedKey, ...]:
        """Return the keys that plugins describe as keys that nothing here reads.

        Raises:
            PluginError: a hook failed.
        """
        return tuple(
            item for _, items in self._handed_over_keys for item in items if isinstance(item, UnsupportedKey)
        )

    def config_keys_by_plugin(self) -> tuple[tuple[str, tuple[ConfigKey[object], ...]], ...]:
        """The same, each plugin's under its name.

        Raises:
            PluginError: a hook failed, or two keys of one name differ.
        """
        return self._config_keys

    @cached_property
    def _config_keys(self) -> tuple[tuple[str, tuple[ConfigKey[object], ...]], ...]:
        found = tuple(
            (
                plugin,
                tuple(_config_key(plugin, item) for item in items if not isinstance(item, UnsupportedKey)),
            )
            for plugin, items in self._handed_over_keys
        )
        ConfigKeys(key for _, keys in found for key in keys)
        return found

    @cached_property
    def _handed_over_keys(self) -> tuple[tuple[str, list[object]], ...]:
        return tuple(self.ask("tidelog_config_keys"))

    def storage_backend(self, name: str) -> StorageBackend:
        """The storage that the key `storage` names.

        Raises:
            PluginError: none or two are installed; lists what is.
        """
        return self._pick("storage", name, self._storage_backends)

    def metadata_backend(self, name: str | None, storage: StorageBackend) -> MetadataBackend:
        """Return the metadata store that the key `metadata` names, by default the one that suits `storage`.

        Raises:
            PluginError: none or two are installed; lists what is.
            ConfigError: it would forget the topics whose partitions the storage keeps.
        """
        found = self._pick("metadata store", name or default_metadata_store(storage), self._metadata_backends)
        if storage.durable and not found.durable:
            raise ConfigError(
                f"metadata = {found.name} loses all topics when the broker stops, but storage = "
                f"{storage.name} keeps their partitions, which the next start would then quarantine as "
                "stray; choose a durable metadata store"
            )
        return found

    def index_formats(self) -> dict[str, IndexFormat]:
        """All ways to keep the indexes of segments, by name.

        Raises:
            PluginError: a hook failed, or two formats have the same name.
        """
        return cast("dict[str, IndexFormat]", self._by_name("index format", "tidelog_index_formats"))

    def wire_codec(self, name: str) -> WireCodec:
        """The wire protocol of that name.

        Raises:
            PluginError: none or two are installed; lists what is.
        """
        return self._pick("wire codec", name, self._wire_codecs)

    @property
    def has_group_coordinators(self) -> bool:
        """Whether a plugin offers any coordinator.

        Raises:
            PluginError: a hook failed, or two coordinators have the same name.
        """
        return bool(self._group_coordinators)

    def group_coordinator(self, name: str) -> CoordinatorBackend:
        """Return the coordinator of that name.

        Raises:
            PluginError: none or two are installed; lists what is.
        """
        return self._pick("coordinator", name, self._group_coordinators)

    def partition_assignors(self) -> dict[str, PartitionAssignor]:
        """All ways to share partitions among the members of a group, by name.

        Raises:
            PluginError: a hook failed, or two assignors have the same name.
        """
        found = self._by_name("partition assignor", "tidelog_partition_assignors")
        return cast("dict[str, PartitionAssignor]", found)

    def background_tasks(self, broker: BrokerContext) -> list[BackgroundTask]:
        """The tasks that plugins want to run for as long as `broker` does.

        Raises:
            PluginError: a hook failed.
        """
        found: list[BackgroundTask] = []
        for plugin, handed_over in self.ask("tidelog_background_tasks", broker=broker):
            for task in handed_over:
                if not isinstance(task, PeriodicTask | LifespanTask):
                    raise PluginError(
                        f"The plugin {plugin} hands over {task!r}, which is no background task."
                    )
                found.append(task)
        return found

    def event_listeners(self, broker: BrokerContext) -> list[EventListener]:
        """The functions that plugins want to be called with the events of `broker`.

        Raises:
            PluginError: a hook failed.
        """
        found: list[EventListener] = []
        for plugin, handed_over in self.ask("tidelog_event_listeners", broker=broker):
            for listener in handed_over:
                if not callable(listener):
                    raise PluginError(
                        f"The plugin {plugin} hands over {listener!r}, which is no event listener."
                    )
                found.append(cast("EventListener", listener))
        return found

    def commands(self) -> list[click.Command]:
        """Subcommands that plugins add.

        Raises:
            PluginError: a hook failed, or two commands have the same name.
        """
        return list(cast("dict[str, click.Command]", self._by_name("command", "tidelog_commands")).values())

    def ask(self, hook: str, **arguments: object) -> Iterator[tuple[str, list[object]]]:
        """Call one hook of every plugin: (name of the plugin, what it hands over), in the order of loading.

        Raises:
            PluginError: the hook raised or returned something that is no iterable; names plugin and hook.
        """
        callees = self._callees(hook)
        for callee in callees:
            others = [item.plugin for item in callees if item is not callee]
            try:
                (handed_over,) = self._manager.subset_hook_caller(hook, others)(**arguments) or ((),)
                yield callee.plugin_name, list(handed_over)
            except Exception as error:
                raise PluginError(
                    f"The plugin {callee.plugin_name} failed in {hook}: {type(error).__name__}: {error}"
                ) from error

    def offered(self, hook: str) -> Iterator[tuple[str, list[object]]]:
        """As `ask`, for a hook that takes no argument, or the plugins."""
        takes_plugins = hook == "tidelog_wire_codecs"
        return self.ask(hook, plugins=self) if takes_plugins else self.ask(hook)

    def implementers(self, hook: str) -> list[str]:
        """Names of the plugins that implement a hook, in the order of loading."""
        return [item.plugin_name for item in self._callees(hook)]

    def _callees(self, hook: str) -> list[pluggy.HookImpl]:
        implementations: list[pluggy.HookImpl] = getattr(self._manager.hook, hook).get_hookimpls()
        return [item for item in implementations if not (item.wrapper or item.hookwrapper)]

    @cached_property
    def _storage_backends(self) -> dict[str, StorageBackend]:
        return cast("dict[str, StorageBackend]", self._by_name("storage", "tidelog_storage_backends"))

    @cached_property
    def _metadata_backends(self) -> dict[str, MetadataBackend]:
        found = self._by_name("metadata store", "tidelog_metadata_stores")
        return cast("dict[str, MetadataBackend]", found)

    @cached_property
    def _wire_codecs(self) -> dict[str, WireCodec]:
        return cast("dict[str, WireCodec]", self._by_name("wire codec", "tidelog_wire_codecs"))

    @cached_property
    def _group_coordinators(self) -> dict[str, CoordinatorBackend]:
        found = self._by_name("coordinator", "tidelog_group_coordinators")
        return cast("dict[str, CoordinatorBackend]", found)

    def _by_name(self, seam: str, hook: str) -> dict[str, object]:
        found: dict[str, object] = {}
        owners: dict[str, str] = {}
        for plugin, handed_over in self.offered(hook):
            for item in handed_over:
                name = getattr(item, "name", None)
                if not isinstance(name, str):
                    raise PluginError(
                        f"The plugin {plugin} hands over {item!r} as a {seam}, but it has no name."
                    )
                if name in owners:
                    raise PluginError(
                        f"The plugins {owners[name]} and {plugin} both offer a {seam} named {name}; block "
                        f"one of them: plugins.blocked={plugin}"
                    )
                owners[name] = plugin
                found[name] = item
        return found

    def _pick(self, seam: str, name: str, installed: dict[str, T]) -> T:
        if name in installed:
            return installed[name]
        near = nearest_name(name, installed)
        hint = f" Did you mean {near}?" if near else ""
        blocked = f" Blocked plugins: {', '.join(sorted(self.blocked))}." if self.blocked else ""
        listing = ", ".join(sorted(installed)) or "none"
        raise PluginError(f"There is no {seam} named {name!r}. Installed are: {listing}.{hint}{blocked}")


def default_metadata_store(storage: StorageBackend) -> str:
    """Return the name of the metadata store for a storage: `kraft` if that is durable, else `memory`."""
    return "kraft" if storage.durable else "memory"


def _config_key(plugin: str, item: object) -> ConfigKey[object]:
    if not isinstance(item, ConfigKey):
        raise PluginError(f"The plugin {plugin} hands over {item!r}, which is no configuration key.")
    return cast("ConfigKey[object]", item)
