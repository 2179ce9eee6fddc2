"""The plugins of a broker, as far as another plugin may ask them: hooks that a plugin declares itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class PluginHooks(Protocol):
    """The hooks of all loaded plugins."""

    def ask(self, hook: str, **arguments: object) -> Iterator[tuple[str, list[object]]]:
        """Call one hook of every plugin that implements it: the plugin's name and what it hands over.

        Raises:
            PluginError: the hook raised or returned something that is no iterable; names plugin and hook.
        """
        ...
