"""Clients over TLS, with each driver; and what is refused, with the reason."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.tls_certificates import broker_entry, ca_file, client_entry, tls_settings, written
from tidelog.client import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer
from tidelog.kernel.testing.broker import ThreadedBroker, broker_in_thread
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client import BlockingClient, ClientSettings, NewTopic, TrioClient
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.security import SecuritySettings

VALUES = [bytes([n % 251]) * 1000 for n in range(3000)]
"""More than a record of TLS, a buffer of a socket, and a batch."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the certificates are."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Generator[ThreadedBroker]:
    """A broker that requires certificates."""
    with broker_in_thread(tls_settings(folder, None, ssl_client_auth="required")) as running:
        yield running


@pytest.fixture(scope="module")
def security(folder: Path) -> dict[str, Any]:
    """What gets a client in."""
    entry = client_entry("alice")
    return {
        "security_protocol": "SSL",
        "ssl_cafile": ca_file(folder),
        "ssl_certfile": written(folder / "alice.pem", entry.pem()),
        "ssl_keyfile": written(folder / "alice.key", entry.key),
    }


def test_producer_and_consumer_of_threads_over_tls(broker: ThreadedBroker, security: dict[str, Any]) -> None:
    with Producer(broker.bootstrap, **security) as producer:
        for value in VALUES:
            producer.send("threads", value)
        producer.flush()
    with Consumer(broker.bootstrap, auto_offset_reset="earliest", **security) as consumer:
        consumer.assign([TopicPartition("threads", 0)])
        assert [record.value for _, record in zip(VALUES, consumer, strict=False)] == VALUES


async def round_trip(bootstrap: str, topic: str, security: dict[str, Any]) -> list[bytes | None]:
    """Produce all values and read them again."""
    read: list[bytes | None] = []
    async with AsyncProducer(bootstrap, **security) as producer:
        for value in VALUES:
            await producer.send(topic, value)
        await producer.flush()
    async with AsyncConsumer(bootstrap, auto_offset_reset="earliest", **security) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        async for record in consumer:
            read.append(record.value)
            if len(read) == len(VALUES):
                break
    return read


def test_producer_and_consumer_of_asyncio_over_tls(broker: ThreadedBroker, security: dict[str, Any]) -> None:
    assert asyncio.run(round_trip(broker.bootstrap, "asyncio", security)) == VALUES


def test_producer_and_consumer_of_trio_over_tls(broker: ThreadedBroker, security: dict[str, Any]) -> None:
    assert trio.run(round_trip, broker.bootstrap, "trio", security) == VALUES


def test_clients_of_single_operations_over_tls(broker: ThreadedBroker, security: dict[str, Any]) -> None:
    settings = ClientSettings(security=SecuritySettings(**security))
    with BlockingClient(broker.bootstrap, settings=settings) as client:
        client.create_topics([NewTopic("blocking", partitions=1)])
        # The connection idles: tickets of TLS 1.3 are no response.
        assert "blocking" in client.metadata().topics

    async def main() -> None:
        async with TrioClient(broker.bootstrap, settings=settings) as client:
            assert "blocking" in (await client.metadata()).topics

    trio.run(main)
    with Admin(broker.bootstrap, **security) as admin:
        assert "blocking" in admin.list_topics()


def blocking(bootstrap: str, security: SecuritySettings) -> None:
    """Connect with the blocking driver."""
    settings = ClientSettings(security=security, connect_timeout_s=5, operation_timeout_s=5)
    with BlockingClient(bootstrap, settings=settings) as client:
        client.connect()


def with_trio(bootstrap: str, security: SecuritySettings) -> None:
    """Connect with that of trio."""

    async def main() -> None:
        settings = ClientSettings(security=security, connect_timeout_s=5, operation_timeout_s=5)
        async with TrioClient(bootstrap, settings=settings) as client:
            await client.connect()

    trio.run(main)


def with_engine(bootstrap: str, security: SecuritySettings) -> None:
    """Connect with that of threads."""
    names = ("security_protocol", "ssl_cafile", "ssl_certfile", "ssl_keyfile")
    options: dict[str, Any] = {name: getattr(security, name) for name in names}
    with Admin(bootstrap, retries=0, default_api_timeout_ms=5000, **options) as admin:
        admin.list_topics()


PLAIN: dict[str, Any] = {
    "security_protocol": "PLAINTEXT",
    **dict.fromkeys(("ssl_cafile", "ssl_certfile", "ssl_keyfile")),
}
CLIENTS = [blocking, with_trio, with_engine]
Changes = Callable[[Path], dict[str, Any]]
REFUSED: list[tuple[str, Changes, str]] = [
    (
        "another authority",
        lambda folder: {"ssl_cafile": ca_file(folder, "others")},
        "the broker's certificate is refused: .*self-signed",
    ),
    (
        "no certificate",
        lambda folder: {"ssl_certfile": None, "ssl_keyfile": None},
        "the broker requires a certificate of the client",
    ),
    (
        "expired",
        lambda folder: {
            "ssl_certfile": written(folder / "old.pem", client_entry("a", timedelta(seconds=-5)).pem()),
            "ssl_keyfile": None,
        },
        "certificate.*expired",
    ),
    ("no such file", lambda folder: {"ssl_cafile": "/no/such"}, "ssl_cafile: /no/such cannot be used"),
    (
        "plain",
        lambda folder: dict.fromkeys(("ssl_cafile", "ssl_certfile", "ssl_keyfile")) | PLAIN,
        "clos|reset",
    ),
]


@pytest.mark.parametrize("connect", CLIENTS)
@pytest.mark.parametrize(
    ("changes", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_client_that_is_refused_gets_the_reason(
    broker: ThreadedBroker,
    folder: Path,
    security: dict[str, Any],
    connect: Callable[[str, SecuritySettings], None],
    changes: Changes,
    reason: str,
) -> None:
    with pytest.raises(ClientError, match=reason):
        connect(broker.bootstrap, SecuritySettings(**{**security, **changes(folder)}))


@pytest.mark.parametrize("algorithm", ["https", ""])
def test_the_host_is_compared_with_the_certificate(tmp_path: Path, algorithm: str) -> None:
    settings = tls_settings(tmp_path, broker_entry(hosts=("elsewhere.example",)))
    security = SecuritySettings(
        security_protocol="SSL",
        ssl_cafile=ca_file(tmp_path),
        ssl_endpoint_identification_algorithm=algorithm,
    )
    with broker_in_thread(settings) as broker:
        if algorithm:
            with pytest.raises(ClientError, match="ip address mismatch"):
                blocking(broker.bootstrap, security)
        else:
            blocking(broker.bootstrap, security)


def test_tls_on_a_plain_port_is_refused_with_the_reason(tmp_path: Path) -> None:
    security = SecuritySettings(security_protocol="SSL", ssl_cafile=ca_file(tmp_path))
    with broker_in_thread() as broker, pytest.raises(ClientError, match=r"reset|ended the connection"):
        blocking(broker.bootstrap, security)


def test_a_context_of_the_callers_own_is_used(broker: ThreadedBroker, security: dict[str, Any]) -> None:
    context = ssl.create_default_context(cafile=security["ssl_cafile"])
    context.load_cert_chain(security["ssl_certfile"])
    blocking(broker.bootstrap, SecuritySettings(security_protocol="SSL", ssl_context=context))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ssl_cafile": "x"}, "ssl_cafile has no effect with security_protocol='PLAINTEXT'"),
        ({"security_protocol": "TLS"}, "security_protocol"),
        ({"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "x"}, "algorithm"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Producer("127.0.0.1:1", **settings)


def test_the_password_of_a_key_is_not_shown() -> None:
    assert "secret" not in repr(SecuritySettings(security_protocol="SSL", ssl_key_password="secret"))
