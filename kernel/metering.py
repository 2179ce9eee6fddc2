"""The meters of a broker: the sources of all plugins, and what the kernel itself measures."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.kernel.log.traffic import COUNTS, TopicTraffic
from tidelog.kernel.metadata import NO_LEADER
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.seams.meters import Labels, MeterFamily, MeterKind, MeterSample, MeterSource

if TYPE_CHECKING:
    from tidelog.kernel.loop_monitor import LoopMonitor
    from tidelog.kernel.metadata import MetadataImage
    from tidelog.kernel.network import Server
    from tidelog.kernel.replica import Partition, ReplicaManager
    from tidelog.kernel.sinks.sinks import Sinks
    from tidelog.kernel.topics import Topics

_log = logging.getLogger(__name__)

COUNTER, GAUGE = MeterKind.COUNTER, MeterKind.GAUGE
LOG_INTERVAL_SECONDS: Final = 60.0
"""A source that fails is logged no more often."""
TOPIC_COUNTS: Final = {
    "messages_in": ("messagesin", "Records appended"),
    "bytes_in": ("bytesin", "Bytes of batches appended"),
    "bytes_out": ("bytesout", "Bytes of records sent to clients"),
    "produces": ("totalproducerequests", "Batches that clients sent, one for each partition of a request"),
    "failed_produces": ("failedproducerequests", "Batches that were refused"),
    "fetches": ("totalfetchrequests", "Reads of a partition for clients"),
    "failed_fetches": ("failedfetchrequests", "Reads of a partition that failed"),
}
"""The names of Kafka's `BrokerTopicMetrics` for the counts of a topic, and what they are."""
PROC: Final = Path("/proc/self")
RUNNING: Final = 3
"""The state RUNNING of Kafka's `BrokerState`."""
SHUTTING_DOWN: Final = 7


class BrokerMeters:
    """All meters of one broker."""

    def __init__(self) -> None:
        self._sources: list[tuple[str, MeterSource]] = []
        self._begin: list[Callable[[], None]] = []
        self._log_limit = RateLimit(LOG_INTERVAL_SECONDS)
        self.is_listened = False

    def add(self, plugin: str, sources: Iterable[MeterSource]) -> None:
        """Add the sources of a plugin, which log lines name."""
        self._sources += [(plugin, source) for source in sources]

    def listen(self) -> None:
        """Note that values are read from now on."""
        if not self.is_listened:
            self.is_listened = True
            for begin in self._begin:
                begin()
            self._begin.clear()

    def when_listened(self, begin: Callable[[], None]) -> None:
        """Call `begin` at the first `listen`."""
        if self.is_listened:
            begin()
        else:
            self._begin.append(begin)

    def collect(self) -> Sequence[MeterFamily]:
        """Return the families of all sources, of two with one name the first."""
        found: dict[str, MeterFamily] = {}
        for plugin, source in self._sources:
            try:
                for family in source.families():
                    found.setdefault(family.name, family)
            # A plugin that fails must not hide what all others measure.
            except Exception:
                if self._log_limit.admit(plugin) is not None:
                    _log.exception("a source of meters of plugin %s failed: %r", plugin, source)
        return list(found.values())


class MeteredBroker(Protocol):
    """The parts of a broker that the kernel's own sources read."""

    @property
    def replicas(self) -> ReplicaManager:
        """The partitions."""
        ...

    @property
    def image(self) -> MetadataImage:
        """What is true of the cluster."""
        ...

    @property
    def topics(self) -> Topics:
        """The topics."""
        ...

    @property
    def server(self) -> Server:
        """The connections."""
        ...

    @property
    def loop_monitor(self) -> LoopMonitor:
        """What held the event loop."""
        ...

    @property
    def sinks(self) -> Sinks:
        """What sinks have done."""
        ...


def kernel_sources(broker: MeteredBroker) -> Sequence[MeterSource]:
    """Return what the kernel measures."""
    return (
        TopicMeters(broker.replicas),
        PartitionMeters(broker),
        NetworkMeters(broker.server),
        LoopMeters(broker.loop_monitor),
        SinkMeters(broker.sinks),
        ProcessMeters(),
        *broker.server.meter_sources(),
    )


class TopicMeters:
    """Kafka's `BrokerTopicMetrics`: of each topic that was used, and without a label of all together."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._traffic = replicas.traffic

    def families(self) -> Iterable[MeterFamily]:
        """Return the counts."""
        used = {name: each for name, each in self._traffic.by_topic().items() if _is_used(each)}
        total = self._traffic.total()
        for count, (name, text) in TOPIC_COUNTS.items():
            samples = [MeterSample(getattr(total, count))]
            samples += [
                MeterSample(getattr(each, count), (("topic", topic),)) for topic, each in used.items()
            ]
            yield MeterFamily(f"kafka_server_brokertopicmetrics_{name}_total", COUNTER, text, samples)


def _is_used(traffic: TopicTraffic) -> bool:
    return any(getattr(traffic, name) for name in COUNTS)


class PartitionMeters:
    """Offsets and sizes of partitions, and how many there are (`ReplicaManager`, `Log`, `Partition`)."""

    def __init__(self, broker: MeteredBroker) -> None:
        self._broker = broker

    def families(self) -> Iterable[MeterFamily]:
        """Return the gauges."""
        broker = self._broker
        here = list(broker.replicas)
        led = [each for each in here if each.is_leader]
        of_cluster = [each for topic in broker.image.topics.values() for each in topic.partitions]
        state = SHUTTING_DOWN if broker.topics.closing else RUNNING
        for name, text, value in (
            ("server_replicamanager_partitioncount", "Partitions with a replica here", len(here)),
            ("server_replicamanager_leadercount", "Partitions that this broker leads", len(led)),
            (
                "server_replicamanager_offlinereplicacount",
                "Replicas here that cannot be used",
                sum(each.log.offline is not None for each in here),
            ),
            (
                "server_replicamanager_underreplicatedpartitions",
                "Partitions led here with replicas that are not in sync",
                sum(len(each.isr) < len(each.replicas) for each in of_cluster),
            ),
            ("controller_kafkacontroller_activecontrollercount", "Active controllers here", 1),
            (
                "controller_kafkacontroller_offlinepartitionscount",
                "Partitions without a leader",
                sum(each.leader == NO_LEADER and bool(each.replicas) for each in of_cluster),
            ),
            (
                "controller_kafkacontroller_globaltopiccount",
                "Topics of the cluster",
                len(broker.image.topics),
            ),
            (
                "controller_kafkacontroller_globalpartitioncount",
                "Partitions",
                len(of_cluster),
            ),
            ("server_kafkaserver_brokerstate", "The state by Kafka's numbers: 3 runs, 7 stops", state),
        ):
            yield _gauge(f"kafka_{name}", text, value)
        yield from _of_logs([each for each in here if each.log.offline is None])


def _of_logs(partitions: Sequence[Partition]) -> Iterable[MeterFamily]:
    named = [(_labels_of(each), each.log) for each in partitions]
    yield MeterFamily(
        "kafka_log_log_size",
        GAUGE,
        "Bytes of the log of a partition",
        [MeterSample(log.store.size_bytes, labels) for labels, log in named],
    )
    yield MeterFamily(
        "kafka_log_log_logstartoffset",
        GAUGE,
        "First offset of the log of a partition",
        [MeterSample(log.log_start_offset, labels) for labels, log in named],
    )
    yield MeterFamily(
        "kafka_log_log_logendoffset",
        GAUGE,
        "Offset of the next record of a partition",
        [MeterSample(log.log_end_offset, labels) for labels, log in named],
    )


def _labels_of(partition: Partition) -> Labels:
    topic, number = partition.topic_partition
    return ("topic", topic), ("partition", str(number))


class NetworkMeters:
    """Connections, and the counts of wire protocols."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def families(self) -> Iterable[MeterFamily]:
        """Return the connections by listener, and what each protocol counts under the names of Kafka."""
        yield MeterFamily(
            "kafka_server_socket_server_metrics_connection_count",
            GAUGE,
            "Connections that are open",
            [
                MeterSample(count, (("listener", name),))
                for name, count in self._server.connections_by_listener().items()
            ],
        )
        for protocol, counts in self._server.statistics().items():
            for name, value in counts.items():
                yield _of_protocol(protocol, name, value)


def _of_protocol(protocol: str, name: str, value: int) -> MeterFamily:
    prefix = "kafka_server_fetchsessioncache_" if protocol == "kafka" else f"tidelog_{protocol}_"
    if name.endswith("PerSec"):
        return MeterFamily(
            f"{prefix}{name.removesuffix('PerSec').lower()}_total",
            COUNTER,
            f"{name} of {protocol}",
            [MeterSample(value)],
        )
    return _gauge(prefix + name.lower(), f"{name} of {protocol}", value)


class LoopMeters:
    """What held the event loop for longer than `event.loop.stall.ms`."""

    def __init__(self, monitor: LoopMonitor) -> None:
        self._monitor = monitor

    def families(self) -> Iterable[MeterFamily]:
        """Return how often, and for how long."""
        found = self._monitor.statistics()
        yield _counter("tidelog_eventloop_stalls_total", "How often the event loop was held", found.stalls)
        yield _counter(
            "tidelog_eventloop_stalled_seconds_total",
            "Seconds for which it was held",
            found.stalled_ms / 1000,
        )
        yield _gauge(
            "tidelog_eventloop_longest_stall_seconds",
            "Longest time for which it was held",
            found.longest_ms / 1000,
        )


class SinkMeters:
    """What sinks have done."""

    def __init__(self, sinks: Sinks) -> None:
        self._sinks = sinks

    def families(self) -> Iterable[MeterFamily]:
        """Return lag, failures and what was read; nothing without sinks."""
        found = self._sinks.statistics()
        if not found:
            return
        named = [((("sink", name),), each) for name, each in found.items()]
        yield MeterFamily(
            "tidelog_sink_lag",
            GAUGE,
            "Committed offsets that a sink has not delivered",
            [MeterSample(each.lag, labels) for labels, each in named],
        )
        yield MeterFamily(
            "tidelog_sink_failures_total",
            COUNTER,
            "How often a sink has failed",
            [MeterSample(each.failures, labels) for labels, each in named],
        )
        yield MeterFamily(
            "tidelog_sink_read_bytes_total",
            COUNTER,
            "Bytes of logs that were read for a sink",
            [MeterSample(each.read_bytes, labels) for labels, each in named],
        )


class ProcessMeters:
    """The process, by the names of Prometheus' client libraries; Linux tells memory and descriptors."""

    def __init__(self) -> None:
        self._started = time.time()

    def families(self) -> Iterable[MeterFamily]:
        """Return CPU time, memory, descriptors and the time of the start."""
        yield _counter("process_cpu_seconds_total", "Seconds of processor time", time.process_time())
        yield _gauge("process_start_time_seconds", "When it started, in seconds of Unix time", self._started)
        if PROC.exists():
            pages = int((PROC / "statm").read_text().split()[1])
            used = pages * os.sysconf("SC_PAGE_SIZE")
            yield _gauge("process_resident_memory_bytes", "Bytes of memory in use", used)
            yield _gauge("process_open_fds", "Open file descriptors", len(list((PROC / "fd").iterdir())))
            yield _gauge("process_max_fds", "Most descriptors that it may open", os.sysconf("SC_OPEN_MAX"))


def _gauge(name: str, text: str, value: float) -> MeterFamily:
    return MeterFamily(name, GAUGE, text, [MeterSample(value)])


def _counter(name: str, text: str, value: float) -> MeterFamily:
    return MeterFamily(name, COUNTER, text, [MeterSample(value)])
