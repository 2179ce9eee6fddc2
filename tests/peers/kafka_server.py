"""Apache Kafka as a single KRaft node on loopback."""

from __future__ import annotations

import base64
import os
import signal
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import attrs

from tests.deadlines import DEADLINE_S

from .java import QUICK_JVM_OPTIONS
from .kafka import NEWEST_KAFKA, KafkaDistribution, find_kafka
from .ports import LOOPBACK, free_ports, plain_and_tls
from .process import ServerFailedError, ServerProcess
from .readiness import wait_until_answers

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

# What kafka-server-start.sh and kafka-run-class.sh pass to the JVM of a broker.
SHIPPED_JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# A node that lives for seconds.
_QUICK_JVM_OPTIONS = ("-Xmx512M", *QUICK_JVM_OPTIONS, "-Djava.awt.headless=true")
_STORAGE_TOOL = "kafka.tools.StorageTool"
_MAIN_CLASS = "kafka.Kafka"


def _data_in_work_dir(server: KafkaServer) -> Path:
    return server.work_dir / "data"


@attrs.define
class KafkaServer:
    """A node whose configuration and output are in `work_dir` and whose logs are in `data_dir`.

    It can be started again after `stop` or `kill`, on the same ports and data. `settings` are lines of
    server.properties that replace or join the ones a single node needs. The controller is found by
    `controller.quorum.voters`, or by `controller.quorum.bootstrap.servers` with `dynamic_quorum`. A new
    directory is formatted with `release_version`, without it with the newest levels. Without
    `jvm_options` the JVM starts as quickly as it can, with an archive of the newest release's classes.
    With `ssl.keystore.location` among the settings there is a second listener, at `tls_port`.
    `loggers` have levels of their own; all others log warnings. `scram` are users of a new directory, as the
    tool takes them that formats it.
    """

    distribution: KafkaDistribution
    work_dir: Path
    settings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    jvm_options: tuple[str, ...] | None = None
    data_dir: Path = attrs.field(default=attrs.Factory(_data_in_work_dir, takes_self=True))
    dynamic_quorum: bool = False
    release_version: str | None = None
    loggers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    scram: tuple[str, ...] = ()
    port: int = attrs.field(init=False)
    tls_port: int = attrs.field(init=False)
    process: ServerProcess = attrs.field(init=False)
    _controller_port: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.port, self._controller_port, self.tls_port = free_ports(3)
        jvm_options = _quick_options(self.distribution) if self.jvm_options is None else self.jvm_options
        levels = [f"-Dorg.slf4j.simpleLogger.log.{name}={level}" for name, level in self.loggers.items()]
        self.process = ServerProcess(
            self.name,
            self.distribution.command(_MAIN_CLASS, [str(self._properties_path)], (*jvm_options, *levels)),
            self.work_dir / "kafka.log",
        )

    @property
    def name(self) -> str:
        """What messages and tables call this server."""
        return f"Apache Kafka {self.distribution.version}"

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self.process.pid

    @property
    def _properties_path(self) -> Path:
        return self.work_dir / "server.properties"

    @property
    def _format_options(self) -> list[str]:
        options = ["--standalone"] if self.dynamic_quorum else []
        if self.release_version is not None:
            options += ["--release-version", self.release_version]
        for user in self.scram:
            options += ["--add-scram", user]
        return options

    def properties(self) -> dict[str, str]:
        """The node's whole configuration, by Kafka's key names."""
        clients, controller = f"PLAINTEXT://{LOOPBACK}:{self.port}", f"{LOOPBACK}:{self._controller_port}"
        if "ssl.keystore.location" in self.settings:
            clients = plain_and_tls(self.port, self.tls_port)
        if self.dynamic_quorum:
            quorum = {"controller.quorum.bootstrap.servers": controller}
        else:
            quorum = {"controller.quorum.voters": f"1@{controller}"}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            **quorum,
            "listeners": f"{clients},CONTROLLER://{controller}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }

    def prepare(self) -> None:
        """Write the configuration and, for a directory that has none, Kafka's own metadata.

        Raises ServerFailedError when Kafka's StorageTool refuses.
        """
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}={value}\n" for key, value in self.properties().items()]
        self._properties_path.write_text("".join(lines), encoding="utf-8")
        if (self.data_dir / "meta.properties").exists():
            return
        # A letter in front: the tool takes an id that begins with a dash for an option.
        cluster_id = "k" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:].rstrip("=")
        formatted = self.distribution.run_tool(
            _STORAGE_TOOL,
            ["format", "-t", cluster_id, "-c", str(self._properties_path), *self._format_options],
        )
        if formatted.returncode != 0:
            raise ServerFailedError(
                f"{self.name} could not format {self.data_dir}: {formatted.stderr or formatted.stdout}"
            )

    def start(self, timeout_s: float = DEADLINE_S) -> None:
        """Start the node and wait until it answers ApiVersions.

        Raises ServerFailedError with the end of its log when it does not within `timeout_s`.
        """
        self.prepare()
        self.process.start()
        try:
            wait_until_answers(LOOPBACK, self.port, timeout_s, still_running=lambda: self.process.is_running)
        except (TimeoutError, ConnectionAbortedError) as error:
            self.kill()
            raise self.process.failed("did not become ready") from error

    def stop(self, timeout_s: float = 120.0) -> int | None:
        """A clean stop, by force after `timeout_s`; the exit status."""
        return self.process.stop(timeout_s)

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()


def _quick_options(distribution: KafkaDistribution) -> tuple[str, ...]:
    # A training run costs what the archive saves in ten starts; other releases are started once or twice.
    if distribution.version == NEWEST_KAFKA:
        distribution.archive.make(lambda options: _train(distribution, options))
    return (*_QUICK_JVM_OPTIONS, *distribution.archive.options())


def _train(distribution: KafkaDistribution, options: tuple[str, ...]) -> None:
    """Start a node with `options` and stop it; raises ServerFailedError unless it ended by itself."""
    with TemporaryDirectory() as work_dir:
        server = KafkaServer(distribution, Path(work_dir), jvm_options=(*_QUICK_JVM_OPTIONS, *options))
        server.start()
        if server.stop() != 128 + signal.SIGTERM:
            raise server.process.failed("did not end by itself")


@contextmanager
def running_kafka(
    work_dir: Path,
    *,
    version: str | None = None,
    settings: Mapping[str, str] | None = None,
    data_dir: Path | None = None,
    port: int | None = None,
) -> Generator[KafkaServer]:
    """A running Apache Kafka (the newest unless `version` says otherwise), stopped at the end.

    `port` is that of its first listener, where `settings` have listeners.

    Raises PeerUnavailableError when it cannot be had, ServerFailedError when it does not start.
    """
    server = KafkaServer(
        find_kafka(version) if version else find_kafka(),
        work_dir,
        settings or {},
        data_dir=data_dir or work_dir / "data",
    )
    server.port = port or server.port
    try:
        server.start()
        yield server
    finally:
        server.stop()
