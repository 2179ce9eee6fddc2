"""The report of `tidelog serve` that the broker is ready: for scripts, people, the log, a service manager."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.kernel.config import Config, keys
from tidelog.kernel.errors import ConfigError

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker

_log = logging.getLogger(__name__)
_IMPORTED_AT = time.monotonic()


class ReadyReport:
    """Called with the broker when it is ready."""

    def __init__(self, config: Config, ready_file: Path | None) -> None:
        self._config = config
        self._file = ready_file

    def prepare(self) -> None:
        """Remove an old ready file, so that no one mistakes it for this broker's.

        Raises:
            ConfigError: the file could not be written later.
        """
        if self._file is None:
            return
        if not self._file.parent.is_dir():
            raise ConfigError(
                f"The ready file {self._file} cannot be written: there is no folder {self._file.parent}."
            )
        self.withdraw()

    def __call__(self, broker: Broker) -> None:
        """Report it in every way that this start asks for."""
        ready_after_ms = milliseconds_since_process_start()
        if self._file is not None:
            self._write(self._file, broker, ready_after_ms)
        if self._config[keys.LOG_FORMAT] != "json":
            click.echo(_banner(broker, ready_after_ms))
        addresses = ", ".join(f"{name}://{address}" for name, address in broker.listeners.items())
        _log.info(
            "ready", extra={"listeners": addresses, "ready_after_ms": ready_after_ms, "pid": os.getpid()}
        )
        notify_service_manager(f"READY=1\nSTATUS=listening on {addresses}")

    def withdraw(self) -> None:
        """Remove the ready file, since the broker has stopped."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _write(self, file: Path, broker: Broker, ready_after_ms: int) -> None:
        # Not at the top: only a ready file needs it.
        import json

        content = {
            "pid": os.getpid(),
            "listeners": broker.listeners,
            "ready_after_ms": ready_after_ms,
            "cluster_id": broker.cluster.cluster_id,
            "node_id": self._config[keys.NODE_ID],
        }
        # A reader that waits for the file must never see half of it.
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        temporary.write_text(json.dumps(content) + "\n")
        temporary.replace(file)


def notify_service_manager(state: str) -> None:
    """Send `state` to the service manager that has started this process, such as systemd, if there is one.

    Source: sd_notify(3); the address begins with `@` if it is in Linux' abstract namespace.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # Not at the top: most starts need none.
    import socket

    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.connect("\0" + address[1:] if address.startswith("@") else address)
            connection.sendall(state.encode())
    except OSError as error:
        _log.warning("the service manager at NOTIFY_SOCKET=%s cannot be reached: %s", address, error)


def milliseconds_since_process_start() -> int:
    """Since the process began, interpreter and imports included; else, since this module was imported.

    Linux counts the start in ticks of 10 ms, in field 22 of `/proc/self/stat`.
    """
    try:
        stat = Path("/proc/self/stat").read_text()
        ticks = int(stat.rpartition(")")[2].split()[19])
        started = ticks / os.sysconf("SC_CLK_TCK")
        return round((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000)
    except (OSError, AttributeError, ValueError, IndexError):
        return round((time.monotonic() - _IMPORTED_AT) * 1000)


def _banner(broker: Broker, ready_after_ms: int) -> str:
    address = _reachable(next(iter(broker.listeners.values())))
    lines = [
        f"tidelog is ready after {ready_after_ms} ms.",
        *(f"  listening  {name}://{bound}" for name, bound in broker.listeners.items()),
        f"  storage    {broker.config[keys.STORAGE]}, cluster {broker.cluster.cluster_id}",
        f"  connect    bootstrap.servers={address}, for example: kcat -b {address} -L",
        f"  stop       Ctrl-C, or kill {os.getpid()}",
    ]
    return "\n".join(lines)


def _reachable(bound: str) -> str:
    """Return an address on this machine for a bound one, which may be every interface."""
    host, _, port = bound.rpartition(":")
    every_interface = ("", "0.0.0.0", "[::]")  # noqa: S104 - compared, not bound
    return f"localhost:{port}" if host in every_interface else bound
