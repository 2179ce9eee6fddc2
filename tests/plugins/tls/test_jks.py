"""Stores in Java's own format, as Java 17's keytool wrote them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.tables import for_each
from tests.tls_certificates import client_entry, jks, written
from tidelog.plugins.keystores.jks import JksError, parse_jks
from tidelog.plugins.keystores.stores import StoreError, StoreText, read_key_entry, read_trusted

# The password of the store is secret, that of the key other1.
KEYS = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAQAFYWxpY2UAAAGiJ3ebagAAAH8wfTAOBgorBgEEASoCEQEBBQAEa2kS+/b4KUm+7EWf/pJiOHf6tcE7"
    "LwA39p1zJIu+vJ/J3sZ9LneuYavZsCfr2J5FKbdAlV+QRM4MU8+yPOtBHPb++E7qzU1MdDvBsVGVJfGHc0z7pK7MYeTAU6lJ9I9L"
    "c68CdBfOrK693bvjAAAAAQAFWC41MDkAAAE7MIIBNzCB4KADAgECAgkApERu+0vQ844wCgYIKoZIzj0EAwIwEDEOMAwGA1UEAxMF"
    "YWxpY2UwIBcNMjYxMTI5MTMyMTAzWhgPMjEyNjExMDUxMzIxMDNaMBAxDjAMBgNVBAMTBWFsaWNlMFkwEwYHKoZIzj0CAQYIKoZI"
    "zj0DAQcDQgAE12e8wQTbVy7z5h7aX7dGT5XzWrxkIv1L96oF/JrMA8RqUaPXLE7ythNpcsEjbSFKEl89cQLmmKk+rgiXVOiMwKMh"
    "MB8wHQYDVR0OBBYEFCS1ofFYIyMcnQwDJpQmnsCbTSc4MAoGCCqGSM49BAMCA0YAMEMCHyJoASywGoK8rgF4wtLuJPpE5Hp/5XXL"
    "wvNAFTSVvOsCIFaxf2/qQO0m1GZwhnv6ky/5ehOF0wtEHdfzCjaM3W+RwCiFwmDhMfU9Jdjt73xXXP0BaC4="
)
# keytool -importcert of that key's certificate.
TRUSTED = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAgAFYWxpY2UAAAGiJ3eDowAFWC41MDkAAAE7MIIBNzCB4KADAgECAgkApERu+0vQ844wCgYIKoZIzj0E"
    "AwIwEDEOMAwGA1UEAxMFYWxpY2UwIBcNMjYxMTI5MTMyMTAzWhgPMjEyNjExMDUxMzIxMDNaMBAxDjAMBgNVBAMTBWFsaWNlMFkw"
    "EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE12e8wQTbVy7z5h7aX7dGT5XzWrxkIv1L96oF/JrMA8RqUaPXLE7ythNpcsEjbSFKEl89"
    "cQLmmKk+rgiXVOiMwKMhMB8wHQYDVR0OBBYEFCS1ofFYIyMcnQwDJpQmnsCbTSc4MAoGCCqGSM49BAMCA0YAMEMCHyJoASywGoK8"
    "rgF4wtLuJPpE5Hp/5XXLwvNAFTSVvOsCIFaxf2/qQO0m1GZwhnv6ky/5ehOF0wtEHdfzCjaM3W+R+eYwrowTedZq+3yGnlJg2sfv"
    "WRo="
)


def store(
    folder: Path, content: bytes, password: str | None = "secret", kind: str | None = "JKS"
) -> StoreText:
    """A file that is configured as a store."""
    return StoreText("ssl.keystore", kind, written(folder / "store", content), password, None)


@for_each("kind", ("JKS", "PKCS12", None))
def test_a_key_and_its_certificate_are_read(tmp_path: Path, kind: str | None) -> None:
    entry = read_key_entry(store(tmp_path, KEYS, kind=kind), "other1")
    assert entry is not None
    assert entry.certificate.subject.rfc4514_string() == "CN=alice"
    assert read_trusted(store(tmp_path, TRUSTED, kind=kind)) == entry.chain


def test_what_is_trusted_is_read_without_a_password_as_in_java(tmp_path: Path) -> None:
    trusted = read_trusted(store(tmp_path, TRUSTED, None))
    assert trusted is not None
    # That of a private key is trusted as well.
    assert read_trusted(store(tmp_path, KEYS, None)) == trusted


def test_a_key_has_the_password_of_its_store_where_none_is_set(tmp_path: Path) -> None:
    alice = client_entry("alice")
    assert read_key_entry(store(tmp_path, jks(alice, "secret")), None) == alice


@for_each(
    ("content", "password", "key_password", "reason"),
    [
        (KEYS, "wrong", "other1", "no store of the type JKS that opens with this password"),
        (KEYS, "secret", None, "a private key that cannot be read with this password"),
        (KEYS, None, None, "encrypted private key, and no password for it is set"),
        (TRUSTED, "secret", None, "no private key with a certificate"),
        (KEYS[:60], None, "other1", "a store of the type JKS that is cut"),
        (b"\xce\xce\xce\xce" + KEYS[4:], "secret", "other1", "-srcstoretype JCEKS"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, password: str | None, key_password: str | None, reason: str
) -> None:
    with pytest.raises(StoreError, match=reason) as refused:
        read_key_entry(store(tmp_path, content, password), key_password)
    assert "other1" not in str(refused.value)


def test_a_store_that_is_cut_or_changed_anywhere_is_an_error_of_its_own() -> None:
    for size in range(len(TRUSTED) - 20):
        with pytest.raises(JksError):
            parse_jks(TRUSTED[:size] + bytes(20), None)
    for at in range(len(KEYS)):
        changed = KEYS[:at] + bytes([KEYS[at] ^ 0x80]) + KEYS[at + 1 :]
        with pytest.raises(JksError):
            parse_jks(changed, "secret")
        try:
            found = parse_jks(changed, None)
            assert found.keys
            found.keys[0].decrypted("other1")
        except (JksError, AssertionError):
            continue
