"""Clients of Node programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.clients.node_programs import node_with
from tests.interop.client import DRIVERS, Client, DriverCommand

if TYPE_CHECKING:
    from collections.abc import Callable

_KAFKAJS_LACKS: Final = {
    "produce lz4": "no lz4 without a package that has to be compiled",
    "produce zstd": "no zstd without a package that has to be compiled",
    "read lz4": "no lz4 without a package that has to be compiled",
    "read zstd": "no zstd without a package that has to be compiled",
    "static-member": "no static membership",
    "cooperative": "no cooperative assignor",
    "consumer-protocol": "no consumer protocol (KIP-848)",
}
_PLATFORMATIC_LACKS: Final = {
    "produce zstd": "zstd from Node 22.15 on",
    "read zstd": "zstd from Node 22.15 on",
    "headers": "its headers are a map, so that no name comes twice",
    "read-headers": "its headers are a map, so that no name comes twice",
    "cooperative": "no cooperative assignor",
    "txn-offsets": "takes offsets only from messages that its own consumer has read",
}


def _start(program: str, *packages: str) -> Callable[[str], DriverCommand]:
    """Return the start of a driver with packages from npm."""

    def start(bootstrap: str) -> DriverCommand:
        return DriverCommand(*node_with(DRIVERS / "node" / program, packages, [bootstrap]))

    return start


CLIENTS: Final = (
    Client(
        "kafkajs 2.2.4",
        "Node",
        _start("kafkajs_driver.js", "kafkajs@2.2.4", "kafkajs-snappy@1.1.0"),
        _KAFKAJS_LACKS,
    ),
    Client(
        "@platformatic/kafka 1.35.0",
        "Node",
        _start("platformatic_driver.js", "@platformatic/kafka@1.35.0"),
        _PLATFORMATIC_LACKS,
    ),
)
