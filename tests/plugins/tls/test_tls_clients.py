"""Other clients over TLS: librdkafka and aiokafka, with a certificate that the broker requires."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer

from tests.tls_certificates import ca_file, client_context, client_entry, tls_settings, written
from tidelog.kernel.testing.broker import ThreadedBroker, broker_in_thread

COUNT = 3000
VALUE = b"x" * 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the certificates are."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Generator[ThreadedBroker]:
    """A broker that requires certificates."""
    with broker_in_thread(tls_settings(folder, None, ssl_client_auth="required")) as running:
        yield running


def librdkafka(broker: ThreadedBroker, folder: Path, **more: str) -> dict[str, str]:
    """The configuration of a client; underscores stand for dots."""
    own = written(folder / "alice.pem", client_entry("alice").pem())
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": ca_file(folder),
        "ssl.certificate.location": own,
        "ssl.key.location": own,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def test_librdkafka_produces_and_consumes_over_tls(broker: ThreadedBroker, folder: Path) -> None:
    producer = Producer(librdkafka(broker, folder))
    for _ in range(COUNT):
        producer.produce("librdkafka", VALUE)
    assert producer.flush(30) == 0
    consumer = Consumer(librdkafka(broker, folder, group_id="g", auto_offset_reset="earliest"))
    consumer.subscribe(["librdkafka"])
    read = 0
    while read < COUNT:
        messages = consumer.consume(500, 10)
        assert messages
        assert all(message.value() == VALUE for message in messages)
        read += len(messages)
    consumer.close()


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [(False, "certificate required"), (True, "certificate verify failed")],
    ids=["no certificate", "another authority"],
)
def test_librdkafka_gets_the_reason_why_it_is_refused(
    broker: ThreadedBroker, folder: Path, certificate: bool, reason: str
) -> None:
    reasons: list[str] = []
    config = librdkafka(broker, folder)
    if certificate:
        config["ssl.ca.location"] = ca_file(folder, "others")
    else:
        del config["ssl.certificate.location"], config["ssl.key.location"]
    producer = Producer({**config, "error_cb": lambda error: reasons.append(str(error)), "log_level": 0})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=2)
    producer.poll(0)
    assert any(reason in each for each in reasons), reasons


async def aiokafka_round_trip(bootstrap: str, context: ssl.SSLContext) -> int:
    """Produce and read; how many were read."""
    options: Any = {"bootstrap_servers": bootstrap, "security_protocol": "SSL", "ssl_context": context}
    async with AIOKafkaProducer(**options) as producer:
        for _ in range(COUNT):
            await producer.send("aiokafka", VALUE)
        await producer.flush()
    read = 0
    async with AIOKafkaConsumer("aiokafka", auto_offset_reset="earliest", **options) as consumer:
        async for record in consumer:
            assert record.value == VALUE
            read += 1
            if read == COUNT:
                break
    return read


def test_aiokafka_produces_and_consumes_over_tls(broker: ThreadedBroker, folder: Path) -> None:
    context = client_context(folder, client_entry("alice"))
    assert asyncio.run(aiokafka_round_trip(broker.bootstrap, context)) == COUNT
