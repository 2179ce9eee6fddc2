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
)
