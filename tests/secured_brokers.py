"""Brokers with TLS and SCRAM, and what gets their clients in: tidelog and Apache Kafka."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.peers.kafka_server import running_kafka
from tests.peers.ports import LOOPBACK, free_ports
from tests.tls_certificates import broker_entry, ca_file, written
from tidelog.client import Admin, NewScramPassword, ScramUser
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client.operations.scram_users import MECHANISMS

USER = "alice"
PASSWORD = 'a "correct" horse, with\\commas='
"""What messages of SCRAM and lines of JAAS have to escape."""


def jaas(user: str = USER, password: str = PASSWORD, module: str = "scram.ScramLoginModule") -> str:
    """Kafka's line of JAAS."""
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    name = f"org.apache.kafka.common.security.{module}"
    return f'{name} required username="{user}" password="{escaped}";'


@attrs.frozen
class SecuredBroker:
    """A broker: without and with SASL over TLS, and where its files are."""

    plain: str
    bootstrap: str
    folder: Path

    def keys(self, **more: str) -> dict[str, str]:
        """Kafka's client keys that get a client in; underscores stand for dots."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": jaas(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": ca_file(self.folder),
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def properties(self, **more: str) -> str:
        """The path of a properties file with these keys."""
        lines = [f"{name}={value.replace(chr(92), chr(92) * 2)}" for name, value in self.keys(**more).items()]
        return written(self.folder / "client.properties", "\n".join(lines).encode())

    def add_user(self) -> None:
        """Add the user, for both mechanisms."""
        with Admin(self.plain) as admin:
            new = NewScramPassword(PASSWORD)
            admin.alter_user_scram_credentials({ScramUser(USER, each): new for each in MECHANISMS})


def _settings(folder: Path, plain: str, secured: str) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://{plain},SASL_SSL://{secured}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="p";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": written(folder / "broker.pem", broker_entry().pem()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca_file(folder),
    }


@contextmanager
def secured_tidelog(folder: Path, **more: str) -> Generator[SecuredBroker]:
    """Run tidelog, with further settings; underscores stand for dots."""
    settings = _settings(folder, f"{LOOPBACK}:0", f"{LOOPBACK}:0")
    settings |= {name.replace("_", "."): value for name, value in more.items()}
    with broker_in_thread(settings) as running:
        plain, secured = running.bootstrap.split(",")
        broker = SecuredBroker(plain, secured, folder)
        broker.add_user()
        yield broker


@contextmanager
def secured_kafka(folder: Path, **more: str) -> Generator[SecuredBroker]:
    """Run Apache Kafka with the same."""
    plain, secured, controller = (f"{LOOPBACK}:{port}" for port in free_ports(3))
    settings = _settings(folder, plain, secured)
    settings["listeners"] += f",CONTROLLER://{controller}"
    settings["advertised.listeners"] = f"PLAINTEXT://{plain},SASL_SSL://{secured}"
    settings["controller.quorum.voters"] = f"1@{controller}"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    settings |= {f"listener.name.sasl_ssl.{each.lower()}.sasl.jaas.config": scram for each in MECHANISMS}
    settings |= {name.replace("_", "."): value for name, value in more.items()}
    with running_kafka(folder / "kafka", settings=settings, port=int(plain.rpartition(":")[2])):
        broker = SecuredBroker(plain, secured, folder)
        broker.add_user()
        yield broker
