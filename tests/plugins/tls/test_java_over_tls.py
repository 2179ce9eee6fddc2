"""Apache Kafka's own tools over TLS: they get in, and see why when they do not."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.peers import run_kafka_tool
from tests.tls_certificates import ca_file, client_entry, tls_settings, written
from tidelog.kernel.testing.broker import ThreadedBroker, broker_in_thread

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the certificates are."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Generator[ThreadedBroker]:
    """A broker that requires certificates."""
    settings = {**tls_settings(folder, None, ssl_client_auth="required"), "node.id": "1"}
    with broker_in_thread(settings) as running:
        yield running


def config(folder: Path, trusted: str = "tests", *, certificate: bool = True) -> str:
    """A file with the keys of a client."""
    lines = ["security.protocol=SSL", "ssl.truststore.type=PEM"]
    lines += [
        f"ssl.truststore.location={ca_file(folder, trusted)}",
        "default.api.timeout.ms=5000",
        "request.timeout.ms=4000",
    ]
    if certificate:
        own = written(folder / "alice.pem", client_entry("alice").pem())
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={own}"]
    return written(folder / "client.properties", "\n".join(lines).encode())


def test_kafkas_tools_work_over_tls_and_change_a_listener(broker: ThreadedBroker, folder: Path) -> None:
    connect = ["--bootstrap-server", broker.bootstrap, "--command-config", config(folder)]
    made = run_kafka_tool(TOPICS, [*connect, "--create", "--topic", "t"])
    assert made.returncode == 0, made.stdout + made.stderr
    change = "listener.name.ssl.ssl.keystore.location=/no/such"
    broker_1 = ["--entity-type", "brokers", "--entity-name", "1", "--alter", "--add-config", change]
    refused = run_kafka_tool(CONFIGS, [*connect, *broker_1])
    assert refused.returncode != 0
    assert "/no/such cannot be read: no such file or directory" in refused.stdout + refused.stderr


@pytest.mark.parametrize(
    ("trusted", "certificate", "at_the_client", "at_the_broker"),
    [
        ("others", True, "unable to find valid certification path", "refuses the broker's certificate"),
        ("tests", False, "SslAuthenticationException|handshake", "the client presents no certificate"),
    ],
    ids=["another authority", "no certificate"],
)
def test_a_tool_that_is_refused_shows_why(
    broker: ThreadedBroker,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    trusted: str,
    certificate: bool,
    at_the_client: str,
    at_the_broker: str,
) -> None:
    connect = ["--command-config", config(folder, trusted, certificate=certificate)]
    ended = run_kafka_tool(TOPICS, ["--bootstrap-server", broker.bootstrap, *connect, "--list"])
    output = ended.stdout + ended.stderr
    assert ended.returncode != 0
    assert any(words in output for words in at_the_client.split("|")), output
    assert at_the_broker in caplog.text
