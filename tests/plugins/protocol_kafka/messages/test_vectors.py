"""Versions that no oracle here has, byte by byte: ApiVersions 5 (KIP-1242)."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.plugins.protocol_kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from tidelog.plugins.schema import decode, encode

VECTORS = [
    pytest.param(
        ApiVersionsRequest(client_software_name="ab", client_software_version="1"),
        "03 6162 02 31 00 ffffffff 00",
        id="request to any broker",
    ),
    pytest.param(
        ApiVersionsRequest(client_software_name="", client_software_version="", cluster_id="c", node_id=3),
        "01 01 02 63 00000003 00",
        id="request to one broker",
    ),
    pytest.param(
        ApiVersionsResponse(error_code=0, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=5)]),
        "0000 02 0012 0000 0005 00 00000000 00",
        id="response",
    ),
    pytest.param(
        ApiVersionsResponse(
            error_code=0,
            api_keys=[],
            supported_features=[SupportedFeatureKey(name="f", min_version=0, max_version=2)],
            finalized_features_epoch=1,
        ),
        "0000 01 00000000 02 00 08 02 02 66 0000 0002 00 01 08 0000000000000001",
        id="response with features",
    ),
]


@pytest.mark.parametrize(("message", "written"), VECTORS)
def test_api_versions_5(message: Any, written: str) -> None:
    encoded = bytes.fromhex(written)
    assert encode(message, 5) == encoded
    assert decode(type(message), 5, encoded) == message
