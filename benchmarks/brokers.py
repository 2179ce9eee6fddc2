"""The brokers that are measured: how to make one, and what all of them offer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import attrs

from tests.peers import (
    SHIPPED_JVM_OPTIONS,
    KafkaDistribution,
    KafkaServer,
    ServerProcess,
    TidelogServer,
    free_port,
)
from tidelog.kernel.compiled import described

if TYPE_CHECKING:
    from collections.abc import Sequence

TIDELOG, KAFKA = "tidelog", "kafka"
BASELINE = "baseline"
"""A second tidelog: other settings, or the code of another checkout."""
# Runs delete what they wrote; a minute's wait, the default, would pile up gigabytes in memory.
_SETTINGS = {"log.segment.delete.delay.ms": "1000"}
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


class BrokerServer(Protocol):
    """A broker on loopback that can be started and ended."""

    @property
    def process(self) -> ServerProcess: ...
    @property
    def data_dir(self) -> Path: ...
    @property
    def port(self) -> int: ...
    @property
    def tls_port(self) -> int:
        """Where it listens for TLS if the settings have a key store."""
        ...

    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def prepare(self) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> int | None: ...
    def kill(self) -> None: ...


class BrokerKind(Protocol):
    """One of the products that are compared."""

    @property
    def key(self) -> str:
        """What results are kept under."""
        ...

    @property
    def title(self) -> str:
        """Name and version."""
        ...

    @property
    def compiles_while_it_runs(self) -> bool:
        """Whether it is slower at first, as a JVM is."""
        ...

    def server(self, work_dir: Path, settings: Mapping[str, str] = NO_SETTINGS) -> BrokerServer:
        """A broker that was not started yet, with everything it writes in `work_dir`."""
        ...

    def describe(self) -> dict[str, object]:
        """How it is run, for the record."""
        ...


@attrs.frozen
class TidelogKind:
    """The tidelog of this checkout, in this interpreter."""

    launcher: Sequence[str] = (sys.executable, "-P", "-m", "tidelog.kernel")
    key: str = attrs.field(default=TIDELOG, init=False)
    compiles_while_it_runs: bool = attrs.field(default=False, init=False)

    @property
    def title(self) -> str:
        return f"tidelog {version('tidelog')} ({described()})"

    def server(self, work_dir: Path, settings: Mapping[str, str] = NO_SETTINGS) -> TidelogServer:
        # Its port is known beforehand, so that the probe for its first answer can knock from the start on.
        return TidelogServer(
            work_dir, {**_SETTINGS, **settings}, requested_port=free_port(), launcher=self.launcher
        )

    def describe(self) -> dict[str, object]:
        return {"title": self.title, "launcher": list(self.launcher), "settings": _SETTINGS}


@attrs.frozen
class BaselineKind:
    """A tidelog that this checkout's is compared with: other settings, another checkout, nothing compiled."""

    settings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    checkout: Path | None = None
    pure: bool = False
    key: str = attrs.field(default=BASELINE, init=False)
    compiles_while_it_runs: bool = attrs.field(default=False, init=False)

    @property
    def title(self) -> str:
        parts = [f"{key}={value}" for key, value in self.settings.items()]
        if self.checkout is not None:
            parts.insert(0, self.checkout.name)
        if self.pure:
            parts.insert(0, "pure Python")
        return f"tidelog with {', '.join(parts)}"

    @property
    def _launcher(self) -> Sequence[str]:
        launcher = TidelogKind().launcher
        if self.checkout is not None:
            launcher = (str(python_of(self.checkout)), *launcher[1:])
        return ("env", "TIDELOG_PURE=1", *launcher) if self.pure else launcher

    def server(self, work_dir: Path, settings: Mapping[str, str] = NO_SETTINGS) -> TidelogServer:
        settings = {**_SETTINGS, **settings, **self.settings}
        return TidelogServer(work_dir, settings, requested_port=free_port(), launcher=self._launcher)

    def describe(self) -> dict[str, object]:
        settings = {**_SETTINGS, **self.settings}
        return {"title": self.title, "launcher": list(self._launcher), "settings": settings}


def python_of(checkout: Path) -> Path:
    """Return the interpreter of the virtual environment that `make` sets up in a checkout."""
    return checkout / ".venv" / "bin" / "python"


@attrs.frozen
class KafkaKind:
    """A release of Apache Kafka, heap and JVM options as shipped."""

    distribution: KafkaDistribution
    key: str = attrs.field(default=KAFKA, init=False)
    compiles_while_it_runs: bool = attrs.field(default=True, init=False)

    @property
    def title(self) -> str:
        return f"Apache Kafka {self.distribution.version}"

    def server(self, work_dir: Path, settings: Mapping[str, str] = NO_SETTINGS) -> KafkaServer:
        return KafkaServer(self.distribution, work_dir, {**_SETTINGS, **settings}, SHIPPED_JVM_OPTIONS)

    def describe(self) -> dict[str, object]:
        java = self.distribution.java
        return {"title": self.title, "java": java, "settings": _SETTINGS}
