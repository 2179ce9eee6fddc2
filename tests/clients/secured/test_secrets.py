"""Secrets of brokers and clients: in no log, in no answer, and in nothing that commands print."""

from __future__ import annotations

import logging
import re
import time
from traceback import format_exception
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource as BrokerResource
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from tests.kernel.cli.running import tidelog_in_process
from tests.plugins.client.token_endpoint import running_endpoint
from tests.plugins.sasl.identity_provider import AUDIENCE, ISSUER, Provider
from tests.tls_certificates import broker_entry, ca_file, written
from tidelog.client import (
    Admin,
    ConfigChange,
    ConfigResource,
    Consumer,
    NewScramPassword,
    Producer,
    ScramUser,
    TopicPartition,
)
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client import BlockingClient, ClientSettings
from tidelog.plugins.client.errors import AuthenticationRefused, ErrorResponse
from tidelog.plugins.client.security_keys import security_of_keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Each has a part that occurs nowhere else.
STORE, PLAIN, CHANGED, SCRAM, OAUTH, WRONG = (
    f"hunter-{each}-2" for each in ("store", "plain", "new", "scram", "oauth", "wrong")
)
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
SECRET = re.compile("hunter")
SINK = {
    "sinks.spark.s.topics": "t",
    "sinks.spark.s.checkpoint": "/c",
    "sinks.spark.s.path": "/t",
    "sinks.spark.s.reader.options": f"kafka.sasl.jaas.config={STORE},kafka.ssl.keystore.key={STORE}",
}
"""A sink that logs in."""


def plain_users(password: str) -> str:
    """The line of JAAS with the user."""
    return f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{password}";'


def settings_of(folder: Path, provider: Provider) -> dict[str, str]:
    """A broker whose every secret is one of those above."""
    entry = broker_entry()
    key: Any = load_pem_private_key(entry.key, None)
    store = pkcs12.serialize_key_and_certificates(
        b"broker", key, entry.certificate, entry.chain[1:], BestAvailableEncryption(STORE.encode())
    )
    return {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "node.id": "1",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": written(folder / "broker.p12", store),
        "ssl.keystore.password": STORE,
        "ssl.key.password": STORE,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca_file(folder),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.write(folder / "keys.json"),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_users(PLAIN),
        "connection.failed.authentication.delay.ms": "0",
        "log.level": "debug",
    }


def options(folder: Path, mechanism: str, password: str) -> dict[str, Any]:
    """Options of a client."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": ca_file(folder),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


def with_token(bootstrap: str, folder: Path, token: str) -> AdminClient:
    """A client of librdkafka."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": ca_file(folder),
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _config: (token, time.time() + 300),
    }
    client = AdminClient(settings)
    client.poll(0)
    return client


@pytest.fixture
def texts(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What was seen of errors; at the end neither these nor any logger, however talkative, has a secret."""
    found: list[str] = []
    for logger in (None, "tidelog"):
        caplog.set_level(logging.DEBUG, logger)
    yield found
    leaks = [text for text in [*found, *caplog.text.splitlines()] if SECRET.search(text)]
    assert leaks == []


def test_no_secret_is_in_logs_answers_or_errors(
    tmp_path: Path, texts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider(algorithm="ES256")
    broker = ConfigResource("broker", "1")
    token = provider.token("alice")
    with broker_in_thread(settings_of(tmp_path, provider)) as running:
        at = running.bootstrap
        with Admin(at, **options(tmp_path, "PLAIN", PLAIN)) as admin:
            admin.alter_user_scram_credentials({ScramUser("alice", "SCRAM-SHA-256"): NewScramPassword(SCRAM)})
            jaas = ConfigChange("listener.name.sasl_ssl.plain.sasl.jaas.config", plain_users(CHANGED))
            admin.alter_configs({broker: [jaas]})
            for name in ("plain.sasl.jaas.config", "ssl.keystore.password", "ssl.keystore.key"):
                wrong = ConfigChange(f"listener.name.sasl_ssl.{name}", f"-----BEGIN {WRONG}")
                with pytest.raises(ErrorResponse) as refused:
                    admin.alter_configs({broker: [wrong]})
                texts += format_exception(refused.value)
            texts.append(repr(admin.describe_configs([broker])))
            texts.append(repr(admin.describe_user_scram_credentials(["alice"])))
        with Producer(at, **options(tmp_path, "SCRAM-SHA-256", SCRAM)) as producer:
            producer.send_and_wait("t", b"x")
            texts.append(repr(vars(producer)))
        with Consumer(at, auto_offset_reset="earliest", **options(tmp_path, "PLAIN", CHANGED)) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            assert next(iter(consumer)).value == b"x"
            texts.append(repr(vars(consumer)))
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            with Admin(at, **options(tmp_path, mechanism, WRONG)) as admin:
                with pytest.raises(AuthenticationRefused) as failed:
                    admin.list_topics()
                texts += format_exception(failed.value)
        client = with_token(at, tmp_path, token)
        described = client.describe_configs([BrokerResource(BrokerResource.Type.BROKER, "1")])
        for each in described.values():
            for name, entry in each.result(30).items():
                texts.append(f"{name}={entry.value}")
                assert not (entry.is_sensitive and entry.value)
    assert token not in "".join(texts) + caplog.text


def test_no_secret_of_an_access_token_is_in_logs_or_errors(tmp_path: Path, texts: list[str]) -> None:
    url = "sasl.oauthbearer.token.endpoint.url"
    keys = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.credentials.client.id": "alice",
        CLIENT_SECRET: OAUTH,
    }
    with running_endpoint(Provider()) as endpoint:
        # The endpoint knows another secret, and refuses this one.
        security = security_of_keys({**keys, url: endpoint.url})
        settings = ClientSettings(security=security)
        with BlockingClient("127.0.0.1:1", settings=settings) as client:
            with pytest.raises(AuthenticationRefused, match="answers 401") as refused:
                client.metadata()
            texts += [repr(settings), repr(vars(client)), *format_exception(refused.value)]
    for changes in ({url: "ftp://x"}, {url: "https://x", "sasl.login.read.timeout.ms": "soon"}, {}):
        with pytest.raises(ValueError, match=r"sasl|schemes") as wrong:
            security_of_keys({**keys, **changes})
        texts += format_exception(wrong.value)


@pytest.mark.parametrize(
    "name", ["ssl.keystore.password", "listener.name.sasl_ssl.plain.sasl.jaas.config", "ssl.keystore.key"]
)
def test_no_secret_is_in_the_error_of_a_broker_that_cannot_start(
    tmp_path: Path, texts: list[str], name: str
) -> None:
    settings = settings_of(tmp_path, Provider(algorithm="ES256")) | {name: f"{WRONG} nonsense"}
    with pytest.raises((ConfigError, ExceptionGroup)) as refused, broker_in_thread(settings):
        pass
    # With what caused it, as a command shows with --debug.
    texts += format_exception(refused.value)


def test_no_secret_is_in_what_commands_print(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, Provider(algorithm="ES256"))
    file = tmp_path / "server.properties"
    settings |= {"mirrors.copy.bootstrap.servers": "x:1", f"mirrors.copy.{CLIENT_SECRET}": OAUTH}
    settings |= SINK
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    for arguments in (["config"], ["config", "--json"], ["config", "ssl.keystore.password"]):
        done = tidelog_in_process(*arguments, "--config", str(file))
        assert done.returncode == 0, done.stderr
        assert "hidden" in done.stdout
        assert not SECRET.search(done.stdout + done.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--set", f"ssl.keystore.password={WRONG}"],
        ["serve", "--set", f"listener.name.ssl.plain.sasl.jaas.config={WRONG}"],
        ["config", "--set", f"ssl.key.password={WRONG}"],
        ["serve", "--set", f"sinks.spark.s.reader.options=kafka.sasl.jaas.config={WRONG}"],
        ["config", "--set", f"sinks.spark.s.spark.conf=spark.hadoop.fs.s3a.secret.key={WRONG}"],
        ["load", "t", "--into", "/t", "--option", f"kafka.sasl.jaas.config={WRONG}"],
        ["load", "u", "--into", "/t", "--conf", f"spark.hadoop.fs.s3a.secret.key={WRONG}"],
        ["produce", "t", "-X", f"sasl.plain.password={WRONG}"],
        ["consume", "t", "-X", f"sasl.jaas.config={WRONG}"],
        ["consume", "u", "-X", f"{CLIENT_SECRET}={WRONG}"],
        ["produce", "u", "-X", f"sasl.oauthbearer.assertion.private.key.passphrase={WRONG}"],
        ["configs", "alter", "broker", "1", "--set", f"listener.name.x.plain.sasl.jaas.config={WRONG}"],
    ],
    ids=lambda each: " ".join(each[:2]),
)
def test_a_secret_is_refused_as_an_argument(arguments: list[str]) -> None:
    done = tidelog_in_process(*arguments)
    assert done.returncode != 0
    assert "other users of the machine see the arguments of a process" in " ".join(done.stderr.split())
    assert not SECRET.search(done.stdout + done.stderr)
