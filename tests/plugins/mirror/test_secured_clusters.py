"""Mirrors between clusters with TLS and SCRAM: by a table, by the command, and inside a broker."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import attrs
import pytest

from tests.deadlines import wait_until
from tests.kernel.cli.running import tidelog
from tests.plugins.mirror.clusters import COMMITTED, SETTINGS, content, produce, some_records
from tests.secured_brokers import SecuredBroker, jaas, secured_kafka, secured_tidelog
from tests.tables import for_each
from tidelog.kernel import configure
from tidelog.kernel.config import Sources, settings_from_mapping
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.testing.broker import FOR_A_TEST, broker_in_thread
from tidelog.plugins.client import BlockingClient, NewTopic, TopicPartition, or_raise
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.security_keys import SECURITY_KEYS
from tidelog.plugins.client.zookeeper_keys import ZOOKEEPER_KEYS
from tidelog.plugins.mirror import keys
from tidelog.plugins.mirror.client_keys import SOURCE_KEYS, TARGET_KEYS, security_of
from tidelog.plugins.mirror.settings import MirrorSettings

PLAIN_USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="p";'
Running = Callable[[Path], AbstractContextManager[SecuredBroker]]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Generator[SecuredBroker]:
    """A broker that clients have to authenticate at, over TLS."""
    with secured_tidelog(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


def fill(broker: SecuredBroker, topic: str) -> None:
    with BlockingClient(broker.plain, settings=SETTINGS) as client:
        or_raise(client.create_topics([NewTopic(topic, 1)]))
        produce(client, topic, some_records("a", "b"))


def mirror(source: str, target: str, topic: str, *more: str) -> tuple[int, str]:
    # Each has a name of its own, as by that the target knows from which cluster it copies.
    words = ("mirror", topic, "--source", source, "--target", target, "--topics", topic, "--until-end")
    done = tidelog(*words, *more)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "running",
    [pytest.param(secured_tidelog, id="tidelog"), pytest.param(secured_kafka, id="Apache Kafka")],
)
def test_the_command_copies_from_and_to_clusters_with_tls_and_scram(
    secured: SecuredBroker, running: Running, tmp_path: Path
) -> None:
    with running(tmp_path) as other:
        for source, target, topic in (
            (secured, other, f"to-{tmp_path.name}"),
            (other, secured, f"of-{tmp_path.name}"),
        ):
            fill(source, topic)
            code, printed = mirror(
                source.bootstrap, target.bootstrap, topic,
                "--source-config", source.properties(), "--target-config", target.properties(),
            )  # fmt: skip
            assert (code, printed) == (0, f"{topic}: copied 2 records in 1 topics (0.0 MB).\n")
            assert [each[2] for each in content(target.plain, topic)] == [b"a", b"b"]


def test_each_key_of_connections_of_clients_is_there_for_source_and_target() -> None:
    # A broker's secrets have references of their own.
    names = set(SECURITY_KEYS) - {"config.providers"}
    assert {f"mirrors.NAME.{name}" for name in names} <= {key.name for key in SOURCE_KEYS}
    assert {f"mirrors.NAME.target.{name}" for name in names} <= {key.name for key in TARGET_KEYS}


def test_each_key_of_an_ensemble_is_there_for_the_source_and_has_its_effect() -> None:
    names = {name for name in ZOOKEEPER_KEYS if name != "zookeeper.clientCnxnSocket"}
    assert {f"mirrors.NAME.{name}" for name in names} <= {key.name for key in SOURCE_KEYS}
    values = {
        "bootstrap.servers": "zookeeper://zoo:2181/kafka",
        "zookeeper.session.timeout.ms": "7000",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.endpoint.identification.algorithm": "",
        "zookeeper.ssl.truststore.location": "trust.jks",
        "zookeeper.ssl.truststore.password": "secret",
    }

    def settings(**changes: str) -> MirrorSettings:
        table = {f"mirrors.us.{name}": text for name, text in {**values, **changes}.items()}
        config, _ = configure(Sources().over(settings_from_mapping(table)))
        (found,) = (MirrorSettings.of_table(each) for each in config.tables(keys.SECTION))
        return found

    found = settings()
    ensemble = found.ensemble
    assert ensemble is not None
    assert (ensemble.connect, ensemble.session_timeout_ms, ensemble.ssl_check_hostname) == (
        "zoo:2181/kafka",
        7000,
        False,
    )
    assert ensemble.use_tls
    assert ensemble.ssl_stores is not None
    assert ensemble.ssl_stores.truststore_location == "trust.jks"
    assert "secret" not in repr(found)
    for name, text, reason in (
        ("zookeeper.session.timeout.ms", "x", "'x' is no number of milliseconds above 0"),
        ("zookeeper.ssl.client.enable", "yes", "'yes' is neither true nor false"),
        ("zookeeper.ssl.enabled.protocols", "TLSv1", "'TLSv1' is none of TLSv1.2, TLSv1.3"),
        ("zookeeper.ssl.endpoint.identification.algorithm", "x", "'x' is neither https nor empty"),
    ):
        with pytest.raises(ConfigError, match=f"mirrors.us.bootstrap.servers: {name}: {reason}"):
            settings(**{name: text})


def test_a_wrong_password_is_an_error_that_names_the_cluster(secured: SecuredBroker) -> None:
    config = secured.properties(sasl_jaas_config=jaas(password="wrong"))
    with broker_in_thread() as target:
        code, printed = mirror(secured.bootstrap, target.bootstrap, "any", "--source-config", config)
    assert code == 1
    assert secured.bootstrap in printed
    assert "SASL" in printed or "uthentication" in printed
    assert "wrong" not in printed


def test_a_broker_copies_through_its_secured_listener(secured: SecuredBroker) -> None:
    fill(secured, "inside")
    own = secured.keys(
        sasl_mechanism="PLAIN", sasl_jaas_config=jaas(password="p", module="plain.PlainLoginModule")
    )
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_USERS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(secured.folder / "broker.pem"),
        **table(secured, **{f"target.{name}": value for name, value in own.items()}),
    }
    with (
        broker_in_thread(settings) as target,
        BlockingClient(
            target.bootstrap, settings=attrs.evolve(SETTINGS, security=security_of(own))
        ) as client,
    ):
        place = TopicPartition("inside", 0)

        def is_copied() -> bool:
            try:
                return [each.value for each in client.read(place, 0, None, COMMITTED)] == [b"a", b"b"]
            except ClientError:
                return False

        wait_until(is_copied, "the records are copied")


def table(source: SecuredBroker, **more: str) -> dict[str, str]:
    """Settings of a broker with one mirror of a secured source."""
    settings = {
        "bootstrap.servers": source.bootstrap,
        "topics": "inside",
        "commit.interval.ms": "20",
        **source.keys(),
        **more,
    }
    return {f"mirrors.us.{name}": value for name, value in settings.items()}


def server_properties(folder: Path, settings: Mapping[str, object]) -> str:
    """Secrets may not be arguments of a process."""
    file = folder / "server.properties"
    lines = (f"{name}={value}\n" for name, value in settings.items())
    file.write_text("".join(lines).replace("\\", "\\\\"))
    return str(file)


def test_a_broker_without_a_listener_for_its_mirror_names_the_remedy(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    settings = {**FOR_A_TEST, **table(secured, **{"target.security.protocol": "SSL"})}
    done = tidelog("serve", "--config", server_properties(tmp_path, settings))
    assert done.returncode
    assert "a listener SSL, and `listeners` has none; to use another one set target.security" in done.stderr


@for_each(
    "words",
    [
        "security.protocol=TLS|mirrors.us.security.protocol: 'TLS' is none of PLAINTEXT, SSL",
        "target.security.protocol=TLS|mirrors.us.target.security.protocol: 'TLS' is none of",
        "security.protocol=SASL_SSL|mirrors.us.*sasl",
        "ssl.trustore.location=a|did you mean mirrors.us.ssl.truststore.location",
    ],
)
def test_a_wrong_key_is_named(words: str) -> None:
    setting, _, expected = words.partition("|")
    done = tidelog("mirror", "--set", "mirrors.us.bootstrap.servers=a:1", "--set", f"mirrors.us.{setting}")
    assert done.returncode
    assert re.search(expected, done.stderr), done.stderr


@for_each(
    "words",
    [
        "ssl.truststore.lokation=x|client.properties: ssl.truststore.lokation: a mirror takes only keys",
        "security.protocol=x|client.properties: security.protocol: 'X' is none of",
    ],
)
def test_a_file_of_keys_that_cannot_be_used_is_named(words: str, tmp_path: Path) -> None:
    line, _, expected = words.partition("|")
    file = tmp_path / "client.properties"
    file.write_text(line)
    code, printed = mirror("a:1", "b:1", "t", "--target-config", str(file))
    assert code
    assert expected in printed


def test_secrets_are_hidden(secured: SecuredBroker, tmp_path: Path) -> None:
    done = tidelog("config", "--config", server_properties(tmp_path, table(secured)))
    assert "mirrors.us.sasl.jaas.config" in done.stdout
    assert "horse" not in done.stdout + done.stderr
    config, _ = configure(Sources().over(settings_from_mapping(table(secured))))
    (found,) = (MirrorSettings.of_table(each) for each in config.tables(keys.SECTION))
    assert "horse" not in repr(found)
