"""The broker as every plugin may use it; some seams have more of it for their kind of plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.kernel.clock import Clock
    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.events import Events
    from tidelog.kernel.seams.tasks import Tasks
    from tidelog.kernel.seams.topics import Topics


class PluginHooks(Protocol):
    """The hooks of all loaded plugins."""

    def ask(self, hook: str, **arguments: object) -> Iterator[tuple[str, list[object]]]:
        """Call one hook of every plugin that implements it: the plugin's name and what it hands over.

        Raises:
            PluginError: the hook raised or returned something that is no iterable; names plugin and hook.
        """
        ...


class BrokerContext(Protocol):
    """What every plugin may ask of its broker."""

    @property
    def config(self) -> Config:
        """The broker's configuration; dynamic keys change while it runs."""
        ...

    @property
    def clock(self) -> Clock:
        """The wall clock."""
        ...

    @property
    def topics(self) -> Topics:
        """The topics and their partitions; there are none before the broker has loaded them."""
        ...

    @property
    def tasks(self) -> Tasks:
        """The background work."""
        ...

    @property
    def events(self) -> Events:
        """What happens to topics, partitions and configuration."""
        ...

    @property
    def plugins(self) -> PluginHooks:
        """The hooks of all plugins, to ask for those that a plugin declares itself."""
        ...

    def request_stop(self) -> None:
        """Stop the broker gracefully."""
        ...
