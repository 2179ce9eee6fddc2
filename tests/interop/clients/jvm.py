"""Apache Kafka's Java clients of every age."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.clients.java_programs import JVM_OPTIONS, SLF4J, SOURCES
from tests.interop import tool_scenarios
from tests.interop.client import DRIVERS, Client, DriverCommand
from tests.peers import NEWEST_KAFKA, OLD_PROTOCOLS_KAFKA, compiled, find_java, find_kafka, resolve_jars

if TYPE_CHECKING:
    from collections.abc import Callable

RELEASES: Final = (
    NEWEST_KAFKA,
    "4.3.1",
    "3.9.1",
    "2.8.2",
    "1.1.1",
    "1.0.2",
    "0.11.0.3",
    "0.10.2.2",
    "0.10.0.1",
    "0.9.0.1",
    "0.8.2.2",
)
_ALWAYS: Final = "0.8.2"
# The sources by the release that has what they use; those that another one replaces have an end.
_SOURCES: Final = {
    "Producing": (_ALWAYS, ""),
    "Consuming": ("0.9", ""),
    "Stamping": ("0.10.0", ""),
    "Searching": ("0.10.1", ""),
    "Transactions": ("0.11", ""),
    "Administering": ("0.11", ""),
    "AlteringOnce": ("0.11", "2.3"),
    "Growing": ("1.0", ""),
    "Trimming": ("1.1", ""),
    "Groups": ("2.3", ""),
}
_SINCE: Final = {
    "create-topic": "0.11",
    "list-topics": "0.9",
    "describe-topic": "0.9",
    "describe-cluster": "0.11",
    "add-partitions": "1.0",
    "describe-configs": "0.11",
    "alter-configs": "0.11",
    "list-offsets": "0.10.1",
    "delete-records": "1.1",
    "delete-topic": "0.11",
    "describe-acls": "0.11",
    "list-groups": "2.0",
    "describe-group": "2.0",
    "list-group-offsets": "2.0",
    "delete-group": "2.0",
    "produce zstd": "2.1",
    "idempotent": "0.11",
    "timestamps": "0.10.0",
    "headers": "0.11",
    "read": "0.9",
    "read zstd": "2.1",
    "read-timestamps": "0.10.0",
    "read-headers": "0.11",
    "read-nulls": "0.9",
    "read-megabyte": "0.9",
    "seek-offset": "0.9",
    "seek-end": "0.9",
    "seek-time": "0.10.1",
    "read-committed": "0.11",
    "group-read": "0.9",
    "group-resume": "0.9",
    "group-share": "0.9",
    "commit": "0.9",
    "static-member": "2.3",
    "cooperative": "2.4",
    "consumer-protocol": "3.7",
    "txn-commit": "0.11",
    "txn-abort": "0.11",
    "txn-offsets": "0.11",
    "txn-fence": "0.11",
}


def numbers(release: str) -> tuple[int, ...]:
    """Return a release in a form that can be compared."""
    return tuple(int(part) for part in release.split("."))


def _start(release: str) -> Callable[[str], DriverCommand]:
    def start(bootstrap: str) -> DriverCommand:
        java = find_java("the Java client")
        jars = resolve_jars(f"org.apache.kafka:kafka-clients:{release}", SLF4J)
        names = [
            name
            for name, (first, end) in _SOURCES.items()
            if numbers(first) <= numbers(release) and (not end or numbers(release) < numbers(end))
        ]
        sources = [DRIVERS / "java" / f"{name}.java" for name in ("Driver", *names)]
        classes = f"{jars}/*:{compiled(sources, jars)}"
        return DriverCommand([java, *JVM_OPTIONS, "-cp", classes, "Driver", bootstrap, *names])

    return start


def _lacks(release: str) -> dict[str, str]:
    return {
        action: f"in kafka-clients since {since}"
        for action, since in _SINCE.items()
        if numbers(release) < numbers(since)
    }


_SCALA_LACKS: Final = {
    **dict.fromkeys(_SINCE, "the Scala client has no call for it"),
    **dict.fromkeys(
        ("group-read", "group-resume", "group-share"),
        "its groups are kept in ZooKeeper, which no broker here has",
    ),
    "seek-time": "it finds segments by time, not records",
    "too-large": "its exception does not name the error",
}
_SCALA_HAS: Final = (
    "list-topics",
    "describe-topic",
    "list-offsets",
    "read",
    "read-nulls",
    "read-megabyte",
    "seek-offset",
    "seek-end",
    "commit",
)


def _scala(release: str) -> Client:
    """Return the client in Scala, which was in the broker's own jar."""

    def start(bootstrap: str) -> DriverCommand:
        java = find_java("the Scala client")
        jars = resolve_jars(f"org.apache.kafka:kafka_2.11:{release}", SLF4J)
        sources = [DRIVERS / "java" / f"{name}.java" for name in ("Driver", "Scala")]
        classes = f"{jars}/*:{compiled(sources, jars)}"
        return DriverCommand([java, *JVM_OPTIONS, "-cp", classes, "Driver", bootstrap, "Scala"])

    lacks = {action: reason for action, reason in _SCALA_LACKS.items() if action not in _SCALA_HAS}
    return Client(f"Scala client {release}", "JVM", start, lacks, OLD_PROTOCOLS_KAFKA)


def _start_tools(bootstrap: str) -> DriverCommand:
    kafka = find_kafka()
    sources = [SOURCES / "Tools.java", *(DRIVERS / "java" / f"{name}.java" for name in ("Driver", "Tooling"))]
    classes = f"{kafka.jars}/*:{compiled(sources, kafka.jars)}"
    options = (*JVM_OPTIONS, *kafka.archive.options())
    return DriverCommand([kafka.java, *options, "-cp", classes, "Driver", bootstrap, "Tooling"])


TOOLS: Final = Client(
    f"Kafka's tools {NEWEST_KAFKA}", "JVM", _start_tools, scenarios=tool_scenarios.SCENARIOS
)
CLIENTS: Final = tuple(
    Client(
        f"kafka-clients {release}",
        "JVM",
        _start(release),
        _lacks(release),
        NEWEST_KAFKA if numbers(release) >= (2, 1) else OLD_PROTOCOLS_KAFKA,
    )
    for release in RELEASES
) + tuple(_scala(release) for release in ("0.10.2.2", "0.8.2.2"))
