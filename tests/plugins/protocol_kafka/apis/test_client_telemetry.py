"""GetTelemetrySubscriptions and PushTelemetry: who pushes what, how often, how much."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.network.request_memory import RequestMemory
from tidelog.kernel.records.compression import compress
from tidelog.kernel.testing import FakeClock
from tidelog.plugins.protocol_kafka import client_telemetry
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.client_telemetry import ClientTelemetry, PushedMetrics
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    DESCRIBE_CONFIGS,
    GET_TELEMETRY_SUBSCRIPTIONS,
    PUSH_TELEMETRY,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    CLIENT_METRICS_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import DELETE, SET
from tidelog.plugins.protocol_kafka.messages.push_telemetry import PushTelemetryRequest

from .client import PEER, Client
from .test_alter_configs import increment

NEW = bytes(16)
INTERVAL_MS = 300_000


class Pushes(list[PushedMetrics]):
    """A receiver that keeps what it gets, and can fail."""

    fails = False

    def __call__(self, pushed: PushedMetrics) -> None:
        """Take a push."""
        if self.fails:
            raise ValueError("these metrics cannot be read")
        self.append(pushed)


@pytest.fixture
def pushes() -> Pushes:
    """A receiver."""
    return Pushes()


@pytest.fixture
def client(broker: Broker, pushes: Pushes) -> Client:
    """A client of a broker with a receiver."""
    return Client(broker, telemetry=ClientTelemetry([pushes]))


async def get(client: Client, instance_id: bytes = NEW) -> Any:
    """The subscription."""
    request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
    return await client.ask(GET_TELEMETRY_SUBSCRIPTIONS, 0, request)


async def push(
    client: Client, subscription: Any, metrics: bytes = b"m", codec: int = 0, **changes: Any
) -> ErrorCode:
    """The error code of a push of that subscription."""
    request = PushTelemetryRequest(
        client_instance_id=changes.get("instance_id", subscription.client_instance_id),
        subscription_id=subscription.subscription_id + changes.get("off_by", 0),
        terminating=changes.get("terminating", False),
        compression_type=codec,
        metrics=metrics,
    )
    return ErrorCode((await client.ask(PUSH_TELEMETRY, 0, request)).error_code)


async def subscribe(client: Client, name: str = "s", **keys: str) -> int:
    """Alter a subscription; the error code."""
    changes = [(key.replace("_", "."), SET, value) for key, value in keys.items()]
    result = await increment(client, *changes, kind=CLIENT_METRICS_RESOURCE, name=name)
    code: int = result.error_code
    return code


async def test_get_telemetry_subscriptions_gives_an_id_and_no_metrics_without_subscriptions(
    client: Client,
) -> None:
    found = await get(client)
    assert found.error_code == 0
    assert uuid.UUID(bytes=found.client_instance_id).version == 4
    assert (found.requested_metrics, found.push_interval_ms) == ([], INTERVAL_MS)
    assert (found.accepted_compression_types, found.delta_temporality) == ([4, 3, 1, 2], True)
    assert found.telemetry_max_bytes == 1024 * 1024


async def test_get_telemetry_subscriptions_unites_the_subscriptions_that_match(client: Client) -> None:
    await client.ask(
        API_VERSIONS, 3, ApiVersionsRequest(client_software_name="java", client_software_version="4.4.0")
    )
    await subscribe(client, "a", metrics="consumer.,producer.", match="client_software_name=ja.*")
    await subscribe(client, "b", metrics="producer.", interval_ms="1000", match="client_id=test")
    await subscribe(client, "c", metrics="admin.", interval_ms="5000", match="client_source_address=127.*")
    found = await get(client)
    assert (found.requested_metrics, found.push_interval_ms) == (["admin.", "consumer.", "producer."], 5000)
    await subscribe(client, "d", metrics="*")
    again = await get(client, found.client_instance_id)
    assert (again.error_code, again.requested_metrics) == (0, ["*"])
    assert again.subscription_id != found.subscription_id


async def test_get_telemetry_subscriptions_is_throttled_until_the_interval_is_over(
    client: Client, clock: FakeClock
) -> None:
    found = await get(client)
    clock.advance(INTERVAL_MS - 1)
    assert (await get(client, found.client_instance_id)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clock.advance(1)
    assert (await get(client, found.client_instance_id)).subscription_id == found.subscription_id


@pytest.mark.parametrize("codec", range(5))
async def test_push_telemetry_delivers_the_metrics_of_every_codec(
    client: Client, pushes: Pushes, codec: int
) -> None:
    found = await get(client)
    assert await push(client, found, compress(codec, b"metrics" * 99), codec) == ErrorCode.NONE
    (pushed,) = pushes
    assert pushed.payload == b"metrics" * 99
    assert pushed.client_instance_id == uuid.UUID(bytes=found.client_instance_id)
    assert (pushed.attributes["client_id"], pushed.terminating) == ("tests", False)


async def test_push_telemetry_is_accepted_once_in_an_interval(client: Client, clock: FakeClock) -> None:
    found = await get(client)
    throttled = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert [await push(client, found), await push(client, found)] == [ErrorCode.NONE, throttled]
    clock.advance(INTERVAL_MS)
    assert await push(client, found) == ErrorCode.NONE
    assert await push(client, found, terminating=True) == ErrorCode.NONE
    clock.advance(INTERVAL_MS)
    assert await push(client, found) == ErrorCode.INVALID_REQUEST


async def test_push_telemetry_of_an_old_subscription_may_ask_for_the_new_one_at_once(client: Client) -> None:
    found = await get(client)
    assert await push(client, found, off_by=1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert (await get(client, found.client_instance_id)).error_code == 0


@pytest.mark.parametrize(
    ("metrics", "codec", "code"),
    [
        (b"m" * (1024 * 1024 + 1), 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (compress(1, b"m" * (1024 * 1024 + 1)), 1, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"m", 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"no gzip", 1, ErrorCode.INVALID_RECORD),
        (b"", 4, ErrorCode.NONE),
    ],
    ids=["too large", "bomb", "codec", "not compressed", "nothing"],
)
async def test_push_telemetry_checks_size_and_compression(
    client: Client, pushes: Pushes, metrics: bytes, codec: int, code: ErrorCode
) -> None:
    assert await push(client, await get(client), metrics, codec) == code
    assert pushes == []


@pytest.mark.parametrize("instance_id", [NEW, NEW[:-1] + b"\1"])
async def test_push_telemetry_refuses_reserved_ids(client: Client, instance_id: bytes) -> None:
    assert await push(client, await get(client), instance_id=instance_id) == ErrorCode.INVALID_REQUEST


async def test_push_telemetry_reports_a_receiver_that_fails(client: Client, pushes: Pushes) -> None:
    pushes.fails = True
    assert await push(client, await get(client)) == ErrorCode.INVALID_RECORD


async def test_push_telemetry_forgets_client_instances(
    client: Client, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When their connection ends, after a long silence, and when there are too many."""
    monkeypatch.setattr(client_telemetry, "MAX_INSTANCES", 2)
    found = await get(client)
    assert await push(client, found, terminating=True) == ErrorCode.NONE
    clock.advance(3 * INTERVAL_MS)
    assert await push(client, found, terminating=True) == ErrorCode.NONE
    for _ in range(2):
        await get(client)
    assert await push(client, found, terminating=True) == ErrorCode.NONE
    assert await push(client, found, terminating=True) == ErrorCode.INVALID_REQUEST
    client.wire.close()
    assert await push(client, found, terminating=True) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"interval_ms": "99"}, ErrorCode.INVALID_CONFIG),
        ({"interval_ms": "x"}, ErrorCode.INVALID_CONFIG),
        ({"metrics": "a,,b"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ({"match": "color=blue"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=a=b"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=(a"}, ErrorCode.INVALID_CONFIG),
        ({"color": "blue"}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_incremental_alter_configs_of_client_metrics_refuses(
    client: Client, broker: Broker, keys: dict[str, str], code: ErrorCode
) -> None:
    assert await subscribe(client, **keys) == code
    assert broker.resource_configs.names("client-metrics") == []


async def test_describe_configs_of_client_metrics(client: Client) -> None:
    await subscribe(client, interval_ms="1000", match="client_id=t.*")
    await increment(client, ("match", DELETE, None), kind=CLIENT_METRICS_RESOURCE, name="s")
    resource = DescribeConfigsResource(
        resource_type=CLIENT_METRICS_RESOURCE, resource_name="s", configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = (await client.ask(DESCRIBE_CONFIGS, 4, request)).results
    assert {entry.name: (entry.value, entry.config_source) for entry in result.configs} == {
        "metrics": ("", 5),
        "interval.ms": ("1000", 7),
        "match": ("", 5),
    }


async def test_api_versions_without_receivers_does_not_announce_client_telemetry(
    client: Client, broker: Broker
) -> None:
    client.wire = broker.plugins.wire_codec("kafka").connect(broker, PEER, RequestMemory(1 << 20).share())
    announced = {api.api_key for api in (await client.ask(API_VERSIONS, 0, ApiVersionsRequest())).api_keys}
    assert {api.key for api in BUILT_IN} - announced == {GET_TELEMETRY_SUBSCRIPTIONS.key, PUSH_TELEMETRY.key}
