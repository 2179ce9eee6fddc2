"""A realm of Kerberos: MIT's KDC on loopback, with users and the key table of a broker."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import pytest

from tests.peers.ports import LOOPBACK, free_ports
from tests.peers.process import ServerProcess

REALM = "TIDE.EXAMPLE"
SERVICE = f"kafka/localhost@{REALM}"
_PROGRAMS = ("krb5kdc", "kadmin.local", "kdb5_util")


@attrs.frozen
class Realm:
    """A KDC that runs; the files are key tables."""

    configuration: Path
    broker_keys: Path
    alice_keys: Path


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        pytest.skip(f"no {name}: scripts/install_peers.sh installs it")
    return found


@contextmanager
def kerberos_realm(folder: Path, passwords: dict[str, str]) -> Generator[Realm]:
    """Run a KDC with these users; the environment of this process names its configuration meanwhile."""
    kdc, admin, database = map(_program, _PROGRAMS)
    (port,) = free_ports(1)
    configuration = folder / "krb5.conf"
    configuration.write_text(
        f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
        f"rdns = false\n"
        f"udp_preference_limit = 1\ndns_canonicalize_hostname = false\n[realms]\n{REALM} = {{\n"
        f"kdc = {LOOPBACK}:{port}\n}}\n"
    )
    (folder / "kdc.conf").write_text(
        f'[kdcdefaults]\nkdc_listen = ""\nkdc_tcp_listen = {LOOPBACK}:{port}\n[realms]\n{REALM} = {{\n'
        f"database_name = {folder}/principal\nkey_stash_file = {folder}/stash\nacl_file = {folder}/acl\n}}\n"
    )
    environment = {
        "KRB5_CONFIG": str(configuration),
        "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        "KRB5RCACHENAME": f"dfl:{folder}",
        "KRB5CCNAME": f"FILE:{folder}/tickets",
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        _run(database, "create", "-s", "-r", REALM, "-P", "master")
        realm = Realm(configuration, folder / "broker.keytab", folder / "alice.keytab")
        commands = [
            *(f"addprinc -pw {password} {user}" for user, password in passwords.items()),
            f"addprinc -randkey {SERVICE}",
            f"ktadd -k {realm.broker_keys} {SERVICE}",
            f"ktadd -norandkey -k {realm.alice_keys} alice",
        ]
        _run(admin, "-r", REALM, stdin="\n".join(commands))
        server = ServerProcess("krb5kdc", [kdc, "-n", "-r", REALM], folder / "kdc.log")
        server.start()
        try:
            _wait_until_connectable(port)
            yield realm
        finally:
            server.stop()


def _wait_until_connectable(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
            return
        time.sleep(0.02)
    raise AssertionError("the KDC cannot be connected to")


def _run(*command: str, stdin: str = "") -> None:
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
