"""Clients that do not fit the listener they connect to, and what they get to see."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.clients.java_programs import run_java
from tests.clients.kcat import kcat_command
from tests.deadlines import DEADLINE_S
from tests.peers import LOOPBACK, free_ports, running_kafka, running_tidelog
from tests.secured_brokers import USER, jaas
from tests.tls_certificates import broker_entry, ca_file, client_entry, p12, written
from tidelog.client import Admin

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from tests.peers import TidelogServer

PASSWORD: Final = "right"
EXPIRED: Final = timedelta(seconds=-5)
TIMEOUT_S: Final = 6.0
LIBRDKAFKA_WAIT_S: Final = 30.0
LISTENERS: Final[Mapping[str, str]] = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "ELSEWHERE": "SSL",
    "EXPIRED": "SSL",
}
"""The protocol of each listener; the last two have certificates of another host, and of the past."""


def _settings(folder: Path) -> dict[str, str]:
    stores = {
        "ELSEWHERE": broker_entry(hosts=("elsewhere.example",)),
        "EXPIRED": broker_entry(valid=EXPIRED),
    }
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": written(folder / "broker.pem", broker_entry().pem()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca_file(folder),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "connection.failed.authentication.delay.ms": "10",
    }
    for name, entry in stores.items():
        location = written(folder / f"{name}.pem", entry.pem())
        settings[f"listener.name.{name.lower()}.ssl.keystore.location"] = location
    for name in ("sasl_plaintext", "sasl_ssl"):
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = f'{plain} user_{USER}="{PASSWORD}";'
        settings[f"listener.name.{name}.scram-sha-256.sasl.jaas.config"] = scram
    return settings


@contextmanager
def refusing_tidelog(folder: Path) -> Generator[tuple[TidelogServer, dict[str, str]]]:
    """Run tidelog with all listeners, in a process; their addresses."""
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items())
    listeners = ",".join(f"{name}://{LOOPBACK}:0" for name in LISTENERS)
    settings = {"listeners": listeners, "listener.security.protocol.map": protocols, **_settings(folder)}
    settings = {name: value for name, value in settings.items() if "scram-sha" not in name}
    with running_tidelog(folder / "tidelog", settings=settings) as server:
        ready = json.loads(server.ready_file.read_text())
        yield server, {name: address.rpartition("//")[2] for name, address in ready["listeners"].items()}


@contextmanager
def refusing_kafka(folder: Path) -> Generator[dict[str, str]]:
    """Run Apache Kafka with the same."""
    *ports, controller = free_ports(len(LISTENERS) + 1)
    addresses = {name: f"{LOOPBACK}:{port}" for name, port in zip(LISTENERS, ports, strict=True)}
    listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items())
    settings = {
        "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        **_settings(folder),
    }
    with running_kafka(folder / "kafka", settings=settings, port=ports[0]):
        yield addresses


@attrs.frozen
class Misfit:
    """A client that does not fit: how it connects to which listener.

    `certificate` is how long that of the client is valid. `at_the_broker` is a pattern of what the broker
    logs, `at_the_client` of what each client gets to see, by its name.
    """

    name: str
    listener: str
    protocol: str
    at_the_broker: str
    at_the_client: Mapping[str, str]
    mechanism: str = "PLAIN"
    user: str = USER
    password: str = "wrong"
    certificate: timedelta | None = None
    tls_1_1: bool = False

    @property
    def has_sasl(self) -> bool:
        """Whether the client logs in."""
        return self.protocol.startswith("SASL")


Errors: TypeAlias = dict[str, str]
Attempts: TypeAlias = Callable[[Mapping[str, str], "Path", Sequence[Misfit]], Errors]


def _certificate(folder: Path, misfit: Misfit) -> str | None:
    if misfit.certificate is None:
        return None
    return written(folder / f"{misfit.name}.pem", client_entry(USER, misfit.certificate).pem())


def _context(folder: Path, misfit: Misfit) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca-tests.pem"))
    certificate = _certificate(folder, misfit)
    if certificate:
        context.load_cert_chain(certificate)
    if misfit.tls_1_1:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    return context


def _at_once(one: Callable[[str, Path, Misfit], str]) -> Attempts:
    """Let all try in threads of their own."""

    def attempts(addresses: Mapping[str, str], folder: Path, misfits: Sequence[Misfit]) -> Errors:
        with ThreadPoolExecutor(len(misfits)) as pool:
            errors = pool.map(lambda each: one(addresses[each.listener], folder, each), misfits)
            return dict(zip([each.name for each in misfits], errors, strict=True))

    return attempts


def _librdkafka_keys(bootstrap: str, folder: Path, misfit: Misfit) -> dict[str, str]:
    keys = {
        "bootstrap.servers": bootstrap,
        "security.protocol": misfit.protocol,
        "ssl.ca.location": str(folder / "ca-tests.pem"),
    }
    if misfit.has_sasl:
        login = {"sasl.username": misfit.user, "sasl.password": misfit.password}
        keys |= {"sasl.mechanism": misfit.mechanism, **login}
    certificate = _certificate(folder, misfit)
    if certificate:
        keys |= {"ssl.certificate.location": certificate, "ssl.key.location": certificate}
    return keys


def _kcat(bootstrap: str, folder: Path, misfit: Misfit) -> str:
    lines = "".join(f"{key}={value}\n" for key, value in _librdkafka_keys(bootstrap, folder, misfit).items())
    settings = written(folder / f"kcat-{misfit.name}.config", lines.encode())
    command = [*kcat_command(bootstrap), "-F", settings, "-L", "-m", "2"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    return ended.stderr if ended.returncode else "it got in"


def _librdkafka(bootstrap: str, folder: Path, misfit: Misfit) -> str:
    errors: list[str] = []
    settings: dict[str, Any] = {
        **_librdkafka_keys(bootstrap, folder, misfit),
        "error_cb": lambda error: errors.append(str(error)),
        "log_level": 0,
    }
    client, deadline = AdminClient(settings), time.monotonic() + LIBRDKAFKA_WAIT_S
    # It tries again for ever, and reports each failure to the function.
    while time.monotonic() < deadline and not re.search(misfit.at_the_client["librdkafka"], " ".join(errors)):
        with suppress(KafkaException):
            client.list_topics(timeout=0.2)
            return "it got in"
        client.poll(0)
    return " | ".join(errors)


def _options(bootstrap: str, folder: Path, misfit: Misfit) -> dict[str, Any]:
    """Options that aiokafka and the client library have in common."""
    options: dict[str, Any] = {"bootstrap_servers": bootstrap, "security_protocol": misfit.protocol}
    if misfit.protocol.endswith("SSL"):
        options["ssl_context"] = _context(folder, misfit)
    if misfit.has_sasl:
        login = {"sasl_plain_username": misfit.user, "sasl_plain_password": misfit.password}
        options |= {"sasl_mechanism": misfit.mechanism, **login}
    return options


def _own(bootstrap: str, folder: Path, misfit: Misfit) -> str:
    timeout_ms = int(TIMEOUT_S * 1000)
    try:
        with Admin(
            default_api_timeout_ms=timeout_ms, retries=0, **_options(bootstrap, folder, misfit)
        ) as admin:
            admin.list_topics()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "it got in"


class _Collected(logging.Handler):
    """What a logger has said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def logged(name: str) -> Generator[list[str]]:
    """The lines that a logger has from now on."""
    handler, logger = _Collected(), logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)


def _aiokafka(bootstrap: str, folder: Path, misfit: Misfit) -> str:
    async def attempt() -> None:
        producer = AIOKafkaProducer(
            request_timeout_ms=int(TIMEOUT_S * 1000), **_options(bootstrap, folder, misfit)
        )
        try:
            await producer.start()
        finally:
            await producer.stop()

    # Its exception has no reason, which it logs.
    with logged("aiokafka") as lines:
        try:
            asyncio.run(attempt())
        except Exception as error:
            return " | ".join([str(error), *lines])
    return "it got in"


def _java_keys(bootstrap: str, folder: Path, misfit: Misfit) -> dict[str, str]:
    keys = {
        "bootstrap.servers": bootstrap,
        "security.protocol": misfit.protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca-tests.pem"),
        "max.block.ms": str(int(TIMEOUT_S * 1000)),
    }
    if misfit.has_sasl:
        module = "plain.PlainLoginModule" if misfit.mechanism == "PLAIN" else "scram.ScramLoginModule"
        login = jaas(misfit.user, misfit.password, module)
        keys |= {"sasl.mechanism": misfit.mechanism, "sasl.jaas.config": login}
    if misfit.certificate is not None:
        # Its reader of PEM does not take these keys.
        store = p12(client_entry(USER, misfit.certificate), PASSWORD)
        location = written(folder / f"{misfit.name}.p12", store)
        keys |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": location}
        keys |= {"ssl.keystore.password": PASSWORD, "ssl.key.password": PASSWORD}
    return keys


def _java_2_8(addresses: Mapping[str, str], folder: Path, misfits: Sequence[Misfit]) -> Errors:
    """One process tries all."""
    arguments: list[str] = []
    for each in misfits:
        lines = "".join(
            f"{key}={value}\n" for key, value in _java_keys(addresses[each.listener], folder, each).items()
        )
        arguments += [each.name, written(folder / f"java-{each.name}.properties", lines.encode())]
    printed = run_java("SecuredGroup", "2.8.2", arguments)
    words = (line.split("\t", 2) for line in printed.splitlines())
    return {name: text if kind == "error" else "it got in" for name, kind, text in words}


def _in_turn(one: Callable[[str, Path, Misfit], str]) -> Attempts:
    return lambda addresses, folder, misfits: {
        each.name: one(addresses[each.listener], folder, each) for each in misfits
    }


CLIENTS: Final[Mapping[str, Attempts]] = {
    "librdkafka": _at_once(_librdkafka),
    "aiokafka": _in_turn(_aiokafka),
    "kcat": _at_once(_kcat),
    "kafka-clients 2.8": _java_2_8,
    "tidelog": _at_once(_own),
}
RARE: Final = ("kcat", "kafka-clients 2.8")
"""Clients that are tried in the long run only: they are processes."""
