"""ApiVersions: what is served and nothing else, to clients of any age."""

from __future__ import annotations

import struct

import pytest

from tidelog.kernel.broker import Broker
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, answer_in, joined, versions_of

SERVED_VERSIONS = {api.key: (api.span.low, api.span.high) for api in BUILT_IN}


def named(cluster_id: str | None = None, node_id: int = -1) -> ApiVersionsRequest:
    """A client that introduces itself."""
    return ApiVersionsRequest(
        client_software_name="librdkafka",
        client_software_version="2.3.0",
        cluster_id=cluster_id,
        node_id=node_id,
    )


def told(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    """Versions by API."""
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


@pytest.mark.parametrize("version", versions_of(API_VERSIONS))
async def test_api_versions_lists_the_served_versions_in_every_version(client: Client, version: int) -> None:
    request = named() if version >= 3 else ApiVersionsRequest()
    response = await client.ask(API_VERSIONS, version, request)
    assert response.error_code == 0
    assert told(response) == SERVED_VERSIONS


@pytest.mark.parametrize("version", [-1, 6, 99, 2**15 - 1, -(2**15)])
@pytest.mark.parametrize("body", [b"", b"\0", b"anything at all"])
async def test_api_versions_responds_in_version_0_to_an_unknown_version(
    client: Client, version: int, body: bytes
) -> None:
    tags = b"\0" if version >= 3 else b""
    header = struct.pack(">hhih", 18, version, 77, 5) + b"tests" + tags
    client.receive(struct.pack(">i", len(header) + len(body)) + header + body)
    step = client.wire.next_step()
    assert isinstance(step, list)
    response = answer_in(API_VERSIONS, 0, joined(step))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert told(response)[18] == SERVED_VERSIONS[18]


@pytest.mark.parametrize(
    ("name", "version"),
    [("librdkafka", "2.3.0"), ("a", "1"), ("apache-kafka-java", "3.9.0"), ("x.y-z", "v1.0-rc.1"), ("0", "0")],
)
async def test_api_versions_accepts_valid_names_of_client_software(
    client: Client, name: str, version: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert (await client.ask(API_VERSIONS, 3, request)).error_code == 0


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("", "1"),
        ("a", ""),
        ("-a", "1"),
        ("a-", "1"),
        ("a b", "1"),
        ("a", "1.0."),
        ("\u00e4", "1"),
    ],
)
async def test_api_versions_refuses_invalid_names_of_client_software(
    client: Client, name: str, version: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    response = await client.ask(API_VERSIONS, 3, request)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.api_keys == []


@pytest.mark.parametrize(
    ("cluster", "node", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("mine", -1, ErrorCode.INVALID_REQUEST),
        ("mine", 1, ErrorCode.NONE),
        ("another", -1, ErrorCode.INVALID_REQUEST),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("mine", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_api_versions_of_a_client_that_expects_another_broker(
    client: Client, broker: Broker, cluster: str | None, node: int, code: ErrorCode
) -> None:
    cluster_id = broker.cluster.cluster_id if cluster == "mine" else cluster
    request = named(cluster_id, node)
    response = await client.ask(API_VERSIONS, 5, request)
    assert response.error_code == code
