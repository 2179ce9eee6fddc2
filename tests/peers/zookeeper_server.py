"""ZooKeeper as a single server on loopback."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from tests.deadlines import DEADLINE_S

from .java import QUICK_JVM_OPTIONS, find_java
from .maven import resolve_jars
from .ports import LOOPBACK, free_port
from .process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

ZOOKEEPER = "3.9.4"
# What its server needs of them is optional for its clients, so its pom does not name them.
_OF_THE_SERVER = ("io.dropwizard.metrics:metrics-core:4.1.12.1", "org.xerial.snappy:snappy-java:1.1.10.5")
_MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
# The shortest sessions are two ticks, the longest twenty.
TICK_MS = 250
LONG_SESSIONS = {"maxSessionTimeout": "60000"}
"""Sessions are of twenty ticks at most: too few for a broker that nobody ends, on a machine that is busy."""


@attrs.define
class ZooKeeperServer:
    """A server whose output and data are in `work_dir`; it may be started again on the same port and data."""

    work_dir: Path
    settings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    port: int = attrs.field(factory=free_port)
    process: ServerProcess = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        name = f"ZooKeeper {ZOOKEEPER}"
        java = find_java(name, at_least=11)
        jars = resolve_jars(f"org.apache.zookeeper:zookeeper:{ZOOKEEPER}", *_OF_THE_SERVER)
        options = ("-Xmx256M", *QUICK_JVM_OPTIONS, "-Dzookeeper.admin.enableServer=false")
        command = [java, *options, "-cp", f"{jars}/*", _MAIN_CLASS, str(self._properties_path)]
        self.process = ServerProcess(name, command, self.work_dir / "zookeeper.log")

    @property
    def connect(self) -> str:
        """`host:port` for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def _properties_path(self) -> Path:
        return self.work_dir / "zoo.cfg"

    def start(self, timeout_s: float = DEADLINE_S) -> None:
        """Start the server and wait until it serves.

        Raises ServerFailedError with the end of its log when it does not within `timeout_s`.
        """
        self.work_dir.mkdir(parents=True, exist_ok=True)
        settings = {
            "dataDir": str(self.work_dir / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": LOOPBACK,
            "tickTime": str(TICK_MS),
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "srvr",
            **self.settings,
        }
        self._properties_path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.process.start()
        deadline = time.monotonic() + timeout_s
        while not self._serves():
            if not self.process.is_running or time.monotonic() >= deadline:
                self.kill()
                raise self.process.failed("did not become ready")
            time.sleep(0.02)

    def _serves(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=5) as connection:
                connection.sendall(b"srvr")
                return b"Mode:" in connection.makefile("rb").read()
        except OSError:
            return False

    def stop(self) -> int | None:
        """A clean stop; the exit status."""
        return self.process.stop()

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()


@contextmanager
def running_zookeeper(
    work_dir: Path, *, settings: Mapping[str, str] | None = None
) -> Generator[ZooKeeperServer]:
    """A running ZooKeeper, stopped at the end.

    Raises PeerUnavailableError when it cannot be had, ServerFailedError when it does not start.
    """
    server = ZooKeeperServer(work_dir, settings or {})
    try:
        server.start()
        yield server
    finally:
        server.stop()
