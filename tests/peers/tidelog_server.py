"""tidelog as a real process, started the way its users start it."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from tests.deadlines import DEADLINE_S

from .ports import LOOPBACK, free_port, plain_and_tls
from .process import ServerProcess
from .readiness import wait_until_answers

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

_LISTENER = "PLAINTEXT"
_SECRETS = (".jaas.config", ".password", ".secret.key")
"""Ends of keys whose values no command line may have."""


def _data_in_work_dir(server: TidelogServer) -> Path:
    return server.work_dir / "data"


@attrs.define
class TidelogServer:
    """A broker whose output and ready file are in `work_dir` and whose logs are in `data_dir`.

    `port` 0 lets the broker pick one at every start; after `start` it is the bound one. `settings` are
    passed as `--set key=value`, or in a file if they are secrets, `arguments` as they are. It can be started
    again after `stop` or `kill`.
    With `ssl.keystore.location` among the settings there is a second listener, at `tls_port`.
    """

    work_dir: Path
    settings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    arguments: Sequence[str] = ()
    requested_port: int = 0
    launcher: Sequence[str] = (sys.executable, "-m", "tidelog.kernel")
    environment: Mapping[str, str] | None = None
    data_dir: Path = attrs.field(default=attrs.Factory(_data_in_work_dir, takes_self=True))
    port: int = attrs.field(init=False)
    tls_port: int = attrs.field(init=False)
    process: ServerProcess = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.port = self.requested_port
        self.tls_port = free_port() if "ssl.keystore.location" in self.settings else 0
        log_path = self.work_dir / "tidelog.log"
        self.process = ServerProcess(self.name, self.command(), log_path, self.environment)

    @property
    def name(self) -> str:
        """What messages and tables call this server."""
        return "tidelog"

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients, once started."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The broker's process id."""
        return self.process.pid

    @property
    def ready_file(self) -> Path:
        """Where the broker tells its address as soon as it is ready."""
        return self.work_dir / "ready.json"

    @property
    def _secrets_path(self) -> Path:
        return self.work_dir / "secrets.properties"

    @property
    def _secrets(self) -> dict[str, str]:
        return {key: value for key, value in self.settings.items() if key.endswith(_SECRETS)}

    def command(self) -> list[str]:
        """The command line of the broker."""
        plain = f"{_LISTENER}://{LOOPBACK}:{self.requested_port}"
        settings = {
            "listeners": plain_and_tls(self.requested_port, self.tls_port) if self.tls_port else plain,
            "log.dirs": str(self.data_dir),
            **self.settings,
        }
        options = [
            word
            for key, value in settings.items()
            if not key.endswith(_SECRETS)
            for word in ("--set", f"{key}={value}")
        ]
        if self._secrets:
            options += ["--config", str(self._secrets_path)]
        return [*self.launcher, "serve", *options, "--ready-file", str(self.ready_file), *self.arguments]

    def prepare(self) -> None:
        """Make the folders and remove an earlier run's ready file."""
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.ready_file.unlink(missing_ok=True)
        if self._secrets:
            lines = (f"{key}={value}\n".replace("\\", "\\\\") for key, value in self._secrets.items())
            self._secrets_path.write_text("".join(lines))

    def start(self, timeout_s: float = DEADLINE_S) -> None:
        """Start the broker and wait until it answers ApiVersions at the address of its ready file.

        Raises ServerFailedError with the end of its log when it does not within `timeout_s`.
        """
        self.prepare()
        self.process.start()
        deadline = time.monotonic() + timeout_s
        try:
            self.port = self._bound_port(deadline)
            wait_until_answers(
                LOOPBACK,
                self.port,
                max(0.1, deadline - time.monotonic()),
                still_running=lambda: self.process.is_running,
            )
        except (TimeoutError, ConnectionAbortedError) as error:
            self.kill()
            raise self.process.failed("did not become ready") from error

    def stop(self, timeout_s: float = 120.0) -> int | None:
        """A clean stop, by force after `timeout_s`; the exit status."""
        return self.process.stop(timeout_s)

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()

    def _bound_port(self, deadline: float) -> int:
        while True:
            told = self._read_ready_file()
            if told is not None:
                address: str = told["listeners"][_LISTENER]
                return int(address.rpartition(":")[2])
            if not self.process.is_running:
                raise ConnectionAbortedError("the broker ended before it was ready")
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{self.ready_file} did not appear")
            time.sleep(0.005)

    def _read_ready_file(self) -> dict[str, Any] | None:
        """The ready file's content, None while it is not there or not whole."""
        try:
            return json.loads(self.ready_file.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
        except (FileNotFoundError, json.JSONDecodeError):
            return None


@contextmanager
def running_tidelog(
    work_dir: Path,
    *,
    settings: Mapping[str, str] | None = None,
    data_dir: Path | None = None,
    arguments: Sequence[str] = (),
) -> Generator[TidelogServer]:
    """A running tidelog broker, stopped at the end. Raises ServerFailedError when it does not start."""
    server = TidelogServer(work_dir, settings or {}, arguments, data_dir=data_dir or work_dir / "data")
    try:
        server.start()
        yield server
    finally:
        server.stop()
