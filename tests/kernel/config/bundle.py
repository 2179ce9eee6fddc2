"""All keys of the default bundle, for tests of settings whatever plugin they belong to."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.kernel.config import Config, Sources, settings_from_mapping
from tidelog.kernel.plugins import load_plugins

_PLUGINS = load_plugins()
BUNDLE = _PLUGINS.known_keys()


def bundle_config(settings: Mapping[str, object] | None = None) -> Config:
    """Return the configuration of a broker with the default bundle and these settings."""
    return Config(Sources().over(settings_from_mapping(settings or {})), BUNDLE)
