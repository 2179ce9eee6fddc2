"""AlterClientQuotas and DescribeClientQuotas: what is set is described, and what Kafka refuses is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import StorageError
from tidelog.plugins.protocol_kafka.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    OpData,
)
from tidelog.plugins.protocol_kafka.messages.api import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from tidelog.plugins.protocol_kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of

Entity = dict[str, str | None]
Quotas = dict[str, float | None]
ALICE: Entity = {"user": "alice"}
RATE = "producer_byte_rate"


def entry(entity: Entity, quotas: Quotas) -> AlterClientQuotasEntry:
    """Set quotas, and remove those that are None."""
    return AlterClientQuotasEntry(
        entity=[AlterClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


async def alter(
    client: Client, *entries: AlterClientQuotasEntry, version: int = 1, validate_only: bool = False
) -> Any:
    """Error code and entity of each result."""
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    answer = await client.ask(ALTER_CLIENT_QUOTAS, version, request)
    return [
        (result.error_code, {part.entity_type: part.entity_name for part in result.entity})
        for result in answer.entries
    ]


async def describe(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Any:
    """The quotas of the entities that match, or the error."""
    wanted = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    request = DescribeClientQuotasRequest(components=wanted, strict=strict)
    answer = await client.ask(DESCRIBE_CLIENT_QUOTAS, version, request)
    if answer.error_code:
        assert answer.error_message
        assert answer.entries is None
        return answer.error_code
    return [
        (
            {part.entity_type: part.entity_name for part in found.entity},
            {value.key: value.value for value in found.values},
        )
        for found in answer.entries
    ]


@pytest.mark.parametrize("version", versions_of(ALTER_CLIENT_QUOTAS))
async def test_alter_client_quotas_sets_changes_and_removes_quotas_in_every_version(
    client: Client, version: int
) -> None:
    first = entry(ALICE, {RATE: 1000.0, "request_percentage": 12.5})
    assert await alter(client, first, version=version) == [(0, ALICE)]
    assert await describe(client, version=version) == [(ALICE, {RATE: 1000.0, "request_percentage": 12.5})]
    await alter(client, entry(ALICE, {RATE: 2000.0, "request_percentage": None}), version=version)
    assert await describe(client, version=version) == [(ALICE, {RATE: 2000.0})]
    await alter(client, entry(ALICE, {RATE: None, "consumer_byte_rate": None}), version=version)
    assert await describe(client, version=version) == []


@pytest.mark.parametrize(
    ("entity", "quotas"),
    [
        ({}, {RATE: 1.0}),
        ({"user": ""}, {RATE: 1.0}),
        ({"group": "g"}, {RATE: 1.0}),
        ({"user": "a", "ip": "127.0.0.1"}, {RATE: 1.0}),
        ({"ip": "127.0.0.1"}, {RATE: 1.0}),
        ({"ip": "10.0.0.0/8"}, {"connection_creation_rate": 1.0}),
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 2.0**31}),
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 1.5}),
        (ALICE, {"connection_creation_rate": 1.0}),
        (ALICE, {"SCRAM-SHA-256": 1.0}),
        (ALICE, {RATE: 1.5}),
        (ALICE, {RATE: 1e19}),
        (ALICE, {RATE: 0.0}),
        (ALICE, {RATE: math.inf}),
        (ALICE, {"request_percentage": -1.0}),
        (ALICE, {"request_percentage": math.nan}),
        (ALICE, {"request_percentage": math.inf}),
    ],
)
async def test_alter_client_quotas_refuses_and_changes_nothing(
    client: Client, entity: Entity, quotas: Quotas
) -> None:
    fine: Quotas = {"consumer_byte_rate": 1.0}
    mixed = quotas if "ip" in entity else {**fine, **quotas}
    refused = await alter(client, entry(entity, mixed), entry({"user": "fine"}, fine))
    assert refused == [(ErrorCode.INVALID_REQUEST, entity), (0, {"user": "fine"})]
    assert await describe(client) == [({"user": "fine"}, fine)]


@pytest.mark.parametrize(
    ("entity", "quotas"),
    [
        ({"client-id": None}, {"controller_mutation_rate": 0.5}),
        ({"user": None, "client-id": "c"}, {RATE: 1.0000005}),
        ({"ip": None}, {"connection_creation_rate": 3.0}),
        ({"ip": "::1"}, {"connection_creation_rate": 3.0}),
        ({"ip": "localhost"}, {"connection_creation_rate": 3.0}),
        (ALICE, {RATE: 2.0**63}),
        (ALICE, {"request_percentage": 1e300}),
    ],
)
async def test_alter_client_quotas_takes_what_kafka_takes(
    client: Client, entity: Entity, quotas: Quotas
) -> None:
    assert await alter(client, entry(entity, quotas)) == [(0, entity)]
    assert await describe(client) == [(entity, quotas)]


async def test_alter_client_quotas_refuses_duplicates(client: Client) -> None:
    other: Entity = {"user": "bob"}
    twice = AlterClientQuotasEntry(
        entity=entry(other, {}).entity,
        ops=[OpData(key=RATE, value=value, remove=False) for value in (1.0, 2.0)],
    )
    refused = await alter(client, entry(ALICE, {RATE: 1.0}), twice, entry(ALICE, {RATE: 2.0}))
    assert refused == [(ErrorCode.INVALID_REQUEST, ALICE), (ErrorCode.INVALID_REQUEST, other)]
    assert await describe(client) == []


async def test_alter_client_quotas_with_validate_only_changes_nothing(client: Client) -> None:
    entries = entry(ALICE, {RATE: 1.0}), entry({"user": "b"}, {RATE: -1.0})
    assert await alter(client, *entries, validate_only=True) == [
        (0, ALICE),
        (ErrorCode.INVALID_REQUEST, {"user": "b"}),
    ]
    assert await describe(client) == []


async def test_alter_client_quotas_reports_a_disk_that_refuses(
    client: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(changes: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(broker.metadata, "commit", refuse)
    assert await alter(client, entry(ALICE, {RATE: 1.0})) == [(ErrorCode.KAFKA_STORAGE_ERROR, ALICE)]


EXACT, DEFAULT, ANY = 0, 1, 2
KEPT: list[Entity] = [
    ALICE,
    {"user": None},
    {"user": "alice", "client-id": None},
    {"user": "bob", "client-id": "c"},
    {"client-id": "c"},
]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("components", "found", "found_strictly"),
    [
        ([], [0, 1, 2, 3, 4], []),
        ([("user", EXACT, "alice")], [0, 2], [0]),
        ([("user", DEFAULT, None)], [1], [1]),
        ([("user", ANY, None)], [0, 1, 2, 3], [0, 1]),
        ([("user", ANY, None), ("client-id", ANY, None)], [2, 3], [2, 3]),
        ([("client-id", DEFAULT, None)], [2], []),
        ([("client-id", EXACT, "c"), ("user", EXACT, "alice")], [], []),
        ([("ip", ANY, None)], [], []),
    ],
)
async def test_describe_client_quotas_finds_what_matches(
    client: Client,
    strict: bool,
    components: list[tuple[str, int, str | None]],
    found: list[int],
    found_strictly: list[int],
) -> None:
    await alter(client, *(entry(entity, {RATE: 1.0}) for entity in KEPT))
    wanted = [KEPT[index] for index in (found_strictly if strict else found)]
    assert [entity for entity, _ in await describe(client, *components, strict=strict)] == wanted


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_describe_client_quotas_refuses_filters(
    client: Client, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    assert await describe(client, *components) == code


async def test_alter_client_quotas_leads_to_another_object_in_the_image(
    client: Client, broker: Broker
) -> None:
    """By which the server sees that the rates of addresses are others."""
    before = broker.image.quotas
    await alter(client, entry(ALICE, {RATE: 1.0}), validate_only=True)
    assert broker.image.quotas is before
    await alter(client, entry(ALICE, {RATE: 1.0}))
    assert broker.image.quotas is not before
