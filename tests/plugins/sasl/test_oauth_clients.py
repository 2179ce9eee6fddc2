"""Clients with access tokens: librdkafka and Kafka's own tools get in, and see why when they do not."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.peers import find_kafka
from tests.plugins.sasl.identity_provider import AUDIENCE, ISSUER, Provider
from tidelog.kernel.testing.broker import ThreadedBroker, broker_in_thread

TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@pytest.fixture(scope="module")
def broker(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Generator[ThreadedBroker]:
    """A broker that takes tokens of the provider."""
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.write(tmp_path_factory.mktemp("keys") / "keys.json"),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connection.failed.authentication.delay.ms": 10,
    }
    with broker_in_thread(settings) as running:
        yield running


def librdkafka(broker: ThreadedBroker, token: str, errors: list[str]) -> AdminClient:
    """A client that has this token."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _config: (token, time.time() + 300, "alice", {"traceId": "4711"}),
        "error_cb": lambda error: errors.append(str(error)),
    }
    client = AdminClient(settings)
    client.poll(0)
    return client


def test_librdkafka_gets_in(broker: ThreadedBroker, provider: Provider) -> None:
    assert librdkafka(broker, provider.token(), []).list_topics(timeout=10).brokers


def test_librdkafka_sees_that_its_token_is_not_taken(
    broker: ThreadedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[str] = []
    client = librdkafka(broker, Provider().token(), errors)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)
    client.poll(0)
    assert "invalid_token" in " ".join(errors)
    assert "the access token is not taken: its signature is wrong" in caplog.text


def config(folder: Path, token: str) -> list[str]:
    """The options of a tool of Kafka with a token from a file."""
    (folder / "token").write_text(token)
    file = folder / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=OAUTHBEARER\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url=file://{folder}/token\n"
        "default.api.timeout.ms=5000\nrequest.timeout.ms=4000\n"
    )
    return ["--command-config", str(file)]


def test_kafkas_tools_get_in_and_see_why_they_do_not(
    broker: ThreadedBroker, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process of its own for each: which files a login may read is a property of the system.
    kafka = find_kafka()
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{tmp_path}/token"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{allowed} -Dorg.apache.kafka.sasl.oauthbearer.allowed.files=/")
    connect = ["--bootstrap-server", broker.bootstrap]
    made = kafka.run_tool(
        TOPICS, [*connect, *config(tmp_path, provider.token()), "--create", "--topic", "t"], stdin=""
    )
    assert made.returncode == 0, made.stdout + made.stderr
    ended = kafka.run_tool(TOPICS, [*connect, *config(tmp_path, Provider().token()), "--list"], stdin="")
    assert ended.returncode != 0
    assert '{"status":"invalid_token"}' in ended.stdout + ended.stderr
