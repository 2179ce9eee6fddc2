"""The kernel of tidelog: what embedders and plugin authors import.

    from tidelog.kernel import Broker, ConfigKey, configure, hookimpl

docs/hooks.md, "What is public", has this list and the modules that are public besides. Names are imported at
first use, so that a plugin which only needs `hookimpl` costs nothing more.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if os.environ.get("TIDELOG_PURE"):
    from tidelog.kernel.compiled import run_sources

    run_sources()

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker, serve
    from tidelog.kernel.config import Config, ConfigKey
    from tidelog.kernel.hookspecs import hookimpl, hookspec
    from tidelog.kernel.plugins import configure, load_plugins

__all__ = ["Broker", "Config", "ConfigKey", "configure", "hookimpl", "hookspec", "load_plugins", "serve"]

_HOMES = {
    "Broker": "broker",
    "Config": "config",
    "ConfigKey": "config",
    "configure": "plugins",
    "hookimpl": "hookspecs",
    "hookspec": "hookspecs",
    "load_plugins": "plugins",
    "serve": "broker",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
