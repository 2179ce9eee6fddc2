"""Throttle times: every response of Kafka that has the field says for how long its client is throttled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import pytest
from trio.testing import MockClock

from tests.plugins.protocol_kafka.against_kafka.asking import message
from tidelog.kernel.metadata.client_quotas import QuotaEntity
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages.api import APIS, Api
from tidelog.plugins.schema.declare import spec_of
from tidelog.plugins.schema.layout import struct_layout
from tidelog.plugins.schema.types import Array

from .client import Client, versions_of

SMALLEST = {
    "producer_byte_rate": 1.0,
    "consumer_byte_rate": 1.0,
    "request_percentage": 1e-9,
    "controller_mutation_rate": 0.001,
}
WITHOUT_FIELD = {"WriteTxnMarkers", "DescribeQuorum", "SaslAuthenticate", "SaslHandshake"}
"""APIs whose responses have no such field in Kafka."""
SMALL = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


def has_throttle_time(api: Api) -> bool:
    """Whether responses have the field in some version."""
    return any(field.name == "throttle_time_ms" for field in attrs.fields(api.response_class))


def versions_without_field(api: Api) -> Sequence[int]:
    """The versions whose responses have no such field."""
    return [
        version
        for version in versions_of(api)
        if "throttle_time_ms"
        not in (field.name for field in struct_layout(api.response_class, version, flexible=False).fields)
    ]


ANY: Final = 1
NEEDED: Final[dict[str, dict[str, Any]]] = {
    "Produce": {"acks": -1},
    "DescribeAcls": {
        "resource_type_filter": ANY,
        "operation": ANY,
        "permission_type": ANY,
    },
}
"""Without acks, and with codes that stand for nothing, the connection is closed."""


def empty(api: Api) -> dict[str, Any]:
    """A request for nothing that has an answer."""
    arrays = [
        field.name for field in attrs.fields(api.request_class) if isinstance(spec_of(field).kind, Array)
    ]
    return {**NEEDED.get(api.name, {}), **{name: [] for name in arrays}}


def test_every_response_of_kafka_for_clients_has_a_throttle_time() -> None:
    assert {each.name for each in BUILT_IN if not has_throttle_time(APIS[each.key])} == WITHOUT_FIELD


@pytest.mark.parametrize("limited", [False, True])
async def test_every_response_has_the_throttle_time_of_its_client(
    limited: bool, autojump_clock: MockClock
) -> None:
    """In the oldest and the newest version: before and after KIP-219; without a quota it is 0."""
    autojump_clock.autojump_threshold = 0.005
    async with running_broker(SMALL) as broker:
        entity: QuotaEntity = frozenset({("client-id", "tests" if limited else "another")})
        assert await broker.controller.alter_client_quotas({entity: SMALLEST}) == {}
        for api in (APIS[each.key] for each in BUILT_IN if has_throttle_time(APIS[each.key])):
            # The requests of a connection would wait for each other.
            for version in {versions_of(api)[0], versions_of(api)[-1]} - set(versions_without_field(api)):
                answer = await Client(broker).ask(api, version, message(api.request_class, empty(api)))
                assert bool(answer.throttle_time_ms) == limited, f"{api.name} {version}"
