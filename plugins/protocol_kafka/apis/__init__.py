"""API keys that other plugins add to the Kafka protocol.

An API is a key, the classes of its request and response, and a handler:

    KafkaApi(20_000, "TideLevel", TideLevelRequest, TideLevelResponse, handle)

The messages are declared with `tidelog.plugins.protocol_kafka.codecs.declare`; their versions are those that
are served, and that ApiVersions announces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs

from tidelog.kernel.errors import PluginError
from tidelog.plugins.protocol_kafka.codecs.declare import VersionSpan, versions_of
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.api import APIS

MAX_KEY: Final = 2**15 - 1
"""Largest API key that fits the header of a request."""

__all__ = ["KafkaApi", "RequestContext", "checked_apis"]


@attrs.frozen
class KafkaApi:
    """An API of the Kafka protocol, as a plugin offers it.

    `handle(context, request)` returns the response, None for none, an awaitable of either, or a generator
    that yields between small steps and returns the response at its end. It runs on the event loop. With
    `abandonable` a request that waits ends when its client has left; all others are completed.
    """

    key: int
    name: str
    request: type[Any]
    response: type[Any]
    handle: Callable[[RequestContext, Any], object]
    abandonable: bool = False

    def __attrs_post_init__(self) -> None:
        """Check the key and the versions of the messages.

        Raises:
            ValueError: the key is Kafka's own or does not fit a header, or request and response have
                different versions.
        """
        if self.key in APIS:
            raise ValueError(f"API key {self.key} is that of Kafka's {APIS[self.key].name}")
        if not 0 <= self.key <= MAX_KEY:
            raise ValueError(f"API key {self.key} is not between 0 and {MAX_KEY}")
        if versions_of(self.request) != versions_of(self.response):
            raise ValueError(f"the request and the response of {self.name} have different versions")

    @property
    def versions(self) -> VersionSpan:
        """Return the versions that are served."""
        return versions_of(self.request)


def checked_apis(offered: Iterable[tuple[str, Sequence[object]]]) -> Sequence[KafkaApi]:
    """Return the APIs that plugins offer; `offered` has the name of each plugin and its objects.

    Raises:
        PluginError: an object is no `KafkaApi`, or two plugins have the same key.
    """
    found: dict[int, tuple[str, KafkaApi]] = {}
    for plugin, handed_over in offered:
        for api in handed_over:
            if not isinstance(api, KafkaApi):
                raise PluginError(
                    f"The plugin {plugin} hands over {api!r}, which is no API of the protocol.", plugin
                )
            if api.key in found:
                raise PluginError(
                    f"The plugins {found[api.key][0]} and {plugin} both serve API key {api.key}; block one "
                    f"of them: plugins.blocked={plugin}",
                    plugin,
                )
            found[api.key] = plugin, api
    return [api for _, api in found.values()]
