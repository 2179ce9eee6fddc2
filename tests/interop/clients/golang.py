"""Clients of Go programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.clients.go_programs import built
from tests.interop.client import DRIVERS, Client, DriverCommand

if TYPE_CHECKING:
    from collections.abc import Callable


def _start(source: str, *modules: str) -> Callable[[str], DriverCommand]:
    """Return the start of a driver with modules from the proxy."""

    def start(bootstrap: str) -> DriverCommand:
        program = built([DRIVERS / "go" / "driving.go", DRIVERS / "go" / source], modules)
        return DriverCommand([str(program), bootstrap])

    return start


_SARAMA_LACKS: Final = {
    "cooperative": "no cooperative assignor",
    "consumer-protocol": "no consumer protocol (KIP-848)",
}
_TRANSACTIONS: Final = ("txn-commit", "txn-abort", "txn-offsets", "txn-fence")
_SEGMENTIO_LACKS: Final = {
    "delete-records": "no call to delete records",
    "idempotent": "no idempotent producer",
    "auto-create": "gives up at the first answer, which says that the topic is being created",
    "read-committed": "returns the records of aborted transactions, too",
    "static-member": "no static membership",
    "cooperative": "no cooperative assignor",
    "consumer-protocol": "no consumer protocol (KIP-848)",
    **dict.fromkeys(_TRANSACTIONS, "single requests of transactions, but no producer that uses them"),
}

CLIENTS: Final = (
    Client(
        "franz-go 1.22.3",
        "Go",
        _start(
            "franz.go",
            "github.com/twmb/franz-go@v1.22.3",
            "github.com/twmb/franz-go/pkg/kadm@v1.20.0",
        ),
    ),
    Client("sarama 1.61.1", "Go", _start("sarama.go", "github.com/IBM/sarama@v1.61.1"), _SARAMA_LACKS),
    Client(
        "segmentio/kafka-go 0.4.51",
        "Go",
        _start("segmentio.go", "github.com/segmentio/kafka-go@v0.4.51"),
        _SEGMENTIO_LACKS,
    ),
)
