"""rskafka, a client in Rust of its own make (rdkafka is librdkafka, as confluent-kafka and kcat are)."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.interop.client import DRIVERS, Client, DriverCommand
from tests.peers import PeerUnavailableError, exclusive, peers_cache

_BUILD_TIMEOUT_S: Final = 900.0
_PACKAGE: Final = ("Cargo.toml", "main.rs")
_GROUPS: Final = (
    "group-read",
    "group-resume",
    "group-share",
    "commit",
    "static-member",
    "cooperative",
    "consumer-protocol",
    "list-groups",
    "describe-group",
    "list-group-offsets",
    "delete-group",
)
_LACKS: Final = {
    **dict.fromkeys(_GROUPS, "no groups"),
    **dict.fromkeys(("txn-commit", "txn-abort", "txn-offsets", "txn-fence"), "no transactions"),
    **dict.fromkeys(("describe-configs", "alter-configs"), "no call for configuration"),
    "create-topic": "creates topics without configuration only",
    "describe-cluster": "does not show the brokers",
    "add-partitions": "no call to add partitions",
    "describe-acls": "no call for ACLs",
    "acks": "always waits for all",
    "idempotent": "no idempotent producer",
    "headers": "its headers are a map, so that no name comes twice",
    "read-headers": "its headers are a map, so that no name comes twice",
    "auto-create": "waits for the topic, without asking for its creation",
    "read-committed": "no isolation level",
}


def _start(bootstrap: str) -> DriverCommand:
    return DriverCommand([str(_built()), bootstrap])


def _built() -> Path:
    """Return the driver, built into the cache by the first who asks.

    Raises PeerUnavailableError without Cargo or the crates.
    """
    cargo = shutil.which("cargo")
    if cargo is None:
        raise PeerUnavailableError("rskafka", "no `cargo` is on the PATH")
    sources = [DRIVERS / "rust" / name for name in _PACKAGE]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    program = peers_cache() / f"rust-driver-{digest}"
    if program.is_file():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(program.with_name(program.name + ".lock")):
        if not program.is_file():
            _build(cargo, sources, program)
    return program


def _build(cargo: str, sources: list[Path], program: Path) -> None:
    with TemporaryDirectory(dir=program.parent) as aside:
        for source in sources:
            shutil.copy(source, aside)
        ended = subprocess.run(
            [cargo, "build", "--quiet", "--target-dir", f"{aside}/target"],
            cwd=aside,
            capture_output=True,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
        )
        if ended.returncode:
            raise PeerUnavailableError("rskafka", f"cargo failed: {ended.stderr.strip()[-300:]}")
        Path(aside, "target", "debug", "rskafka_driver").replace(program)


CLIENTS: Final = (Client("rskafka 0.6.0", "Rust", _start, _LACKS),)
