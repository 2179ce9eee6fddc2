"""The installed plugins, loaded once per process, for what a harness needs beside the plugin under test."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from tidelog.kernel.config import ConfigKey
from tidelog.kernel.plugins import Plugins, load_plugins


@cache
def installed_plugins() -> Plugins:
    """Return all installed plugins."""
    return load_plugins()


def with_installed_keys(keys: Iterable[ConfigKey[Any]]) -> list[ConfigKey[Any]]:
    """Return a plugin's keys, and those of installed plugins that have other names."""
    installed: dict[str, ConfigKey[Any]] = {key.name: key for key in installed_plugins().config_keys()}
    return list((installed | {key.name: key for key in keys}).values())
