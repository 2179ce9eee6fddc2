"""Certificates for development: an authority in a directory, and what it signs for a broker and clients."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.keystores.authority import Authority
from tidelog.plugins.keystores.stores import KeyEntry, StoreError, certificates_pem

_DEFAULT_HOSTS: Final = ("localhost", "127.0.0.1")
_OWNER_ONLY: Final = 0o600
_FOR_ALL: Final = 0o644


class CertificatesNotMade(TidelogError):
    """The certificates could not be made; the message says why."""


def make_certificates(
    directory: Path, hosts: Sequence[str], clients: Sequence[str], days: int, *, force: bool
) -> str:
    """Make the files; return the settings of broker and clients that use them, as text.

    Raises:
        CertificatesNotMade: a file is there and `force` is not, a name is no name of a file, or the system
            refuses.
    """
    valid = timedelta(days=days)
    names = [f"{name}.pem" for name in ("broker", *clients)]
    _check_names(directory, names, force=force)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        authority = _authority(directory, valid)
        _write(directory / names[0], authority.issue("tidelog broker", valid, hosts or _DEFAULT_HOSTS))
        for name, file in zip(clients, names[1:], strict=True):
            _write(directory / file, authority.issue(name, valid))
    except OSError as error:
        raise CertificatesNotMade(f"{error.filename}: {(error.strerror or str(error)).lower()}.") from error
    return _settings(directory, clients)


def _check_names(directory: Path, names: list[str], *, force: bool) -> None:
    for name in names:
        if Path(name).name != name or name == "ca.pem" or names.count(name) > 1:
            raise CertificatesNotMade(f"{name.removesuffix('.pem')!r} cannot be the name of a client.")
        if (directory / name).exists() and not force:
            raise CertificatesNotMade(f"{directory / name} is there already; --force replaces it.")


def _authority(directory: Path, valid: timedelta) -> Authority:
    """Return the authority of the directory, a new one if it has none."""
    certificate, key = directory / "ca.pem", directory / "ca.key"
    if certificate.exists() != key.exists():
        raise CertificatesNotMade(f"{directory} has only one of ca.pem and ca.key.")
    if key.exists():
        try:
            return Authority.of_pem(key.read_bytes() + certificate.read_bytes())
        except StoreError as error:
            raise CertificatesNotMade(f"{certificate} {error}.") from error
    made = Authority.create("tidelog development", valid)
    _write_file(key, made.entry.key, _OWNER_ONLY)
    _write_file(certificate, certificates_pem(made.entry.chain), _FOR_ALL)
    return made


def _write(path: Path, entry: KeyEntry) -> None:
    _write_file(path, entry.pem(), _OWNER_ONLY)


def _write_file(path: Path, content: bytes, mode: int) -> None:
    """Replace a file by one that has its mode from the beginning: a broker may read it at any time."""
    written = path.with_name(f"{path.name}.new")
    written.unlink(missing_ok=True)
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:  # noqa: PTH123
        file.write(content)
    written.replace(path)


def _settings(directory: Path, clients: Sequence[str]) -> str:
    """Return what to copy into the configuration of the broker and of clients."""
    folder = directory.absolute()
    lines = [
        f"Made in {folder}: ca.pem, broker.pem{''.join(f', {name}.pem' for name in clients)}.",
        "",
        "The broker:",
        "  listeners=SSL://:9093",
        "  ssl.keystore.type=PEM",
        f"  ssl.keystore.location={folder}/broker.pem",
        "  ssl.truststore.type=PEM",
        f"  ssl.truststore.location={folder}/ca.pem",
        *(["  ssl.client.auth=required"] if clients else []),
        "Clients in Java:",
        "  security.protocol=SSL",
        "  ssl.truststore.type=PEM",
        f"  ssl.truststore.location={folder}/ca.pem",
    ]
    own = f"{folder}/{clients[0]}.pem" if clients else ""
    if own:
        lines += ["  ssl.keystore.type=PEM", f"  ssl.keystore.location={own}"]
    lines += ["librdkafka:", "  security.protocol=SSL", f"  ssl.ca.location={folder}/ca.pem"]
    if own:
        lines += [f"  ssl.certificate.location={own}", f"  ssl.key.location={own}"]
    python = f'security_protocol="SSL", ssl_cafile="{folder}/ca.pem"'
    lines += ["Python (tidelog.client):", f"  {python}" + (f', ssl_certfile="{own}"' if own else "")]
    return "\n".join(lines)
