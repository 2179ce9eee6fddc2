"""The conformance suites of one plugin, for `pytest --tidelog-plugin NAME` and `tidelog plugins check NAME`.

A seam whose suite needs nothing but the plugin has its suite here. For the others, and to prove more than the
default does, a plugin returns classes of its own from the hook `tidelog_conformance_suites`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final, TypeAlias

import pytest

from tidelog.kernel.errors import PluginError
from tidelog.kernel.plugins import load_plugins
from tidelog.kernel.plugins.discovery import find_candidates
from tidelog.kernel.plugins.loaded import NAMED_SEAMS
from tidelog.kernel.testing.assignors import PartitionAssignorConformance
from tidelog.kernel.testing.authorizer import AuthorizerConformance
from tidelog.kernel.testing.cleanup import CleanupPolicyConformance
from tidelog.kernel.testing.compression import CompressionCodecConformance
from tidelog.kernel.testing.controller import ControllerConformance
from tidelog.kernel.testing.coordination import CoordinationConformance
from tidelog.kernel.testing.indexes import IndexFormatConformance
from tidelog.kernel.testing.interceptors import InterceptorConformance
from tidelog.kernel.testing.metadata import MetadataConformance
from tidelog.kernel.testing.quotas import QuotaCallbackConformance
from tidelog.kernel.testing.sasl import SaslMechanismConformance
from tidelog.kernel.testing.sinks import SinkConformance
from tidelog.kernel.testing.storage import StorageConformance
from tidelog.kernel.testing.transports import TransportConformance
from tidelog.kernel.testing.wire_codecs import WireCodecConformance

SuiteClass: TypeAlias = type[Any]
SUITES_HOOK: Final = "tidelog_conformance_suites"


def _by_plugin(suite: SuiteClass, chosen_by: str | None = None) -> Callable[[ModuleType, str], SuiteClass]:
    """Return what adopts a suite that gets the plugin, and as `chosen_by` the name of one of its things."""

    def adopt(plugin: ModuleType, name: str) -> SuiteClass:
        attributes = {chosen_by: name} if chosen_by else {}
        return type(suite.__name__, (suite,), attributes, plugin=plugin)

    return adopt


def _controller(plugin: ModuleType, name: str) -> SuiteClass:
    settings = {"settings": {"plugins": plugin.__name__}}
    return type("ControllerConformance", (ControllerConformance,), settings, controller=name)


def _coordinator(plugin: ModuleType, name: str) -> SuiteClass:
    settings = {"settings": {"plugins": plugin.__name__}}
    return type("CoordinationConformance", (CoordinationConformance,), settings, coordinator=name)


DEFAULTS: Final[Mapping[str, tuple[SuiteClass, Callable[[ModuleType, str], SuiteClass] | None]]] = {
    "tidelog_storage_backends": (StorageConformance, _by_plugin(StorageConformance)),
    "tidelog_metadata_stores": (MetadataConformance, _by_plugin(MetadataConformance)),
    "tidelog_controllers": (ControllerConformance, _controller),
    "tidelog_index_formats": (
        IndexFormatConformance,
        _by_plugin(IndexFormatConformance, "format_name"),
    ),
    "tidelog_cleanup_policies": (
        CleanupPolicyConformance,
        _by_plugin(CleanupPolicyConformance, "policy_name"),
    ),
    "tidelog_compression_codecs": (
        CompressionCodecConformance,
        _by_plugin(CompressionCodecConformance, "codec_name"),
    ),
    "tidelog_group_coordinators": (CoordinationConformance, _coordinator),
    "tidelog_partition_assignors": (
        PartitionAssignorConformance,
        _by_plugin(PartitionAssignorConformance, "assignor_name"),
    ),
    "tidelog_transports": (
        TransportConformance,
        _by_plugin(TransportConformance, "transport_name"),
    ),
    "tidelog_interceptors": (
        InterceptorConformance,
        _by_plugin(InterceptorConformance, "kind_name"),
    ),
    "tidelog_quota_callbacks": (
        QuotaCallbackConformance,
        _by_plugin(QuotaCallbackConformance, "callback_name"),
    ),
    "tidelog_sinks": (SinkConformance, None),
    "tidelog_authorizers": (AuthorizerConformance, None),
    "tidelog_sasl_mechanisms": (SaslMechanismConformance, None),
    "tidelog_wire_codecs": (WireCodecConformance, None),
}
"""Hook of a seam → its suite, and what adopts it, None where a plugin has to do that itself."""


def suites_of(name: str) -> ModuleType:
    """Return a module with a class of tests for all that a plugin offers and a suite can prove.

    `name` is that of an installed plugin, or of a module.

    Raises:
        PluginError: there is no such plugin, it cannot be loaded, or offers nothing that has a suite.
    """
    plugins = load_plugins(extra=[] if name in find_candidates() else [name])
    ((name, plugin),) = [
        (each.name, each.load()) for each in plugins.candidates if name in (each.name, each.module)
    ]
    found = _Suites(name)
    for suite in getattr(plugin, SUITES_HOOK, tuple[SuiteClass, ...])():
        found.add_own(suite, plugin)
    for hook in DEFAULTS:
        offered = [items for owner, items in plugins.ask(hook) if owner == name]
        for item in offered[0] if offered else ():
            found.add_default(hook, plugin, str(getattr(item, "name", item)))
    if not found.classes:
        seams = ", ".join(NAMED_SEAMS[hook] for hook in DEFAULTS)
        raise PluginError(
            f"The plugin {name} offers nothing that has a suite; there are suites for: {seams}."
        )
    return found.as_module()


class _Suites:
    """Classes of tests by names that pytest shows."""

    def __init__(self, plugin: str) -> None:
        self.classes: dict[str, SuiteClass] = {}
        self._plugin = plugin

    def add_own(self, suite: SuiteClass, plugin: ModuleType) -> None:
        """Add what the plugin returns; a suite that needs the plugin, and has none, gets it."""
        takes_plugin = any("plugin" in vars(each).get("__annotations__", ()) for each in suite.__mro__)
        if takes_plugin and not hasattr(suite, "plugin"):
            suite = type(suite.__name__, (suite,), {"__module__": suite.__module__}, plugin=plugin)
        self.classes[_test_name(suite.__name__)] = suite

    def add_default(self, hook: str, plugin: ModuleType, item: str) -> None:
        """Add the suite of a seam for one thing, unless the plugin has returned one for that seam."""
        suite, adopt = DEFAULTS[hook]
        if any(issubclass(each, suite) for each in self.classes.values() if each.__module__ != __name__):
            return
        made = _unproven(NAMED_SEAMS[hook], item, suite) if adopt is None else adopt(plugin, item)
        made.__module__ = __name__
        self.classes[_test_name(f"{NAMED_SEAMS[hook]} {item}")] = made

    def as_module(self) -> ModuleType:
        """Return a module that pytest collects."""
        module = ModuleType(f"suites of {self._plugin}")
        vars(module).update(self.classes)
        return module


def _unproven(seam: str, item: str, suite: SuiteClass) -> SuiteClass:
    """Return a class whose one test is skipped, with the reason."""
    reason = f"the {seam} {item} is not proven: {SUITES_HOOK} returns no subclass of {suite.__name__}"

    class Unproven:
        def test_suite(self) -> None:
            pytest.skip(reason)

    return Unproven


def _test_name(text: str) -> str:
    words = "".join(word[:1].upper() + word[1:] for word in text.replace("-", " ").replace(".", " ").split())
    return words if words.startswith("Test") else f"Test{words}"
