"""Stores and settings of listeners: forms, what is refused, changes in a running broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.tls_certificates import authority, broker_entry, ca_file, jks, p12, tls_settings, written
from tidelog.kernel.config import Config
from tidelog.kernel.config.key import declared_keys
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.testing.broker import broker_in_thread, running_broker
from tidelog.plugins.client import BlockingClient, ClientSettings
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.operations.configs import ConfigChange, ConfigResource
from tidelog.plugins.client.security import SecuritySettings
from tidelog.plugins.keystores.stores import certificates_pem
from tidelog.plugins.tls import keys
from tidelog.plugins.tls.settings import TlsMaterial, TlsSettings

SECRET = BestAvailableEncryption(b"secret")
ENTRY = broker_entry()


def p12_file(folder: Path) -> str:
    """A store of the type PKCS12."""
    return written(folder / "broker.p12", p12(ENTRY, "secret"))


def encrypted_pem() -> bytes:
    """The key with a password."""
    key = load_pem_private_key(ENTRY.key, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, SECRET)


def inline(pem: bytes) -> str:
    r"""PEM text in one line, as a properties file has it."""
    return pem.decode().replace("\n", "\\n")


def trust(folder: Path) -> dict[str, str]:
    """A trust store."""
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca_file(folder)}


Settings = Callable[[Path], Mapping[str, str]]
FORMS: list[tuple[str, Settings]] = [
    ("PEM", lambda folder: tls_settings(folder, ENTRY)),
    (
        "PKCS12",
        lambda folder: {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": p12_file(folder),
            "ssl.keystore.password": "secret",
        },
    ),
    (
        "PKCS12 that is said to be JKS",
        lambda folder: {"ssl.keystore.location": p12_file(folder), "ssl.keystore.password": "secret"},
    ),
    (
        "JKS",
        lambda folder: {
            "ssl.keystore.location": written(folder / "broker.jks", jks(ENTRY, "secret")),
            "ssl.keystore.password": "secret",
        },
    ),
    (
        "encrypted PEM",
        lambda folder: {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": written(
                folder / "b.pem", encrypted_pem() + certificates_pem(ENTRY.chain)
            ),
            "ssl.key.password": "secret",
        },
    ),
    (
        "inline",
        lambda folder: {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": inline(encrypted_pem()),
            "ssl.key.password": "secret",
            "ssl.keystore.certificate.chain": inline(certificates_pem(ENTRY.chain)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": inline(certificates_pem(authority("tests").entry.chain)),
            "ssl.client.auth": "requested",
        },
    ),
    (
        "of one listener",
        lambda folder: {
            f"listener.name.ssl.{name}": value
            for name, value in tls_settings(folder, ENTRY).items()
            if "." in name
        },
    ),
]


def material(settings: Mapping[str, str]) -> TlsMaterial:
    """What a listener has with these settings."""
    config = Config.from_mapping(
        {"storage": "memory", "listeners": "SSL://:0", **settings}, declared_keys(keys)
    )
    return TlsMaterial.load(TlsSettings.of_listener(config, "SSL"))


@pytest.mark.parametrize("make", [form[1] for form in FORMS], ids=[form[0] for form in FORMS])
def test_each_form_of_a_store_is_read(tmp_path: Path, make: Settings) -> None:
    assert material(make(tmp_path)).certificate == ENTRY.certificate


REFUSED: list[tuple[str, Settings]] = [
    ("ssl.keystore.location: is not set", lambda folder: {}),
    (
        "keytool -importkeystore -srckeystore .*b.jks -srcstoretype JCEKS",
        lambda folder: {"ssl.keystore.location": written(folder / "b.jks", b"\xce\xce\xce\xce" + bytes(9))},
    ),
    (
        "set the type PEM",
        lambda folder: {"ssl.keystore.location": written(folder / "b.pem", ENTRY.pem())},
    ),
    (
        "opens with this password",
        lambda folder: {"ssl.keystore.location": p12_file(folder), "ssl.keystore.password": "wrong"},
    ),
    (
        "cannot be read with this password",
        lambda folder: {**FORMS[4][1](folder), "ssl.key.password": "wrong"},
    ),
    (
        "no password for it is set",
        lambda folder: {k: v for k, v in FORMS[4][1](folder).items() if k != "ssl.key.password"},
    ),
    ("need each other", lambda folder: {"ssl.keystore.type": "PEM", "ssl.keystore.key": "x"}),
    (
        "one has to go",
        lambda folder: {**FORMS[5][1](folder), "ssl.keystore.location": "/x"},
    ),
    ("has no password", lambda folder: {**tls_settings(folder, ENTRY), "ssl.keystore.password": "x"}),
    (
        "ssl.client.auth=required needs it",
        lambda folder: {**FORMS[1][1](folder), "ssl.client.auth": "required"},
    ),
    (
        "'TLS_NO_SUCH', which is no cipher suite",
        lambda folder: {**tls_settings(folder, ENTRY), "ssl.cipher.suites": "TLS_NO_SUCH"},
    ),
    (
        "no suite of the versions",
        lambda folder: {
            **tls_settings(folder, ENTRY),
            "ssl.enabled.protocols": "TLSv1.3",
            "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        },
    ),
    (
        "neither DEFAULT nor of the form",
        lambda folder: {**tls_settings(folder, ENTRY), "ssl.principal.mapping.rules": "RULE:x"},
    ),
]


@pytest.mark.parametrize(("reason", "make"), REFUSED, ids=[case[0][:30] for case in REFUSED])
def test_what_cannot_be_used_is_refused_by_its_key(tmp_path: Path, reason: str, make: Settings) -> None:
    with pytest.raises(ConfigError, match=reason) as raised:
        material(make(tmp_path))
    assert "listener SSL: " in str(raised.value)
    assert "wrong" not in str(raised.value)


async def test_a_broker_without_a_key_does_not_start() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with running_broker({"listeners": "SSL://127.0.0.1:0"}):
            pass
    assert "ssl.keystore.location" in str(only(raised.value))


def only(error: BaseException) -> BaseException:
    """The one error in a group."""
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    return error


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: broker_entry().pem(), ""),
        (lambda: broker_entry(name="other").pem(), "distinguished name CN=other"),
        (lambda: broker_entry(hosts=("localhost",)).pem(), "lacks alternative names"),
        (lambda: b"rubbish", "has no private key"),
    ],
    ids=["matching", "another name", "fewer alternatives", "rubbish"],
)
def test_a_listener_gets_another_key_store_while_the_broker_runs(
    tmp_path: Path, make: Callable[[], bytes], reason: str
) -> None:
    other = written(tmp_path / "other.pem", make())
    security = SecuritySettings(security_protocol="SSL", ssl_cafile=ca_file(tmp_path))
    settings = {**tls_settings(tmp_path, ENTRY), "node.id": "1"}
    change = ConfigChange("listener.name.ssl.ssl.keystore.location", other)
    with (
        broker_in_thread(settings) as broker,
        BlockingClient(broker.bootstrap, settings=ClientSettings(security=security)) as client,
    ):
        if reason:
            with pytest.raises(ClientError, match=reason):
                alter(client, change)
        else:
            alter(client, change)
        listener = vars(broker.broker.server)["_transports"]["SSL"]
        changed = listener._material.certificate != ENTRY.certificate
        assert changed == (not reason)


def alter(client: BlockingClient, change: ConfigChange) -> None:
    """Change a key of the broker."""
    (outcome,) = client.alter_configs({ConfigResource("broker", "1"): [change]}).values()
    if outcome is not None:
        raise outcome
