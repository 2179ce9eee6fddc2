"""Apache Kafka as it was: a broker with its metadata in ZooKeeper, and the clients and tools in its jar."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import attrs

from tests.deadlines import DEADLINE_S

from .java import QUICK_JVM_OPTIONS, find_java
from .maven import resolve_jars
from .ports import LOOPBACK, free_port
from .process import ServerProcess
from .readiness import answers_metadata, wait_until_answers

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

_SLF4J = "org.slf4j:slf4j-nop:1.7.36"
# Java had it up to 10, and releases before 1.0 use it.
_XML_BIND = "javax.xml.bind:jaxb-api:2.3.1"


def zookeeper_age_command(release: str, main_class: str, args: Sequence[str]) -> list[str]:
    """The command line of a program in the jar of a release of Kafka up to 3.9.

    Raises PeerUnavailableError when Java, Maven or the network is missing.
    """
    java = find_java(f"Apache Kafka {release}", at_least=11)
    if release.startswith("0."):
        jars = resolve_jars(f"org.apache.kafka:kafka_2.11:{release}", _SLF4J, _XML_BIND)
    else:
        jars = resolve_jars(f"org.apache.kafka:kafka_2.13:{release}", _SLF4J)
    return [java, "-Xmx512M", *QUICK_JVM_OPTIONS, "-cp", f"{jars}/*", main_class, *args]


def run_zookeeper_age_tool(release: str, main_class: str, *args: str) -> str:
    """What a program prints; raises AssertionError with its errors when it fails."""
    command = zookeeper_age_command(release, main_class, args)
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@attrs.define
class ZooKeeperKafka:
    """A broker of a release up to 3.9, with id 1, whose metadata is in the ZooKeeper at `connect`."""

    release: str
    work_dir: Path
    connect: str
    settings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    port: int = attrs.field(init=False, factory=free_port)
    process: ServerProcess = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        name = f"Apache Kafka {self.release} with ZooKeeper"
        command = zookeeper_age_command(self.release, "kafka.Kafka", [str(self._properties_path)])
        self.process = ServerProcess(name, command, self.work_dir / "kafka.log")

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def _properties_path(self) -> Path:
        return self.work_dir / "server.properties"

    @property
    def _is_oldest(self) -> bool:
        return self.release.startswith("0.8")

    def _address(self) -> Mapping[str, str]:
        if not self._is_oldest:
            return {"listeners": f"PLAINTEXT://{self.bootstrap}"}
        named = {"port": str(self.port), "host.name": LOOPBACK}
        return {**named, **{f"advertised.{key}": value for key, value in named.items()}}

    def start(self, timeout_s: float = DEADLINE_S) -> None:
        """Start the broker and wait until it answers; raises ServerFailedError when it does not."""
        self.work_dir.mkdir(parents=True, exist_ok=True)
        settings = {
            "broker.id": "1",
            **self._address(),
            "log.dirs": str(self.work_dir / "data"),
            "zookeeper.connect": self.connect,
            "zookeeper.session.timeout.ms": "60000",
            "offsets.topic.replication.factor": "1",
            **self.settings,
        }
        self._properties_path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.process.start()
        try:
            wait_until_answers(
                LOOPBACK,
                self.port,
                timeout_s,
                still_running=lambda: self.process.is_running,
                answers=partial(answers_metadata, topic=b"first" if self._is_oldest else b""),
            )
        except (TimeoutError, ConnectionAbortedError) as error:
            self.process.kill()
            raise self.process.failed("did not become ready") from error


@contextmanager
def running_zookeeper_kafka(
    release: str, work_dir: Path, connect: str, settings: Mapping[str, str] | None = None
) -> Generator[ZooKeeperKafka]:
    """A running broker, stopped at the end; raises as its parts do."""
    server = ZooKeeperKafka(release, work_dir, connect, settings or {})
    try:
        server.start()
        yield server
    finally:
        server.process.stop()
