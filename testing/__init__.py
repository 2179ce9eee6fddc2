"""A whole Kafka for the tests of an application: `KafkaServer`, its clock, its faults and what it was asked.

    from tidelog.testing import KafkaServer

    with KafkaServer() as kafka:
        kafka.create_topic("orders", partitions=3)
        my_service(bootstrap_servers=kafka.bootstrap)
        assert [record.value for record in kafka.wait_for_records("orders", 2)] == [b"tea", b"cake"]

Each name is imported at its first use. `tidelog.kernel.testing` is for the tests of plugins.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidelog.testing.async_server import AsyncKafkaServer
    from tidelog.testing.clock import ShiftedClock
    from tidelog.testing.faults import InjectedFault, InjectedFaults
    from tidelog.testing.request_log import SeenRequest
    from tidelog.testing.server import KafkaServer

__all__ = [
    "AsyncKafkaServer",
    "InjectedFault",
    "InjectedFaults",
    "KafkaServer",
    "SeenRequest",
    "ShiftedClock",
]

_PLACES: Final = {
    "AsyncKafkaServer": "async_server",
    "InjectedFault": "faults",
    "InjectedFaults": "faults",
    "KafkaServer": "server",
    "SeenRequest": "request_log",
    "ShiftedClock": "clock",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{place}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
