"""Configuration keys of requests, with Kafka's names, defaults and ranges."""

from __future__ import annotations

from tidelog.kernel.config import ConfigKey, boolean, integer

FETCH_MAX_BYTES = ConfigKey(
    name="fetch.max.bytes",
    type=integer(1024),
    default=57671680,
    documentation="The largest response to one Fetch request, in bytes, however much the client asks for. A "
    "first batch that is larger is returned whole all the same.",
)
AUTO_CREATE_TOPICS_ENABLE = ConfigKey(
    name="auto.create.topics.enable",
    type=boolean(),
    default=True,
    documentation="Whether a topic is created when a client asks for its metadata. The response says "
    "UNKNOWN_TOPIC_OR_PARTITION, and the client asks again.",
)
DELETE_TOPIC_ENABLE = ConfigKey(
    name="delete.topic.enable",
    type=boolean(),
    default=True,
    documentation="Whether clients may delete topics.",
)
SOCKET_REQUEST_MAX_BYTES = ConfigKey(
    name="socket.request.max.bytes",
    type=integer(1),
    default=104857600,
    documentation="The largest request that is accepted, in bytes; a connection that announces a larger one "
    "is closed.",
)
