"""The APIs of the Kafka protocol: how one is declared, and a module with the handler of each built-in one.

An API is a key, the classes of its request and response, and a handler:

    KafkaApi(20_000, "TideLevel", TideLevelRequest, TideLevelResponse, handle)

The messages are declared with `tidelog.plugins.schema.declare`; their versions are those that
are served, and that ApiVersions announces. The built-in APIs are declared in the same way, in `table.py`, and
come through the same hook.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from tidelog.kernel.errors import PluginError
from tidelog.kernel.seams.requests import Permission
from tidelog.kernel.seams.wire import WireContext
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.schema.declare import VersionSpan, versions_of

MAX_KEY: Final = 2**15 - 1
"""Largest API key that fits the header of a request."""

__all__ = ["Handler", "KafkaApi", "RequestContext", "checked_apis", "resolve"]

T = TypeVar("T")

Handler: TypeAlias = Callable[[RequestContext, Any], object]
"""Returns the response, or an awaitable of it if the response has to wait; None if the client gets none.

It runs on the event loop. One that has much to do is a generator function behind `in_steps`.
"""

Refuse: TypeAlias = Callable[[Any, int, str | None], Generator[None, None, object]]


class KafkaApi(NamedTuple):
    """An API of the Kafka protocol, as a plugin offers it.

    Attributes:
        key: its number in request headers
        name: its name, for logs and clients
        request: the class of its requests, or "module:class", which is imported at the first request
        response: the class of its responses, in the same way
        handle: its handler, in the same way
        versions: those that are served; only needed if the classes are given by name
        needs: the operations for which an authorizer is asked. Which of them a request needs, and on which
            resources, depends on what it names.
        abandonable: a request that waits ends when its client has left: it only reads, or waits for other
            clients. All others are completed, as in Kafka, since a part of their work may be done by then.
        prepare: called with the broker and the version before the first request, in a thread, to import
            what else it needs
        handle_unsupported: handles requests of other versions, without their content, and responds in version
            0; without it they close the connection
        has_response: returns whether the client expects a response to a request; without it each one has one
        refuse: makes the response to a request that a stage refuses, of the request, the error code and a
            message, in steps; without it the error is put where the response class has error codes
        for_client_metrics: ApiVersions lists it only if a plugin receives the metrics of clients
        keeps_responses: the handler may return a response again; else large ones are taken apart
    """

    key: int
    name: str
    request: type[Any] | str
    response: type[Any] | str
    handle: Handler | str
    versions: VersionSpan | None = None
    needs: tuple[Permission, ...] = ()
    abandonable: bool = False
    prepare: Callable[[WireContext, int], None] | None = None
    handle_unsupported: Handler | str | None = None
    has_response: Callable[[Any], bool] | None = None
    refuse: Refuse | str | None = None
    for_client_metrics: bool = False
    keeps_responses: bool = True

    @property
    def span(self) -> VersionSpan:
        """The versions that are served."""
        return self.versions or versions_of(resolve(self.request))

    @property
    def is_imported(self) -> bool:
        """Whether its handler is imported."""
        return not isinstance(self.handle, str) or self.handle.partition(":")[0] in sys.modules


def resolve(named: T | str) -> T:
    """Return an object of a declaration; import it if it is given as "module:name"."""
    if not isinstance(named, str):
        return named
    module, _, name = named.partition(":")
    return cast("T", getattr(import_module(module), name))


def checked_apis(offered: Iterable[tuple[str, Sequence[object]]]) -> Sequence[KafkaApi]:
    """Return the APIs that plugins offer; `offered` has the name of each plugin and its objects.

    Raises:
        PluginError: an object is no `KafkaApi`, its key does not fit a header, its request and response have
            different versions, or two plugins have the same key.
    """
    found: dict[int, tuple[str, KafkaApi]] = {}
    for plugin, handed_over in offered:
        for api in handed_over:
            if not isinstance(api, KafkaApi):
                raise PluginError(
                    f"The plugin {plugin} hands over {api!r}, which is no API of the protocol.", plugin
                )
            if fault := _fault(api):
                raise PluginError(f"The plugin {plugin} hands over an API that cannot be: {fault}.", plugin)
            if api.key in found:
                other, its = found[api.key]
                raise PluginError(
                    f"The plugins {other} and {plugin} both serve API key {api.key}, {its.name} and "
                    f"{api.name}; block one of them: plugins.blocked={plugin}",
                    plugin,
                )
            found[api.key] = plugin, api
    return [api for _, api in found.values()]


def _fault(api: KafkaApi) -> str | None:
    """Return why an API cannot be served; messages that are given by name are not imported for that."""
    if not 0 <= api.key <= MAX_KEY:
        return f"API key {api.key} is not between 0 and {MAX_KEY}"
    if isinstance(api.request, str) or isinstance(api.response, str):
        return None if api.versions else f"the messages of {api.name} are given by name, without its versions"
    try:
        same = versions_of(api.request) == versions_of(api.response)
    except TypeError as error:
        return str(error)
    return None if same else f"the request and the response of {api.name} have different versions"
