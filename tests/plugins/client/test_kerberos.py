"""Clients with tickets of MIT's KDC, with each driver, at both brokers; and what lets no one in."""

from __future__ import annotations

import asyncio
import importlib
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from tests.peers.kafka_server import running_kafka
from tests.peers.ports import LOOPBACK, free_ports
from tests.plugins.sasl.kerberos_realm import REALM, SERVICE, Realm, kerberos_realm
from tests.tables import for_each
from tidelog.client import Admin, AsyncAdmin, Consumer, KerberosSettings, Producer, TopicPartition
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client import BlockingClient, ClientSettings
from tidelog.plugins.client.errors import AuthenticationRefused, SaslRefused
from tidelog.plugins.client.kerberos import KerberosTickets, NoTicket
from tidelog.plugins.client.kerberos_keys import kerberos_of_keys
from tidelog.plugins.client.security import SecuritySettings
from tidelog.plugins.client.security_keys import security_of_keys
from tidelog.plugins.client_commands.command_config import read_command_config

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
ALICE = f"alice@{REALM}"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Realm]:
    """A KDC that knows alice and the brokers."""
    pytest.importorskip("gssapi", reason='GSSAPI needs: pip install "tidelog[kerberos]"')
    with kerberos_realm(tmp_path_factory.mktemp("kdc"), {"alice": "wonderland"}) as running:
        yield running


@attrs.frozen
class KerberosBroker:
    """A broker that takes tickets."""

    name: str
    bootstrap: str


@pytest.fixture(scope="module", params=["tidelog", pytest.param("kafka", marks=pytest.mark.long)])
def broker(
    request: pytest.FixtureRequest, realm: Realm, tmp_path_factory: pytest.TempPathFactory
) -> Generator[KerberosBroker]:
    """Each broker, with sessions of three seconds."""
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.users.gssapi.sasl.jaas.config": (
            f'{MODULE} required useKeyTab=true storeKey=true keyTab="{realm.broker_keys}" '
            f'principal="{SERVICE}";'
        ),
        "connections.max.reauth.ms": "3000",
        "listener.security.protocol.map": "USERS:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    if request.param == "tidelog":
        with broker_in_thread({**settings, "listeners": "USERS://localhost:0"}) as running:
            yield KerberosBroker("tidelog", f"localhost:{running.bootstrap.rpartition(':')[2]}")
        return
    plain, users, controller = free_ports(3)
    addresses = f"PLAINTEXT://{LOOPBACK}:{plain},USERS://localhost:{users}"
    settings |= {
        "listeners": f"{addresses},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={realm.configuration}")
        with running_kafka(tmp_path_factory.mktemp("kafka"), settings=settings, port=plain):
            patch.undo()
            yield KerberosBroker("kafka", f"localhost:{users}")


def alice(realm: Realm, **more: Any) -> KerberosSettings:
    """Alice's tickets by her key table."""
    given: dict[str, Any] = {"service_name": "kafka", "principal": ALICE, "key_table": str(realm.alice_keys)}
    return KerberosSettings(**{**given, **more})


def options(settings: KerberosSettings) -> dict[str, Any]:
    """Options of a client that shows such tickets."""
    return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", "sasl_kerberos": settings}


def keys(line: str, **more: str) -> dict[str, str]:
    """Kafka's keys with a line of JAAS; GSSAPI is the default of its clients."""
    service = {"sasl.kerberos.service.name": "kafka"}
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.jaas.config": f"{MODULE} required {line};",
        **service,
        **more,
    }


def test_clients_of_every_driver_log_in(broker: KerberosBroker, realm: Realm) -> None:
    secured = options(alice(realm))
    with Producer(broker.bootstrap, **secured) as producer:
        producer.send_and_wait("of-kerberos", b"x")
    with Consumer(broker.bootstrap, auto_offset_reset="earliest", **secured) as consumer:
        consumer.assign([TopicPartition("of-kerberos", 0)])
        assert next(iter(consumer)).value == b"x"

    async def with_admin() -> None:
        async with AsyncAdmin(broker.bootstrap, **secured) as admin:
            assert "of-kerberos" in await admin.list_topics()

    trio.run(with_admin)
    asyncio.run(with_admin())


def test_the_keys_of_kafkas_clients_log_in(broker: KerberosBroker, realm: Realm, tmp_path: Path) -> None:
    cache = tmp_path / "tickets"
    command = ["kinit", "-c", f"FILE:{cache}", "-k", "-t", str(realm.alice_keys), ALICE]
    subprocess.run(command, check=True, timeout=60)
    by_table = f'useKeyTab=true storeKey=true keyTab="{realm.alice_keys}" principal="{ALICE}"'
    for line in (by_table, f'useTicketCache=true ticketCache="{cache}"'):
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in keys(line).items()))
        settings = ClientSettings(security=read_command_config(file).security)
        with BlockingClient(broker.bootstrap, settings=settings) as client:
            assert client.metadata().brokers


def test_a_login_is_renewed_before_it_ends(broker: KerberosBroker, realm: Realm) -> None:
    clock = [0.0]
    settings = ClientSettings(security=SecuritySettings(**options(alice(realm))))
    with BlockingClient(broker.bootstrap, settings=settings) as client:
        client.metadata()
        engine = vars(client)["_engine"]
        started = engine.clock()
        engine.clock = lambda: started + clock[0]
        (before,) = [each for each in vars(engine)["_channels"][""].values() if each.is_open]
        clock[0] = 2.9
        client.metadata()
        assert before.is_released


@for_each(
    ("changes", "reason"),
    [
        ({"principal": f"carol@{REALM}"}, f"no ticket of carol@{REALM} by .*alice.keytab: "),
        ({"key_table": "/no/such"}, "/no/such cannot be read: No such file"),
        ({"service_name": "other"}, "no ticket for other/localhost: .*not found in Kerberos database"),
        (
            {"key_table": None, "principal": None, "ticket_cache": "/no"},
            "no ticket in the ticket cache: ",
        ),
    ],
)
def test_who_has_no_ticket_fails_at_once_with_the_reason(
    realm: Realm, changes: dict[str, Any], reason: str
) -> None:
    with (
        Admin("localhost:1", **options(alice(realm, **changes))) as admin,
        pytest.raises(AuthenticationRefused, match=reason) as refused,
    ):
        admin.list_topics()
    assert "Minor" not in str(refused.value)


def test_a_kdc_that_does_not_answer_costs_a_bounded_time_and_one_thread(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = KerberosTickets(alice(realm, timeout_s=0.05))
    with socket.create_server((LOOPBACK, 0)) as silent:
        configuration = tmp_path / "krb5.conf"
        (port,) = [
            each for each in realm.configuration.read_text().split() if each.startswith(f"{LOOPBACK}:")
        ]
        configuration.write_text(
            realm.configuration.read_text().replace(port, f"{LOOPBACK}:{silent.getsockname()[1]}")
        )
        monkeypatch.setenv("KRB5_CONFIG", str(configuration))
        for _ in range(3):
            with pytest.raises(NoTicket, match=r"no ticket within 0\.05 s") as raised:
                tickets.tokens_for("localhost")
            assert raised.value.may_pass
        asking = [each for each in threading.enumerate() if each.name == "tidelog-kerberos"]
        assert len(asking) == 1
        connection, _ = silent.accept()
        connection.close()
    asking[0].join()


def test_a_kdc_that_is_not_there_may_be_there_later(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "krb5.conf"
    configuration.write_text(f"[libdefaults]\n[realms]\n{REALM} = {{\nkdc = {LOOPBACK}:1\n}}\n")
    monkeypatch.setenv("KRB5_CONFIG", str(configuration))
    with pytest.raises(NoTicket, match="Cannot contact any KDC") as raised:
        KerberosTickets(alice(realm)).tokens_for("localhost")
    assert raised.value.may_pass


def test_a_ticket_is_requested_again_before_it_expires_and_used_until_then(
    realm: Realm, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    tickets = KerberosTickets(alice(realm, renew_jitter=0.0), lambda: clock[0])

    def credentials() -> object:
        tickets.tokens_for("localhost")
        return vars(tickets)["_credentials"]

    first = credentials()
    lifetime_s = vars(tickets)["_expires_at"]
    clock[0] = 0.79 * lifetime_s
    assert credentials() is first
    clock[0] = 0.81 * lifetime_s
    second = credentials()
    assert second is not first
    # The key table is gone for a while.
    aside = realm.alice_keys.rename(f"{realm.alice_keys}.aside")
    clock[0] += 0.9 * lifetime_s
    try:
        assert credentials() is second
        clock[0] += lifetime_s
        with pytest.raises(NoTicket, match="cannot be read"):
            credentials()
    finally:
        aside.rename(realm.alice_keys)


@for_each(
    ("offer", "reason"),
    [
        (b"\1\0\0\0", None),
        (b"\7\0\xff\xff", None),
        (b"\6\0\xff\xff", "wants a layer"),
        (b"\1\0\0", "wants a layer"),
        (None, "Kerberos refuses the broker's answer"),
    ],
)
def test_a_broker_has_to_prove_itself_and_to_do_without_a_layer(
    realm: Realm, offer: bytes | None, reason: str | None
) -> None:
    gss: Any = importlib.import_module("gssapi")
    security = gss.SecurityContext(
        creds=gss.Credentials(usage="accept", store={"keytab": str(realm.broker_keys)}), usage="accept"
    )
    tokens = KerberosTickets(alice(realm)).tokens_for("localhost")
    proof = security.step(next(tokens))
    if reason is None:
        assert tokens.send(proof) == b""
        assert security.unwrap(tokens.send(security.wrap(offer, False).message)).message == b"\1\0\0\0"
        with pytest.raises(StopIteration):
            tokens.send(b"")
        return
    if offer is not None:
        tokens.send(proof)
    with pytest.raises(SaslRefused, match=reason):
        tokens.send(proof[:-1] if offer is None else security.wrap(offer, False).message)


BY_TABLE = 'useKeyTab=true keyTab="/x" principal="a@R"'


def test_what_the_keys_mean() -> None:
    more = {
        "sasl.kerberos.ticket.renew.window.factor": "0.5",
        "sasl.kerberos.ticket.renew.jitter": "0.1",
        "sasl.kerberos.min.time.before.relogin": "2000",
    }
    by_table = kerberos_of_keys(keys(f"{BY_TABLE} doNotPrompt=true renewTGT=false", **more))
    assert by_table == KerberosSettings(
        service_name="kafka",
        principal="a@R",
        key_table="/x",
        renew_window_factor=0.5,
        renew_jitter=0.1,
        min_time_before_relogin_s=2.0,
    )
    line = f"{MODULE} required useTicketCache=true ticketCache=FILE:/tmp/t serviceName=k;"
    by_cache = kerberos_of_keys({"sasl.jaas.config": line})
    assert by_cache == KerberosSettings(service_name="k", ticket_cache="/tmp/t")
    assert kerberos_of_keys({"sasl.kerberos.service.name": "k"}) == KerberosSettings(service_name="k")


@for_each(
    ("values", "reason"),
    [
        ({}, "sasl.kerberos.service.name: GSSAPI, which sasl.mechanism is unless it is set, needs"),
        (keys("useKeyTab=true"), "useKeyTab needs keyTab"),
        (keys("principal=a"), "sasl.jaas.config needs useKeyTab=true keyTab="),
        (keys("useKeyTab=true keyTab=/x"), "key_table needs principal"),
        (keys(f"{BY_TABLE} useTicketCache=true ticketCache=/y"), "ticket_cache has no effect with key_table"),
        (keys("useTicketCache=true renewTGT=true"), "renewTGT is not possible here"),
        (
            keys("useTicketCache=true tryFirstPass=true"),
            "has an option tryFirstPass that this",
        ),
        (keys(f"{BY_TABLE} serviceName=k"), "is kafka, and serviceName of sasl.jaas.config is k"),
        ({"sasl.jaas.config": "PlainLoginModule required;"}, "GSSAPI, .* needs Krb5LoginModule"),
        (keys(BY_TABLE, **{"sasl.kerberos.ticket.renew.jitter": "x"}), "renew.jitter: 'x' is no number"),
        (keys(BY_TABLE, **{"sasl.kerberos.ticket.renew.jitter": "2"}), "renew_jitter"),
    ],
)
def test_keys_that_give_no_ticket_are_refused(values: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        kerberos_of_keys(values)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    settings = KerberosSettings(service_name="without-the-library")
    with pytest.raises(ValueError, match=r'pip install "tidelog\[kerberos\]"'):
        SecuritySettings(**options(settings))
    with pytest.raises(ValueError, match=r'pip install "tidelog\[kerberos\]"'):
        security_of_keys(keys(BY_TABLE))


@for_each(
    ("given", "reason"),
    [
        ({"sasl_mechanism": "GSSAPI"}, "GSSAPI needs sasl_kerberos"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_kerberos has no effect with PLAIN"),
        ({"sasl_mechanism": "GSSAPI", "sasl_plain_username": "a"}, "sasl_plain_username has no effect"),
        ({"sasl_mechanism": "GSSAPI", "sasl_jaas_config": "a"}, "sasl_jaas_config has no effect"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, Any], reason: str) -> None:
    settings = None if "needs" in reason else KerberosSettings(service_name="kafka")
    with pytest.raises(ValueError, match=reason):
        SecuritySettings(security_protocol="SASL_PLAINTEXT", sasl_kerberos=settings, **given)
