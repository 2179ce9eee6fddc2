"""Throttle times: quotas are kept and not enforced, so no response says that its client was delayed."""

from __future__ import annotations

from typing import Any

import attrs

from tests.plugins.protocol_kafka.against_kafka.asking import message
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages.api import APIS, Api
from tidelog.plugins.schema.declare import spec_of
from tidelog.plugins.schema.types import Array

from .client import Client, versions_of

SMALLEST = {
    "producer_byte_rate": 1.0,
    "consumer_byte_rate": 1.0,
    "request_percentage": 0.001,
    "controller_mutation_rate": 0.001,
}
WITHOUT_FIELD = {"WriteTxnMarkers", "DescribeQuorum", "SaslAuthenticate", "SaslHandshake"}
"""APIs whose responses have no such field in Kafka."""
SMALL = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


def has_throttle_time(api: Api) -> bool:
    """Whether responses have the field in some version."""
    return any(field.name == "throttle_time_ms" for field in attrs.fields(api.response_class))


def empty(api: Api) -> dict[str, Any]:
    """A request for nothing; with acks 0 there would be no response to Produce."""
    arrays = [
        field.name for field in attrs.fields(api.request_class) if isinstance(spec_of(field).kind, Array)
    ]
    return {**({"acks": -1} if api.name == "Produce" else {}), **{name: [] for name in arrays}}


def test_every_response_of_kafka_for_clients_has_a_throttle_time() -> None:
    assert {each.name for each in BUILT_IN if not has_throttle_time(APIS[each.key])} == WITHOUT_FIELD


async def test_no_response_has_a_throttle_time_where_nothing_is_delayed() -> None:
    """With the smallest quotas, in the oldest and the newest version: before and after KIP-219."""
    async with running_broker(SMALL) as broker:
        assert await broker.controller.alter_client_quotas({frozenset({("client-id", None)}): SMALLEST}) == {}
        client = Client(broker)
        for api in (APIS[each.key] for each in BUILT_IN if has_throttle_time(APIS[each.key])):
            for version in {versions_of(api)[0], versions_of(api)[-1]}:
                answer = await client.ask(api, version, message(api.request_class, empty(api)))
                assert answer.throttle_time_ms == 0, f"{api.name} {version}"
