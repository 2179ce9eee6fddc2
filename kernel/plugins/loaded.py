"""The plugins of one broker: calls of their hooks, and the objects that they return, by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, cast

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.keys import COMPRESSION_OF_PRODUCER, UNCOMPRESSED
from tidelog.kernel.config.registry import ConfigKeys
from tidelog.kernel.config.sinks import COMMON_SINK_KEYS, SINK_NAME
from tidelog.kernel.config.types import nearest_name
from tidelog.kernel.config.unsupported import UnsupportedKey
from tidelog.kernel.errors import ConfigError, PluginError
from tidelog.kernel.records.compression import MAX_CODEC_ID, NO_COMPRESSION
from tidelog.kernel.seams.requests import Phase
from tidelog.kernel.seams.tasks import LifespanTask, PeriodicTask

if TYPE_CHECKING:
    from types import ModuleType

    import click
    import pluggy

    from tidelog.kernel.plugins.discovery import Candidate
    from tidelog.kernel.seams.authorizer import AuthorizerBackend
    from tidelog.kernel.seams.broker import BrokerContext
    from tidelog.kernel.seams.cleanup import CleanupPolicy
    from tidelog.kernel.seams.compression import CompressionCodec
    from tidelog.kernel.seams.controller import ControllerBackend
    from tidelog.kernel.seams.coordination.assignors import PartitionAssignor
    from tidelog.kernel.seams.coordination.backend import CoordinatorBackend
    from tidelog.kernel.seams.events import EventListener
    from tidelog.kernel.seams.indexes import IndexFormat
    from tidelog.kernel.seams.interceptors import InterceptorKind
    from tidelog.kernel.seams.metadata import MetadataBackend
    from tidelog.kernel.seams.quotas import QuotaCallbackBackend
    from tidelog.kernel.seams.requests import RequestStage
    from tidelog.kernel.seams.sasl import SaslMechanismBackend
    from tidelog.kernel.seams.sinks import SinkKind
    from tidelog.kernel.seams.storage import StorageBackend
    from tidelog.kernel.seams.tasks import BackgroundTask
    from tidelog.kernel.seams.transport import TransportBackend
    from tidelog.kernel.seams.wire import WireCodec

NOT_CODECS = (NO_COMPRESSION, COMPRESSION_OF_PRODUCER, UNCOMPRESSED)
"""What stands for no codec, in clients and as a value of `compression.type`."""
NAMED_SEAMS = {
    "tidelog_storage_backends": "storage",
    "tidelog_metadata_stores": "metadata store",
    "tidelog_controllers": "controller",
    "tidelog_index_formats": "index format",
    "tidelog_cleanup_policies": "cleanup policy",
    "tidelog_compression_codecs": "compression codec",
    "tidelog_wire_codecs": "wire codec",
    "tidelog_transports": "transport",
    "tidelog_sasl_mechanisms": "SASL mechanism",
    "tidelog_group_coordinators": "coordinator",
    "tidelog_partition_assignors": "partition assignor",
    "tidelog_sinks": "sink",
    "tidelog_authorizers": "authorizer",
    "tidelog_interceptors": "interceptor",
    "tidelog_quota_callbacks": "quota callback",
    "tidelog_commands": "command",
}
"""The seams whose objects have names, by the hooks that return them."""
_SINKS = "tidelog_sinks"
_POLICY_NAME = re.compile(r"[a-zA-Z0-9._-]{1,100}")


class Plugins:
    """The loaded plugins, and the objects that they offer, which are collected once.

    `import_seconds` is what the import of each loaded one took in this process, by name.

    All methods raise `PluginError` when a hook fails or returns an object of another kind, when two objects
    of a seam have the same name, and when none has the wanted name; then it lists what is installed.
    """

    def __init__(
        self,
        manager: pluggy.PluginManager,
        candidates: Sequence[Candidate],
        blocked: Sequence[str],
        import_seconds: Mapping[str, float],
    ) -> None:
        self.candidates = candidates
        self.import_seconds = import_seconds
        self.blocked = frozenset(blocked)
        self._manager = manager
        self._offered: dict[str, dict[str, object]] = {}
        self._owners: dict[tuple[str, str], str] = {}

    def check(self) -> None:
        """Check all that plugins offer, also what no configuration has chosen."""
        self.known_keys()
        for hook, seam in NAMED_SEAMS.items():
            self._by_name(seam, hook)

    def config_keys(self) -> tuple[ConfigKey[object], ...]:
        """Return the configuration keys of the kernel and of plugins."""
        return tuple(key for _, keys in self.config_keys_by_plugin for key in keys)

    def known_keys(self) -> ConfigKeys:
        """Return all keys of a configuration with these plugins."""
        kinds = {name: tuple(kind.keys) for name, kind in self.sink_kinds().items()}
        return ConfigKeys(
            self.config_keys(),
            self.unsupported_keys(),
            self.cleanup_policies(),
            self.compression_codecs(),
            kinds,
            self.transports(),
        )

    def unsupported_keys(self) -> tuple[UnsupportedKey, ...]:
        """Return the keys of other brokers that no plugin reads."""
        return tuple(
            item for _, items in self._returned_keys for item in items if isinstance(item, UnsupportedKey)
        )

    @cached_property
    def config_keys_by_plugin(self) -> tuple[tuple[str, tuple[ConfigKey[object], ...]], ...]:
        """The configuration keys of each plugin, with its name."""
        found = tuple(
            (
                plugin,
                tuple(_config_key(plugin, item) for item in items if not isinstance(item, UnsupportedKey)),
            )
            for plugin, items in self._returned_keys
        )
        _check_declared_once(found)
        return found

    @cached_property
    def _returned_keys(self) -> tuple[tuple[str, list[object]], ...]:
        return tuple(self.ask("tidelog_config_keys"))

    def storage_backend(self, name: str) -> StorageBackend:
        """Return the storage of that name."""
        return cast("StorageBackend", self._pick("storage", name, "tidelog_storage_backends"))

    def metadata_backend(self, name: str | None, storage: StorageBackend) -> MetadataBackend:
        """Return the metadata store of that name, by default the one that suits `storage`.

        Raises:
            ConfigError: it is not durable, but the storage is.
        """
        name = name or default_metadata_store(storage)
        found = cast("MetadataBackend", self._pick("metadata store", name, "tidelog_metadata_stores"))
        if storage.durable and not found.durable:
            raise ConfigError(
                f"metadata = {found.name} loses all topics when the broker stops, but storage = "
                f"{storage.name} keeps their partitions, which the next start would then quarantine as "
                "stray; choose a durable metadata store"
            )
        return found

    def controller_backend(self, name: str) -> ControllerBackend:
        """Return the controller of that name."""
        return cast("ControllerBackend", self._pick("controller", name, "tidelog_controllers"))

    def authorizer_backend(self, name: str) -> AuthorizerBackend:
        """Return the authorizer of that name."""
        return cast("AuthorizerBackend", self._pick("authorizer", name, "tidelog_authorizers"))

    def interceptor_kind(self, name: str) -> InterceptorKind:
        """Return the kind of interceptor of that name."""
        return cast("InterceptorKind", self._pick("interceptor", name, "tidelog_interceptors"))

    def quota_callback_backend(self, name: str) -> QuotaCallbackBackend:
        """Return the quota callback of that name."""
        return cast("QuotaCallbackBackend", self._pick("quota callback", name, "tidelog_quota_callbacks"))

    def index_formats(self) -> dict[str, IndexFormat]:
        """Return all index formats by name."""
        return cast("dict[str, IndexFormat]", self._by_name("index format", "tidelog_index_formats"))

    def cleanup_policies(self) -> dict[str, CleanupPolicy]:
        """Return all cleanup policies by name."""
        hook = "tidelog_cleanup_policies"
        found = self._by_name("cleanup policy", hook)
        for name in found:
            if not _POLICY_NAME.fullmatch(name):
                # It is an item of a list, and a part of the name of a file.
                raise PluginError(
                    f"The cleanup policy {name!r} has a name with other than a-z A-Z 0-9 . _ -",
                    self._owners[hook, name],
                )
        return cast("dict[str, CleanupPolicy]", found)

    def compression_codecs(self) -> dict[str, CompressionCodec]:
        """Return all compression codecs by name."""
        hook = "tidelog_compression_codecs"
        found = cast("dict[str, CompressionCodec]", self._by_name("compression codec", hook))
        by_id: dict[int, CompressionCodec] = {}
        for codec in found.values():
            if not 1 <= codec.id <= MAX_CODEC_ID or codec.name in NOT_CODECS:
                raise PluginError(
                    f"The compression codec {codec.name!r} has the id {codec.id}: ids are 1 to "
                    f"{MAX_CODEC_ID}, and no codec is named {', '.join(NOT_CODECS)}.",
                    self._owners[hook, codec.name],
                )
            other = by_id.setdefault(codec.id, codec)
            if other is not codec:
                raise PluginError(
                    f"The compression codecs {other.name} and {codec.name} have the same id {codec.id}; "
                    "block the plugin of one of them with plugins.blocked.",
                    self._owners[hook, codec.name],
                )
        return found

    def wire_codec(self, name: str) -> WireCodec:
        """Return the wire protocol of that name."""
        return cast("WireCodec", self._pick("wire codec", name, "tidelog_wire_codecs"))

    def transports(self) -> dict[str, TransportBackend]:
        """Return all transports by their security protocols."""
        return cast("dict[str, TransportBackend]", self._by_name("transport", "tidelog_transports"))

    def transport(self, security_protocol: str) -> TransportBackend:
        """Return the transport of that security protocol."""
        return cast("TransportBackend", self._pick("transport", security_protocol, "tidelog_transports"))

    def sasl_mechanism(self, name: str) -> SaslMechanismBackend:
        """Return the SASL mechanism of that name."""
        return cast("SaslMechanismBackend", self._pick("SASL mechanism", name, "tidelog_sasl_mechanisms"))

    @property
    def has_group_coordinators(self) -> bool:
        """Whether a plugin offers a coordinator."""
        return bool(self._by_name("coordinator", "tidelog_group_coordinators"))

    def group_coordinator(self, name: str) -> CoordinatorBackend:
        """Return the coordinator of that name."""
        return cast("CoordinatorBackend", self._pick("coordinator", name, "tidelog_group_coordinators"))

    def partition_assignors(self) -> dict[str, PartitionAssignor]:
        """Return all server-side assignors by name."""
        found = self._by_name("partition assignor", "tidelog_partition_assignors")
        return cast("dict[str, PartitionAssignor]", found)

    def sink_kinds(self) -> dict[str, SinkKind]:
        """Return all kinds of sinks by name."""
        found = cast("dict[str, SinkKind]", self._by_name("kind of sink", _SINKS))
        for kind in found.values():
            _check_sink_kind(kind, self._owners[_SINKS, kind.name])
        return found

    def background_tasks(self, broker: BrokerContext) -> list[BackgroundTask]:
        """Return the background tasks of plugins for `broker`."""
        found: list[BackgroundTask] = []
        for plugin, returned in self.ask("tidelog_background_tasks", broker=broker):
            for task in returned:
                if not isinstance(task, PeriodicTask | LifespanTask):
                    raise PluginError(
                        f"The plugin {plugin} hands over {task!r}, which is no background task.", plugin
                    )
                found.append(task)
        return found

    def event_listeners(self, broker: BrokerContext) -> list[EventListener]:
        """Return the event listeners of plugins for `broker`."""
        found: list[EventListener] = []
        for plugin, returned in self.ask("tidelog_event_listeners", broker=broker):
            for listener in returned:
                if not callable(listener):
                    raise PluginError(
                        f"The plugin {plugin} hands over {listener!r}, which is no event listener.", plugin
                    )
                found.append(cast("EventListener", listener))
        return found

    def request_stages(self, broker: BrokerContext) -> list[RequestStage]:
        """Return the request stages of plugins for `broker`, in the order in which they are called."""
        found: list[RequestStage] = []
        for plugin, returned in self.ask("tidelog_request_stages", broker=broker):
            for stage in returned:
                if not isinstance(getattr(stage, "phase", None), Phase):
                    raise PluginError(
                        f"The plugin {plugin} hands over {stage!r}, which is no request stage with a phase.",
                        plugin,
                    )
                found.append(cast("RequestStage", stage))
        # A stable sort: stages of one phase stay in the order of loading.
        return sorted(found, key=lambda stage: stage.phase)

    def commands(self) -> list[click.Command]:
        """Return the subcommands of plugins."""
        return list(cast("dict[str, click.Command]", self._by_name("command", "tidelog_commands")).values())

    def ask(self, hook: str, **arguments: object) -> Iterator[tuple[str, list[object]]]:
        """Call a hook of every plugin in the order of loading; yield (plugin name, what it returns).

        Beside `arguments` a hook gets these plugins as `plugins`, if it declares that.

        Raises:
            ConfigError: a hook with `arguments` refuses the configuration.
            PluginError: a hook raised anything else; names plugin and hook.
        """
        callees = self._callees(hook)
        for callee in callees:
            # One plugin at a time, so that an error and a returned object have an owner.
            others = [item.plugin for item in callees if item is not callee]
            try:
                caller = self._manager.subset_hook_caller(hook, others)
                (returned,) = caller(plugins=self, **arguments) or ((),)
                yield callee.plugin_name, list(returned)
            except Exception as error:
                if isinstance(error, PluginError) and error.plugin is not None:
                    # A hook of that plugin, which this one has called.
                    raise
                if isinstance(error, ConfigError) and arguments:
                    # It was given the configuration, and that is at fault, not the plugin.
                    raise
                raise PluginError(
                    f"The plugin {callee.plugin_name} failed in {hook}: {type(error).__name__}: {error}",
                    callee.plugin_name,
                ) from error

    def declared_hooks(self) -> list[tuple[str, str]]:
        """Return the hooks that plugins declare: (name of the plugin, name of the hook)."""
        return [
            (plugin, name)
            for plugin, modules in self.ask("tidelog_hookspecs")
            for module in modules
            for name in dir(module)
            if self._manager.parse_hookspec_opts(cast("ModuleType", module), name) is not None
        ]

    def takes_arguments(self, hook: str) -> bool:
        """Return whether a hook is called with arguments of its own, beside the plugins."""
        spec = getattr(self._manager.hook, hook).spec
        return spec is not None and not {"plugins"}.issuperset(spec.argnames)

    def implementers(self, hook: str) -> list[str]:
        """Return the names of the plugins that implement a hook, in the order of loading."""
        return [item.plugin_name for item in self._callees(hook)]

    def _callees(self, hook: str) -> list[pluggy.HookImpl]:
        implementations: list[pluggy.HookImpl] = getattr(self._manager.hook, hook).get_hookimpls()
        return [item for item in implementations if not (item.wrapper or item.hookwrapper)]

    def _by_name(self, seam: str, hook: str) -> dict[str, object]:
        if hook not in self._offered:
            self._offered[hook] = self._named_objects(seam, hook)
        return self._offered[hook]

    def _named_objects(self, seam: str, hook: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for plugin, returned in self.ask(hook):
            for item in returned:
                name = getattr(item, "name", None)
                if not isinstance(name, str):
                    raise PluginError(
                        f"The plugin {plugin} hands over {item!r} as a {seam}, but it has no name.", plugin
                    )
                if name in found:
                    other = self._owners[hook, name]
                    raise PluginError(
                        f"The plugins {other} and {plugin} both offer a {seam} named {name}; block one of "
                        f"them: plugins.blocked={plugin}",
                        plugin,
                    )
                self._owners[hook, name] = plugin
                found[name] = item
        return found

    def _pick(self, seam: str, name: str, hook: str) -> object:
        installed = self._by_name(seam, hook)
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


def _check_sink_kind(kind: SinkKind, plugin: str) -> None:
    if not SINK_NAME.fullmatch(kind.name):
        raise PluginError(
            f"The kind of sink {kind.name!r} has a name with other than a-z A-Z 0-9 _ -", plugin
        )
    taken = {key.name for key in COMMON_SINK_KEYS}
    items: Iterable[object] = getattr(kind, "keys", ())
    for item in items:
        key = _config_key(plugin, item)
        if key.scope != "broker" or key.dynamic:
            raise PluginError(
                f"The kind of sink {kind.name} has the key {key.name}, which is one of topics, or can be "
                "changed while the broker runs: a sink's keys are read when it is created.",
                plugin,
            )
        if key.name in taken:
            raise PluginError(
                f"The kind of sink {kind.name} declares the key {key.name}, which it has already: every sink "
                f"has {', '.join(common.name for common in COMMON_SINK_KEYS)}.",
                plugin,
            )
        taken.add(key.name)
    if not callable(getattr(kind, "create", None)):
        raise PluginError(f"The kind of sink {kind.name} has no method create.", plugin)


def _check_declared_once(found: Sequence[tuple[str, Sequence[ConfigKey[object]]]]) -> None:
    """Check that no two plugins declare one key differently; the later one is at fault.

    Raises:
        PluginError: two do.
    """
    try:
        ConfigKeys(key for _, keys in found for key in keys)
    except PluginError as error:
        for count, (plugin, _) in enumerate(found, 1):
            try:
                ConfigKeys(key for _, keys in found[:count] for key in keys)
            except PluginError:
                raise PluginError(str(error), plugin) from error


def _config_key(plugin: str, item: object) -> ConfigKey[object]:
    if not isinstance(item, ConfigKey):
        raise PluginError(f"The plugin {plugin} hands over {item!r}, which is no configuration key.", plugin)
    return cast("ConfigKey[object]", item)
