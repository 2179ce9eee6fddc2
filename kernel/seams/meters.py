"""The seam of meters: what is measured, read when an exporter asks for it.

What is counted is an attribute of the object that does the work, and counting is `+= 1`. A source reads such
counts when an exporter collects; without an exporter no source is ever called. What costs more than a count,
such as the time of each request, is measured only while `Meters.is_listened`.

Names and labels of Kafka's meters are those that its JMX beans get by the common rules of the Prometheus JMX
exporter, as in the examples of Strimzi: `kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec` is the
counter `kafka_server_brokertopicmetrics_bytesin_total`. What Kafka does not have begins with `tidelog_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values of labels, in the order in which they are shown."""


class MeterKind(Enum):
    """What the values of a family mean, by the names of the Prometheus text format."""

    COUNTER = "counter"
    """Grows from 0 at the start of the broker; its name ends with `_total` or `_count`."""
    GAUGE = "gauge"
    """What is true at this moment."""


class MeterSample(NamedTuple):
    """One value, of the member of a family that has these labels."""

    value: float
    labels: Labels = ()


class MeterFamily(NamedTuple):
    """All values of one name; `help` is a sentence with the unit, for people."""

    name: str
    kind: MeterKind
    help: str
    samples: Sequence[MeterSample]


class MeterSource(Protocol):
    """What a plugin measures."""

    def families(self) -> Iterable[MeterFamily]:
        """Return all values of this moment; no other source has a family of the same name.

        It is called in a thread, while the event loop runs: it reads counts, copies a collection (`list`,
        `dict.copy`) before it iterates over it, and changes nothing. What it raises is logged, and the
        families of other sources are exported all the same.
        """
        ...


class Meters(Protocol):
    """The meters of a broker, for sources and exporters."""

    @property
    def is_listened(self) -> bool:
        """Whether an exporter has called `listen`: what costs more than a count is measured."""
        ...

    def listen(self) -> None:
        """Note that values are read from now on; on the event loop. It never ends."""
        ...

    def when_listened(self, begin: Callable[[], None]) -> None:
        """Have `begin` called at the first `listen`, at once if that was before."""
        ...

    def collect(self) -> Sequence[MeterFamily]:
        """Return the families of all sources, blocking: to be called in a thread."""
        ...
