"""The ways into a secured broker: each protocol with each mechanism, and what a client needs for it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from tests.plugins.sasl.identity_provider import AUDIENCE, ISSUER, Provider
from tests.secured_brokers import PASSWORD, USER, jaas
from tests.tls_certificates import authority, broker_entry, ca_file, client_entry, written
from tidelog.client import Admin, NewScramPassword, ScramUser
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client.operations.scram_users import MECHANISMS as SCRAM

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

COUNT: Final = 10
VALUES: Final = [f"value {number}" for number in range(COUNT)]
STORE_PASSWORD: Final = "of the store"
PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", *SCRAM, "OAUTHBEARER")
_LISTENERS: Final[tuple[str, ...]] = ("SSL", *PROTOCOLS)
# Whoever is not one of these may do nothing: who writes and reads has been recognized.
_SUPER_USERS: Final = f"User:{USER};User:CN={USER},O=Tide"


@attrs.frozen
class Access:
    """One way in: `mechanism` is "" where a certificate says who comes, `secret` is a password or a token."""

    bootstrap: str
    protocol: str
    mechanism: str
    secret: str = attrs.field(repr=False)
    folder: Path

    @property
    def name(self) -> str:
        """What no other one is called."""
        return f"{self.protocol}-{self.mechanism}".rstrip("-")

    @property
    def has_tls(self) -> bool:
        """Whether the bytes are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def authority(self) -> str:
        """The file with the authority that has signed the broker's certificate."""
        return str(self.folder / "ca-tests.pem")

    @property
    def certificate(self) -> str:
        """The file with the client's key and certificate."""
        return str(self.folder / "client.pem")

    def librdkafka(self) -> dict[str, str]:
        """The keys of librdkafka, without a token: those are handed over by a function."""
        keys = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.mechanism:
            keys["sasl.mechanism"] = self.mechanism
        if self.mechanism not in ("", "OAUTHBEARER"):
            keys |= {"sasl.username": USER, "sasl.password": self.secret}
        if self.has_tls:
            keys["ssl.ca.location"] = self.authority
        if self.protocol == "SSL":
            keys |= {"ssl.certificate.location": self.certificate, "ssl.key.location": self.certificate}
        return keys

    def java(self) -> str:
        """The text of a properties file for Java; stores are PKCS12, as clients before 2.7 read no PEM."""
        keys = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.mechanism:
            keys |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas()}
        if self.mechanism == "OAUTHBEARER":
            keys["sasl.login.callback.handler.class"] = "TokenOfJaas"
        stores = {"truststore": self.has_tls, "keystore": self.protocol == "SSL"}
        for store in (store for store, has in stores.items() if has):
            keys |= {
                f"ssl.{store}.type": "PKCS12",
                f"ssl.{store}.location": str(self.folder / f"{store}.p12"),
                f"ssl.{store}.password": STORE_PASSWORD,
            }
        return "\n".join(f"{name}={value.replace(chr(92), chr(92) * 2)}" for name, value in keys.items())

    def _jaas(self) -> str:
        if self.mechanism == "OAUTHBEARER":
            module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
            return f'{module} required token="{self.secret}";'
        module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        return jaas(USER, self.secret, module)

    def line(self, topic: str) -> str:
        """A line for programs: what they need, separated by tabs."""
        user = USER if self.mechanism else ""
        certificate = self.certificate if self.protocol == "SSL" else ""
        trusted = self.authority if self.has_tls else ""
        words = (topic, self.bootstrap, self.mechanism, user, self.secret, trusted, certificate)
        return "\t".join(words)


@contextmanager
def secured_broker(folder: Path) -> Generator[list[Access]]:
    """Run a broker with a listener for each protocol, an authorizer and one user; every way in."""
    provider = Provider(algorithm="ES256")
    with broker_in_thread(_settings(folder, provider)) as running:
        of_listener: dict[str, str] = dict(zip(_LISTENERS, running.bootstrap.split(","), strict=True))
        _add_scram_user(of_listener["SASL_PLAINTEXT"])
        yield list(_accesses(of_listener, provider.token(USER), folder))


def _accesses(of_listener: dict[str, str], token: str, folder: Path) -> Iterator[Access]:
    yield Access(of_listener["SSL"], "SSL", "", "", folder)
    for protocol in PROTOCOLS:
        for mechanism in MECHANISMS:
            secret = token if mechanism == "OAUTHBEARER" else PASSWORD
            yield Access(of_listener[protocol], protocol, mechanism, secret, folder)


def _settings(folder: Path, provider: Provider) -> dict[str, str]:
    _write_stores(folder)
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in _LISTENERS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": written(folder / "broker.pem", broker_entry().pem()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca_file(folder),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": provider.write(folder / "keys.json"),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        **{f"listener.name.{each.lower()}.plain.sasl.jaas.config": _plain_users() for each in PROTOCOLS},
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": _SUPER_USERS,
        "group.initial.rebalance.delay.ms": "0",
    }


def _plain_users() -> str:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    return f'{module} required user_{USER}="{escaped}";'


def _write_stores(folder: Path) -> None:
    entry = client_entry(USER)
    written(folder / "client.pem", entry.pem())
    encryption = BestAvailableEncryption(STORE_PASSWORD.encode())
    key = load_pem_private_key(entry.key, None)
    own = pkcs12.serialize_key_and_certificates(b"k", key, entry.certificate, entry.chain[1:], encryption)  # type: ignore[arg-type]
    written(folder / "keystore.p12", own)
    trusted = [pkcs12.PKCS12Certificate(each, b"authority") for each in authority("tests").entry.chain]
    written(folder / "truststore.p12", pkcs12.serialize_java_truststore(trusted, encryption))


def _add_scram_user(bootstrap: str) -> None:
    with Admin(
        bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
    ) as admin:
        new = NewScramPassword(PASSWORD)
        admin.alter_user_scram_credentials({ScramUser(USER, each): new for each in SCRAM})
