"""Health and readiness for what starts and watches a broker, and the description of the routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.metadata.acls import CLUSTER_NAME
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.plugins.protocol_http import json_text
from tidelog.plugins.protocol_http.messages import HttpResponse
from tidelog.plugins.protocol_http.prometheus import PROMETHEUS_TEXT, prometheus_text

if TYPE_CHECKING:
    from tidelog.plugins.protocol_http.call import Call


async def health(call: Call) -> HttpResponse:
    """Report that the event loop serves requests."""
    return HttpResponse(200, json_text.encode({"status": "ok"}))


async def ready(call: Call) -> HttpResponse:
    """Report whether clients can be sent here: the broker does not stop, and its groups are loaded."""
    broker = call.broker
    loading: list[str] = []
    try:
        loading = [name for name, counts in broker.coordinator.loading.items() if not counts.done]
    except BrokerError:
        # Without a coordinator nothing is loaded.
        loading = []
    waits_for = ["stopping"] if broker.topics.closing else [f"loading {name}" for name in loading]
    body = {"status": waits_for[0] if waits_for else "ready"}
    return HttpResponse(503 if waits_for else 200, json_text.encode(body))


async def metrics(call: Call) -> HttpResponse:
    """Return all meters as Prometheus text; the first time others than counts begin to be measured."""
    # They name topics.
    await call.need(ResourceType.CLUSTER, AclOperation.DESCRIBE, CLUSTER_NAME)
    meters = call.broker.meters
    meters.listen()
    # In a thread: of thousands of partitions they take longer than a turn of the event loop.
    text = await trio.to_thread.run_sync(lambda: prometheus_text(meters.collect()))
    return HttpResponse(200, text, PROMETHEUS_TEXT)


async def openapi(call: Call) -> HttpResponse:
    """Return the OpenAPI description."""
    return HttpResponse(200, json_text.encode(call.service.description()))
