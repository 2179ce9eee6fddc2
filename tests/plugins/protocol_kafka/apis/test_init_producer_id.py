"""InitProducerId: ids that nobody else has."""

from __future__ import annotations

import errno

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.cluster.producer_ids import BLOCK_SIZE
from tidelog.kernel.metadata import MetadataDelta
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_TRANSACTIONS, INIT_PRODUCER_ID
from tidelog.plugins.protocol_kafka.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest

from .client import Client, versions_of


def request(
    transactional_id: str | None = None, producer_id: int = -1, producer_epoch: int = -1
) -> InitProducerIdRequest:
    """Ask for an id."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


@pytest.mark.parametrize("version", versions_of(INIT_PRODUCER_ID))
async def test_init_producer_id_returns_new_ids_in_every_version(
    client: Client, broker: Broker, version: int
) -> None:
    other = Client(broker)
    responses = [
        await asker.ask(INIT_PRODUCER_ID, version, request()) for asker in (client, other, client, other)
    ]
    assert [(response.error_code, response.producer_epoch) for response in responses] == [(0, 0)] * 4
    assert len({response.producer_id for response in responses}) == 4


async def test_init_producer_id_continues_after_the_end_of_a_block(client: Client) -> None:
    ids = [(await client.ask(INIT_PRODUCER_ID, 4, request())).producer_id for _ in range(2 * BLOCK_SIZE + 5)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("version", versions_of(INIT_PRODUCER_ID, 3))
async def test_init_producer_id_returns_another_id_to_a_producer_that_restarts(
    client: Client, version: int
) -> None:
    first = (await client.ask(INIT_PRODUCER_ID, version, request())).producer_id
    again = await client.ask(INIT_PRODUCER_ID, version, request(None, first, 0))
    assert (again.error_code, again.producer_epoch) == (0, 0)
    assert again.producer_id != first


@pytest.mark.parametrize("version", versions_of(INIT_PRODUCER_ID, 3))
@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 0)])
async def test_init_producer_id_refuses_an_id_without_its_epoch(
    client: Client, version: int, producer_id: int, epoch: int
) -> None:
    response = await client.ask(INIT_PRODUCER_ID, version, request(None, producer_id, epoch))
    assert (response.error_code, response.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


@pytest.mark.parametrize("version", versions_of(INIT_PRODUCER_ID))
async def test_init_producer_id_refuses_an_empty_transactional_id(client: Client, version: int) -> None:
    response = await client.ask(INIT_PRODUCER_ID, version, request(""))
    assert (response.error_code, response.producer_id, response.producer_epoch) == (
        ErrorCode.INVALID_REQUEST,
        -1,
        -1,
    )


async def test_init_producer_id_returns_kafka_storage_error_when_the_disk_fails(
    client: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(delta: MetadataDelta) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(broker.metadata, "commit", fail)
        response = await client.ask(INIT_PRODUCER_ID, 4, request())
        assert (response.error_code, response.producer_id) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert (await client.ask(INIT_PRODUCER_ID, 4, request())).error_code == 0


def two_phase(timeout_ms: int = 1000, *, keep: bool = False, enable: bool = True) -> InitProducerIdRequest:
    """Ask for an id that takes part in two-phase commits."""
    return InitProducerIdRequest(
        transactional_id="payments",
        transaction_timeout_ms=timeout_ms,
        enable_2pc=enable,
        keep_prepared_txn=keep,
    )


async def test_init_producer_id_refuses_two_phase_commits_unless_the_broker_permits_them(
    client: Client,
) -> None:
    for keep in (False, True):
        response = await client.ask(INIT_PRODUCER_ID, 6, two_phase(keep=keep))
        assert (response.error_code, response.producer_id) == (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            -1,
        )


@pytest.mark.parametrize("timeout_ms", [0, 1000, 2**31 - 1])
async def test_init_producer_id_gives_two_phase_commits_no_timeout(timeout_ms: int) -> None:
    async with running_broker({"transaction.two.phase.commit.enable": "true"}) as broker:
        client = Client(broker)
        response = await client.ask(INIT_PRODUCER_ID, 6, two_phase(timeout_ms))
        assert (response.error_code, response.producer_epoch) == (0, 0)
        assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (-1, -1)
        (state,) = (
            await client.ask(
                DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=["payments"])
            )
        ).transaction_states
        assert state.transaction_timeout_ms == 2**31 - 1


@pytest.mark.parametrize("enable", [False, True])
async def test_init_producer_id_cannot_keep_an_open_transaction(enable: bool) -> None:
    async with running_broker({"transaction.two.phase.commit.enable": "true"}) as broker:
        response = await Client(broker).ask(INIT_PRODUCER_ID, 6, two_phase(keep=True, enable=enable))
    assert (response.error_code, response.producer_id) == (ErrorCode.UNSUPPORTED_VERSION, -1)
