"""What all connections to the HTTP listeners of one broker share: routes, stages, consumer instances."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Sequence
from itertools import count
from typing import TYPE_CHECKING, cast

import attrs

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.request import StagedHandler
from tidelog.kernel.seams.requests import Request, RequestedApi, RequestStage, Throttled
from tidelog.plugins.protocol_http import keys
from tidelog.plugins.protocol_http.call import Call
from tidelog.plugins.protocol_http.consumers import ConsumerInstances
from tidelog.plugins.protocol_http.messages import (
    HttpProblem,
    HttpRequest,
    HttpResponse,
    OperationMessage,
    WebSocketAccepted,
)
from tidelog.plugins.protocol_http.openapi import described
from tidelog.plugins.protocol_http.problems import problem_of, response_of
from tidelog.plugins.protocol_http.route_table import ROUTES
from tidelog.plugins.protocol_http.routes import HttpRoute, Router

if TYPE_CHECKING:
    from tidelog.kernel.seams.wire import Peer, WireContext

_log = logging.getLogger(__name__)

UNENCRYPTED = ("PLAINTEXT", "SASL_PLAINTEXT")
VERSION = 0
"""Of operations over HTTP, as request stages see it."""


class HttpService:
    """The routes of one broker.

    Attributes:
        broker: the broker
        loop_clock: seconds, without those in which nothing could be received
        consumers: the consumer instances
        max_request_bytes: of a body
        max_response_bytes: of keys and values in one response
        listeners: the listeners of the broker, by name
        turns: a number for each produce request
    """

    def __init__(self, broker: WireContext) -> None:
        config = broker.config
        self.broker = broker
        self.loop_clock = broker.loop_clock
        self.max_request_bytes = config[keys.HTTP_REQUEST_MAX_BYTES]
        self.max_response_bytes = config[keys.HTTP_RESPONSE_MAX_BYTES]
        self.request_timeout_s = config[keys.HTTP_REQUEST_TIMEOUT_MS] / 1000
        self.consumers = ConsumerInstances(
            broker, config[keys.HTTP_CONSUMER_TIMEOUT_MS] / 1000, config[keys.HTTP_CONSUMERS_MAX]
        )
        self.turns = count()
        self.listeners = {each.name: each for each in config.served_listeners()}
        self._router = Router(ROUTES)
        self._handlers = {id(route): self._staged(route) for route in ROUTES}

    def scheme_of(self, peer: Peer) -> str:
        """Return the scheme of the URLs that a client of this listener uses."""
        protocol = self.listeners[peer.listener_name].security_protocol
        return "http" if protocol in UNENCRYPTED else "https"

    def description(self) -> object:
        """Return the OpenAPI description of the routes."""
        return described(self._router.routes)

    def call(self, request: HttpRequest, peer: Peer) -> Call:
        """Return a request with its route.

        Raises:
            HttpProblem: nothing serves it.
        """
        route, path = self._router.find(request)
        if route.consumes and request.body and request.media_type not in route.consumes:
            raise HttpProblem(415, f"the body has to be {' or '.join(route.consumes)}")
        return Call(self, peer, request, route, path, route.parse_query(request.query))

    def serve(self, call: Call) -> Awaitable[HttpResponse | WebSocketAccepted | Throttled]:
        """Serve a request with the stages of its operation around the handler."""
        handler = self._handlers[id(call.route)]
        if handler is None:
            return _handle(call, None)
        query = call.query
        topics = [call.path["topic"]] if "topic" in call.path else []
        message = OperationMessage(topics, call.path.get("group"), call.request, {**call.path, **query})
        outcome = handler(call, message)
        return cast("Awaitable[HttpResponse | WebSocketAccepted | Throttled]", outcome)

    def _staged(self, route: HttpRoute) -> StagedHandler[Call] | None:
        if route.operation is None:
            return None
        requested = RequestedApi(route.operation.key, route.operation.name, VERSION, ())
        called: Sequence[RequestStage] = [
            stage for stage in self.broker.request_stages if stage.applies_to(requested)
        ]
        return StagedHandler(called, _handle, HttpMessageForm(requested)) if called else None


async def _handle(call: Call, message: OperationMessage | None) -> HttpResponse | WebSocketAccepted:
    try:
        return await call.route.handler(call)
    except HttpProblem as problem:
        return response_of(problem)
    except BrokerError as error:
        call.broker.peer_warnings.warn(
            call.peer,
            f"refusing {call.route.method} {call.route.template} of",
            error,
            alike=type(error).__name__,
        )
        return response_of(problem_of(error))


class HttpMessageForm:
    """Requests over HTTP, as stages get them."""

    def __init__(self, requested: RequestedApi) -> None:
        self._requested = requested

    def describe(self, context: Call, message: OperationMessage) -> Request:
        """Return the request as stages get it; the client id is what `User-Agent` says."""
        peer, request = context.peer, context.request
        return Request(
            self._requested,
            peer.listener_name,
            peer.host,
            peer.port,
            peer.principal,
            request.headers.get("user-agent"),
            len(request.body),
            message,
        )

    def refuse(self, context: Call, message: OperationMessage, error: BrokerError) -> object:
        """Return the response that says why the request is refused."""
        return _completed(response_of(problem_of(error)))

    def with_throttle_time(self, response: object, seconds: float) -> object:
        """Return the response with the header `Throttle-Time-Ms`."""
        if not isinstance(response, HttpResponse):
            return response
        throttle = ("Throttle-Time-Ms", str(math.ceil(seconds * 1000)))
        return attrs.evolve(response, headers=(*response.headers, throttle))


async def _completed(response: HttpResponse) -> HttpResponse:
    return response
