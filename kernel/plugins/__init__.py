"""Plugins: found by entry point or by name, loaded once, asked through their hooks.

The default bundle is loaded like any other plugin: by the entry-point group `tidelog`.
"""

from __future__ import annotations

from tidelog.kernel.plugins.load import configure, load_plugins, load_usable_plugins
from tidelog.kernel.plugins.loaded import Plugins

__all__ = ["Plugins", "configure", "load_plugins", "load_usable_plugins"]
