"""Clients of a ZooKeeper that asks for TLS with certificates of clients, or has access control lists."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from kazoo.exceptions import NoAuthError
from kazoo.security import Permissions, make_digest_acl

from tests.deadlines import DEADLINE_S
from tests.peers import free_port, running_tidelog, running_zookeeper
from tests.plugins.zookeeper.observer import observing, wait_until_there
from tests.tls_certificates import jks, p12, written
from tidelog.client import Admin, ClientError, ConsumerConnector, NewTopic, Producer, ZooKeeperEnsemble
from tidelog.plugins.client_commands.consume.consume_command import command as consume
from tidelog.plugins.client_commands.produce.produce_command import command as produce
from tidelog.plugins.client_commands.topics.list_command import command as list_topics
from tidelog.plugins.keystores.authority import Authority
from tidelog.plugins.keystores.stores import certificates_pem
from tidelog.plugins.keystores.tls_stores import TlsStores
from tidelog.plugins.mirror.command import mirror

DAY = timedelta(days=1)
NETTY = "org.apache.zookeeper.server.NettyServerCnxnFactory"


@attrs.frozen
class Place:
    """A broker that is registered at `plain`, which clients find at `secure` with the files in a folder."""

    plain: str
    secure: str
    folder: Path

    def ensemble(self, **changes: Any) -> ZooKeeperEnsemble:
        options: dict[str, Any] = {
            "use_tls": True,
            "ssl_cafile": str(self.folder / "ca.pem"),
            "ssl_certfile": str(self.folder / "client.pem"),
            "ssl_keyfile": str(self.folder / "client.pem"),
        }
        return ZooKeeperEnsemble(self.secure, **{**options, **changes})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A ZooKeeper with a port for TLS, and a broker that is registered in it."""
    folder = tmp_path_factory.mktemp("keys")
    authority = Authority.create("ca", DAY)
    (folder / "ca.pem").write_bytes(certificates_pem(authority.entry.chain))
    (folder / "ca.p12").write_bytes(p12(None, "secret", authority.entry.chain))
    for name, hosts in (("server", ["127.0.0.1"]), ("other", ["elsewhere"]), ("client", [])):
        entry = authority.issue(name, DAY, hosts)
        (folder / f"{name}.pem").write_bytes(entry.key + certificates_pem(entry.chain))
        (folder / f"{name}.jks").write_bytes(jks(entry, "secret"))
    port = free_port()
    settings = {
        "secureClientPort": str(port),
        "serverCnxnFactory": NETTY,
        "ssl.keyStore.location": str(folder / "server.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(folder / "ca.pem"),
        "ssl.trustStore.type": "PEM",
    }
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper"), settings=settings) as server:
        plain = f"{server.connect}/kafka"
        broker = {"zookeeper.connect": plain}
        with running_tidelog(tmp_path_factory.mktemp("tidelog"), settings=broker):
            yield Place(plain, f"127.0.0.1:{port}/kafka", folder)


def test_clients_find_brokers_and_coordinate_themselves_with_tls(place: Place) -> None:
    topic = str(uuid.uuid4())
    with Admin(place.ensemble()) as admin:
        admin.create_topics([NewTopic(topic, partitions=1)])
    with Producer(place.ensemble()) as producer:
        producer.send_and_wait(topic, b"tea")
    with ConsumerConnector(
        place.ensemble(), group_id=topic, coordination="zookeeper", auto_offset_reset="earliest"
    ) as connector:
        record = connector.create_message_streams({topic: 1})[topic][0].get(DEADLINE_S)
        assert record is not None
        assert record.value == b"tea"


def test_a_broker_registers_itself_with_tls(place: Place, tmp_path: Path) -> None:
    connect = f"{place.secure}-of-tls"
    settings = {
        "zookeeper.connect": connect,
        **java_stores(place.folder),
    }
    stores = TlsStores(
        truststore_type="PEM",
        truststore_location=str(place.folder / "ca.pem"),
        keystore_location=str(place.folder / "client.jks"),
        keystore_password="secret",
    )
    with (
        running_tidelog(tmp_path, settings=settings) as broker,
        Admin(ZooKeeperEnsemble(connect, use_tls=True, ssl_stores=stores)) as admin,
    ):
        assert [str(each) for each in admin.describe_cluster().brokers.values()] == [broker.bootstrap]


def java_stores(folder: Path) -> dict[str, str]:
    """Stores with passwords, as the keys of Kafka's brokers and tools name them."""
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(folder / "ca.p12"),
        "zookeeper.ssl.truststore.password": "secret",
        "zookeeper.ssl.keystore.location": str(folder / "client.jks"),
        "zookeeper.ssl.keystore.password": "secret",
        "zookeeper.ssl.keystore.type": "JKS",
    }


def test_commands_and_mirrors_find_brokers_with_the_keys_of_a_file(place: Place, tmp_path: Path) -> None:
    topic, where = str(uuid.uuid4()), f"zookeeper://{place.secure}"
    lines = [f"{name}={value}" for name, value in java_stores(place.folder).items()]
    path = written(tmp_path / "zookeeper.properties", "\n".join(lines).encode())
    connect = ["-b", where, "--command-config", path]
    runner = CliRunner()
    assert runner.invoke(produce, [topic, "tea", *connect], catch_exceptions=False).exit_code == 0
    assert topic in runner.invoke(list_topics, connect, catch_exceptions=False).output
    assert "tea" in runner.invoke(consume, [topic, *connect], catch_exceptions=False).output
    words = ["--source", where, "--source-config", path, "--target", where, "--target-config", path]
    words += ["--topics", topic, "--until-end", "--set", "mirrors.mirror.rename.prefix=copy."]
    done = runner.invoke(mirror, words, catch_exceptions=False)
    assert "copied 1 records in 1 topics" in done.output
    assert "tea" in runner.invoke(consume, [f"copy.{topic}", *connect], catch_exceptions=False).output


def test_commands_say_what_is_wrong_with_an_ensemble(place: Place) -> None:
    runner = CliRunner()
    wrong = runner.invoke(list_topics, ["-b", "zookeeper://a:b"])
    assert "the ensemble 'a:b' has 'a:b', which is not host:port" in wrong.output
    # The port without TLS is that of the ensemble, and there is no broker at that path.
    nowhere = runner.invoke(list_topics, ["-b", f"zookeeper://{place.plain}/none", "--timeout", "0.5"])
    assert f"No broker is registered in ZooKeeper at {place.plain}/none" in str(nowhere.exception)


def test_only_the_broker_changes_its_nodes_with_access_control_lists(place: Place, tmp_path: Path) -> None:
    # A path of its own, on the port without TLS, where a client is anonymous.
    settings = {
        "zookeeper.connect": f"{place.secure}-of-lists",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(place.folder / "ca.pem"),
        "zookeeper.ssl.keystore.location": str(place.folder / "client.pem"),
        "zookeeper.set.acl": "true",
    }
    group = str(uuid.uuid4())
    with running_tidelog(tmp_path, settings=settings) as broker:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic("lists", partitions=1)])
        with observing(f"{place.plain}-of-lists") as observer:
            wait_until_there(observer, "/brokers/topics/lists")
            assert observer.get("/brokers/topics/lists")[0]
            for path in ("/brokers/topics/lists", "/brokers/topics", "/cluster/id", "/controller"):
                assert {(each.id.scheme, each.perms) for each in observer.get_acls(path)[0]} == {
                    ("x509", Permissions.ALL),
                    ("world", Permissions.READ),
                }
                with pytest.raises(NoAuthError):
                    observer.set(path, b"other")
            # An old consumer makes its nodes nevertheless.
            observer.create(f"/consumers/{group}/ids", b"", makepath=True)


# Kazoo leaves the socket of a handshake that has failed to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "changes",
    [
        {"ssl_cafile": None},
        {"ssl_certfile": None, "ssl_keyfile": None},
        {"ssl_cafile": None, "ssl_certfile": None, "ssl_keyfile": None, "use_tls": False},
    ],
    ids=["unknown authority", "no certificate", "no TLS"],
)
def test_clients_whose_tls_does_not_fit_find_nothing_and_say_so(
    place: Place, changes: dict[str, Any]
) -> None:
    ensemble = place.ensemble(**changes)
    with Admin(
        ensemble, default_api_timeout_ms=1000, socket_connection_setup_timeout_ms=400
    ) as admin, pytest.raises(ClientError, match="ZooKeeper at"):  # fmt: skip
        admin.list_topics()


def test_clients_prove_by_digest_who_they_are(place: Place) -> None:
    group = str(uuid.uuid4())
    with observing(place.plain) as observer:
        observer.add_auth("digest", "reader:secret")
        closed = [make_digest_acl("reader", "secret", all=True)]
        for folder in ("", "/ids", "/owners", "/offsets"):
            observer.create(f"/consumers/{group}{folder}", b"", acl=closed, makepath=True)
    with Admin(place.ensemble()) as admin:
        admin.create_topics([NewTopic(group, partitions=1)])
    with Producer(place.ensemble()) as producer:
        producer.send_and_wait(group, b"tea")
    options: dict[str, Any] = {"group_id": group, "auto_offset_reset": "earliest"}
    with ConsumerConnector(
        ZooKeeperEnsemble(place.plain, digest="reader:secret"), coordination="zookeeper", **options
    ) as connector:
        (stream,) = connector.create_message_streams({group: 1})[group]
        assert stream.get(DEADLINE_S) is not None
        connector.commit_offsets()
    with ConsumerConnector(
        ZooKeeperEnsemble(place.plain, digest="reader:wrong"), coordination="zookeeper", **options
    ) as connector:
        (stream,) = connector.create_message_streams({group: 1})[group]
        assert stream.get(2) is None
        assert connector.assignment() == {}


def test_secrets_are_not_shown() -> None:
    ensemble = ZooKeeperEnsemble("a:1", digest="reader:secret", use_tls=True, ssl_key_password="secret")
    assert "secret" not in repr(ensemble)
