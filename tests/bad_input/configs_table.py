"""Configurations of what is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

from .case import ALL_VERSIONS, CLOSED, NOTHING, OK, Case, Differs
from .raw_client import NODE_ID, RawClient
from .requests import Sent, ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Sends

UNKNOWN, BAD_NAME, BAD_REQUEST = "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION", "INVALID_REQUEST"


def _describes(
    kind: int, name: str | None, keys: Sequence[str] | None = None, *, times: int = 1, version: int = 4
) -> Sends:
    def build(client: RawClient) -> Sent:
        wanted = DescribeConfigsResource(
            resource_type=kind,
            resource_name=client.topic if name is None else name,
            configuration_keys=None if keys is None else list(keys),
        )
        return ask(apis.DESCRIBE_CONFIGS, version, DescribeConfigsRequest(resources=[wanted] * times))

    return build


TOPICS = (
    Case("of a topic that is not there", _describes(TOPIC_RESOURCE, "nowhere"), UNKNOWN),
    Case("of a topic named with a slash", _describes(TOPIC_RESOURCE, "a/b"), BAD_NAME),
    Case("of a topic without a name", _describes(TOPIC_RESOURCE, ""), BAD_NAME),
    Case("of a topic twice", _describes(TOPIC_RESOURCE, None, times=2), f"{OK},{OK}"),
    Case("keys that are not there", _describes(TOPIC_RESOURCE, None, ["no.such.key"]), OK),
    Case("no keys", _describes(TOPIC_RESOURCE, None, []), OK),
    Case("a key twice", _describes(TOPIC_RESOURCE, None, ["retention.ms", "retention.ms"]), OK),
)

BROKERS = (
    Case("of another broker", _describes(BROKER_RESOURCE, "99"), BAD_REQUEST),
    Case("of a broker whose id is no number", _describes(BROKER_RESOURCE, "one"), BAD_REQUEST),
    Case("of all brokers", _describes(BROKER_RESOURCE, ""), OK),
    Case("of this broker twice", _describes(BROKER_RESOURCE, str(NODE_ID), times=2), f"{OK},{OK}"),
)

OTHERS = (
    *(Case(f"of a resource of type {kind}", _describes(kind, "orders"), BAD_REQUEST) for kind in (0, 99, -1)),
    Case("of nothing", _describes(BROKER_RESOURCE, "", times=0), NOTHING),
    Case(
        "of this broker in version 0",
        _describes(BROKER_RESOURCE, str(NODE_ID), version=0),
        CLOSED,
        tidelog=Differs(OK, ALL_VERSIONS),
    ),
)

CASES = (*TOPICS, *BROKERS, *OTHERS)
