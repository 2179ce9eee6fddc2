"""Routes: what decodes, handles and encodes one version of one API.

Handlers and their messages are imported at the first request of their API, so that a broker starts without
them. ApiVersions lists the APIs of the routes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.kernel.seams.wire import Part, ProtocolViolation
from tidelog.plugins.protocol_kafka.apis import Handler, KafkaApi, resolve
from tidelog.plugins.protocol_kafka.context import ServedVersions
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS
from tidelog.plugins.protocol_kafka.messages.header import NEVER
from tidelog.plugins.protocol_kafka.request_meters import RequestMeters, TimedHandler, VersionMeter
from tidelog.plugins.schema import small_decoder, small_encoder

if TYPE_CHECKING:
    from tidelog.kernel.request import Authorization
    from tidelog.kernel.request.client_quotas import ClientQuotas
    from tidelog.kernel.request.interception import Interception
    from tidelog.kernel.seams.requests import RequestStage
    from tidelog.kernel.seams.wire import WireContext

NO_TAGGED_FIELDS = b"\0"


class Route(NamedTuple):
    """Decoder, encoder and handler of one version of one API.

    `decode` and `encode` raise `TooManyElements` for a message that takes longer than a step.
    """

    api: KafkaApi
    version: int
    decode: Callable[[memoryview, int], tuple[object, int]]
    handle: Handler
    request_class: type[object]
    response_class: type[object]
    encode: Callable[[Any, list[Part]], None]
    header_tags: bytes
    meter: VersionMeter


class Routes(dict[tuple[int, int], Route]):
    """Routes by API key and version, each looked up at its first use and cached if it is served.

    All connections of a codec share one. `served` is what ApiVersions lists.
    """

    def __init__(
        self,
        apis: Iterable[KafkaApi],
        stages: Sequence[RequestStage] = (),
        *,
        authorization: Authorization | None = None,
        interception: Interception | None = None,
        quotas: ClientQuotas | None = None,
        has_metrics_receiver: bool = False,
        meters: RequestMeters | None = None,
    ) -> None:
        """`stages` are around the handlers, next to them what `authorization` allows, then interceptors.

        All that is within `quotas`.
        `has_metrics_receiver`: a plugin receives metrics of clients.
        """
        super().__init__()
        self._stages = stages
        self._authorization = authorization
        self._interception = interception
        self._quotas = quotas
        self._meters = meters or RequestMeters()
        self._timed = False
        self._unlimited: dict[tuple[int, int], Handler] = {}
        # A thread may look up a route while the event loop replaces all of them.
        self._replacing = threading.Lock()
        if quotas is not None:
            quotas.when_enforced_changes(self._apply_quotas)
        self._apis = {api.key: api for api in apis}
        spans = [(api, api.span) for api in self._apis.values()]
        self.served = tuple(
            ServedVersions(api.key, span.low, span.high)
            for api, span in spans
            if has_metrics_receiver or not api.for_client_metrics
        )
        self.first_flexible = {
            api.key: NEVER if span.flexible is None else span.flexible for api, span in spans
        }

    def is_ready(self, asked: tuple[int, int]) -> bool:
        """Return whether a request of this key and version can be served without a call of `prepare`."""
        api = self._apis.get(asked[0])
        # Another version is refused, by ApiVersions with a response.
        return asked in self or api is None or (not api.span.covers(asked[1]) and api.is_imported)

    def prepare(self, asked: tuple[int, int], broker: WireContext) -> None:
        """Import all that the first request of this key and version needs, and compile its codecs.

        This takes up to a tenth of a second, in a thread: see `import_in_thread`.
        """
        key, version = asked
        api = self._apis[key]
        if api.prepare is not None:
            api.prepare(broker, version)
        _ = self[asked]

    def __missing__(self, asked: tuple[int, int]) -> Route:
        """Look up a route.

        Raises:
            ProtocolViolation: the API or its version is not served; as in Kafka the connection is closed,
                except that an unknown version of ApiVersions is answered in version 0 with
                UNSUPPORTED_VERSION.
        """
        key, version = asked
        api = self._apis.get(key)
        if api is None:
            raise _api_not_served(key)
        span = api.span
        if span.covers(version):
            decode = small_decoder(resolve(api.request), version)
            meter = self._meters.of(api, version)
            route = _route(api, version, decode, self._handler(api, version), meter)
            with self._replacing:
                self._unlimited[asked] = route.handle
                self[asked] = route = self._limited(route, route.handle)
            return route
        if api.handle_unsupported is None:
            raise ProtocolViolation(
                f"version {version} of {api.name} is not served here, versions {span.low} to {span.high} are"
            )
        # Of version 0, in which it is answered: peers choose the number.
        meter = self._meters.of(api, 0)
        return _route(api, 0, lambda frame, _: (None, len(frame)), resolve(api.handle_unsupported), meter)

    def _apply_quotas(self) -> None:
        """Limit the handlers of routes by the quotas that are enforced now.

        So a request costs nothing more while there are none: its handler is the bare one.
        """
        with self._replacing:
            for asked, route in self.items():
                self[asked] = self._limited(route, self._unlimited[asked])

    def time_requests(self) -> None:
        """Measure errors and times of all requests from now on: an exporter listens."""
        self._timed = True
        self._apply_quotas()

    def _limited(self, route: Route, handle: Handler) -> Route:
        quotas = self._quotas
        if quotas is not None and quotas.enforced:
            # Not at the top: most brokers need it not.
            from tidelog.plugins.protocol_kafka.throttling import limited

            handle = limited(quotas, route.api, route.version, handle)
        if self._timed:
            handle = TimedHandler(handle, route.meter.api)
        return route._replace(handle=handle)

    def _handler(self, api: KafkaApi, version: int) -> Handler:
        handle = resolve(api.handle)
        if self._interception is not None:
            # Not at the top: nearly no broker needs it.
            from tidelog.plugins.protocol_kafka.interception import intercepted

            handle = intercepted(self._interception, api, handle)
        if self._authorization is not None:
            # Not at the top: a broker without an authorizer never needs it.
            from tidelog.plugins.protocol_kafka.authorization.table import guarded

            handle = guarded(self._authorization, api, handle)
        if not self._stages:
            return handle
        # Not at the top: nearly no broker needs it.
        from tidelog.plugins.protocol_kafka.staging import staged

        return staged(api, version, handle, self._stages)


def _route(
    api: KafkaApi,
    version: int,
    decode: Callable[[memoryview, int], tuple[object, int]],
    handle: Handler,
    meter: VersionMeter,
) -> Route:
    response_class = resolve(api.response)
    # A client that does not know yet which versions are served reads the response of ApiVersions (KIP-511).
    has_tags = api.span.is_flexible(version) and api.key != API_VERSIONS.key
    return Route(
        api,
        version,
        decode,
        handle,
        resolve(api.request),
        response_class,
        small_encoder(response_class, version),
        NO_TAGGED_FIELDS if has_tags else b"",
        meter,
    )


def _api_not_served(api_key: int) -> ProtocolViolation:
    # Not at the top: nearly no broker needs it.
    from tidelog.plugins.protocol_kafka.unserved import UNSERVED

    known = UNSERVED.get(api_key)
    name, reason = ("", "") if known is None else (f" ({known.name})", f": {known.reason}")
    return ProtocolViolation(f"API key {api_key}{name} is not served here{reason}")
