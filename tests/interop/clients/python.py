"""Clients in Python: those of the development environment, and old releases of kafka-python."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.interop.client import Client, DriverCommand
from tests.peers import OLD_PROTOCOLS_KAFKA, PeerUnavailableError, exclusive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TOOLS: Final = Path(__file__).parents[3] / ".tools" / "interop"
_CODECS: Final = ("python-snappy==0.7.3", "cramjam", "lz4==4.4.5", "xxhash")
# Newer Pythons cannot import the copy of six in old releases; the driver replaces it.
_BESIDE_OLD: Final = ("six==1.17.0", *_CODECS)

_AIOKAFKA_LACKS: Final = {
    "describe-acls": "no call for ACLs",
    "delete-group": "no call to delete groups",
    "cooperative": "no cooperative assignor",
    "consumer-protocol": "no consumer protocol (KIP-848)",
}
_KAFKA_PYTHON_LACKS: Final = {"consumer-protocol": "no consumer protocol (KIP-848)"}
_OLD_LACKS: Final = {
    **_KAFKA_PYTHON_LACKS,
    "cooperative": "no cooperative assignor in this release",
    "static-member": "no static membership in this release",
    "idempotent": "no idempotent producer in this release",
    "produce zstd": "no zstd in this release",
    "read zstd": "no zstd in this release",
    "read-committed": "no isolation level in this release",
    "delete-records": "no call to delete records in this release",
    "txn-commit": "no transactions in this release",
    "txn-abort": "no transactions in this release",
    "txn-offsets": "no transactions in this release",
    "txn-fence": "no transactions in this release",
}
# What kafka-python leaves out when it is pinned to a version: the first version that has it, by action.
_SINCE: Final = {
    "timestamps": "0.10.0",
    "read-timestamps": "0.10.0",
    "seek-time": "0.10.1",
    "headers": "0.11",
    "read-headers": "0.11",
    "group-read": "0.9",
    "group-resume": "0.9",
    "group-share": "0.9",
    "produce lz4": "0.8.2",
}
_ADMIN: Final = (
    "create-topic",
    "describe-cluster",
    "add-partitions",
    "describe-configs",
    "alter-configs",
    "delete-topic",
    "describe-acls",
    "list-groups",
    "describe-group",
    "list-group-offsets",
    "delete-group",
)
# Compared as tuples, so 0.11 would be less than 0.11.0.
_PINS: Final = ("", "0.8.2", "0.9.0", "0.10.0", "0.10.2", "0.11.0", "1.0.0")


def _in_environment(program: str) -> Callable[[str], DriverCommand]:
    """Return the start of a driver of the development environment."""
    return lambda bootstrap: DriverCommand.python(program, bootstrap)


def _kafka_python(folder: str, packages: Sequence[str], pin: str = "") -> Callable[[str], DriverCommand]:
    """Return the start of the driver with some packages beside or instead of those of the environment."""

    def start(bootstrap: str) -> DriverCommand:
        installed = _installed(_TOOLS / folder, packages)
        return DriverCommand.python("kafka_python_driver.py", bootstrap, pin, packages=str(installed))

    return start


def _installed(folder: Path, packages: Sequence[str]) -> Path:
    """Return the folder with the packages, installed when it is asked for first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.with_name(folder.name + ".lock")):
        if not folder.is_dir():
            unfinished = folder.with_name(folder.name + ".unfinished")
            words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target"]
            ended = subprocess.run([*words, str(unfinished), *packages], capture_output=True, text=True)
            if ended.returncode:
                raise PeerUnavailableError(packages[0], f"pip failed: {ended.stderr.strip()[-200:]}")
            unfinished.rename(folder)
    return folder


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _lacks_with_pin(pin: str) -> dict[str, str]:
    if not pin:
        return {}
    # It looks for versions in what the broker announced, and a pinned client does not ask for that.
    refused = dict.fromkeys(_ADMIN, "its admin client needs `api_version` not to be pinned")
    since = {
        action: f"needs the protocol of {since} or newer"
        for action, since in _SINCE.items()
        if _numbers(pin) < _numbers(since)
    }
    return {**refused, **since}


def _old(release: str, pin: str) -> Client:
    without = {
        "describe-cluster": "no such call in this release",
        "delete-group": "no such call in this release",
    }
    lacks = {**_OLD_LACKS, **(without if release == "1.4.7" else {}), **_lacks_with_pin(pin)}
    return Client(
        f"kafka-python {release}" + (f" as {pin}" if pin else ""),
        "kafka-python, old",
        _kafka_python(f"kafka-python-{release}", (f"kafka-python=={release}", *_BESIDE_OLD), pin),
        lacks,
        OLD_PROTOCOLS_KAFKA,
    )


CLIENTS: Final = (
    Client(
        f"confluent-kafka {version('confluent-kafka')}",
        "Python",
        _in_environment("confluent_driver.py"),
        # librdkafka ignores the error code of the whole response and returns no ACLs.
        {"describe-acls": "does not report the error of the response"},
    ),
    Client(
        f"aiokafka {version('aiokafka')}",
        "Python",
        _in_environment("aiokafka_driver.py"),
        _AIOKAFKA_LACKS,
    ),
    Client(
        f"kafka-python {version('kafka-python')}",
        "Python",
        _kafka_python("codecs", _CODECS),
        _KAFKA_PYTHON_LACKS,
    ),
    *(_old(release, pin) for release in ("1.4.7", "2.0.2") for pin in _PINS),
)
