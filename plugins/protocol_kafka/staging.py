"""Stages of requests around the handlers of Kafka's protocol."""

from __future__ import annotations

import copy
import math
from collections.abc import Awaitable, Generator, Sequence
from typing import Any

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.request import StagedHandler
from tidelog.kernel.seams.requests import Request, RequestedApi, RequestStage
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.apis import Handler, KafkaApi, resolve
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.refusal import refusal


def staged(api: KafkaApi, version: int, handle: Handler, stages: Sequence[RequestStage]) -> Handler:
    """Return a handler with the stages around it that have to do with its API; without any, itself."""
    requested = RequestedApi(api.key, api.name, version, api.needs)
    called = [stage for stage in stages if stage.applies_to(requested)]
    return StagedHandler(called, handle, KafkaMessageForm(api, requested)) if called else handle


class KafkaMessageForm:
    """The messages of one version of an API."""

    def __init__(self, api: KafkaApi, requested: RequestedApi) -> None:
        self._api = api
        self._requested = requested

    def describe(self, context: RequestContext, message: Any) -> Request:
        """Return the request as stages get it."""
        host, port, listener, _ = context.peer
        return Request(
            self._requested,
            listener,
            host,
            port,
            context.principal,
            context.client_id,
            context.request_bytes,
            message,
        )

    def refuse(self, context: RequestContext, message: Any, error: BrokerError) -> object | Awaitable[object]:
        """Return the response with the error code in the places where Kafka has it.

        Raises:
            ProtocolViolation: the client expects no response: as in Kafka the connection is closed.
        """
        if self._api.has_response is not None and not self._api.has_response(message):
            raise ProtocolViolation(f"a {self._api.name} request without a response was refused: {error}")
        context.warn(f"refusing a {self._api.name} request of", error)
        return _refuse_in_steps(context, (self._api, message, error))

    def with_throttle_time(self, response: Any, seconds: float) -> object:
        """Return the response with this throttle time, if there is such a field."""
        if hasattr(response, "throttle_time_ms"):
            # The handler may keep its own.
            response = copy.copy(response)
            response.throttle_time_ms = math.ceil(seconds * 1000)
        return response


@in_steps
def _refuse_in_steps(
    context: RequestContext, refused: tuple[KafkaApi, Any, BrokerError]
) -> Generator[None, None, object]:
    api, message, error = refused
    code, text = error_code(error), context.error_message(error)
    if api.refuse is not None:
        return (yield from resolve(api.refuse)(message, code, text))
    return (yield from refusal(resolve(api.response), context.api_version, message, code, text))
