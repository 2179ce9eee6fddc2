"""The broker that clients are tried against."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from tests.peers import KafkaServer, TidelogServer, find_kafka, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

AGAINST_VARIABLE = "CLIENTS_AGAINST"
AGAINST_KAFKA = os.environ.get(AGAINST_VARIABLE) == "kafka"

Broker: TypeAlias = KafkaServer | TidelogServer


@contextmanager
def running_broker(work_dir: Path, settings: Mapping[str, str] | None = None) -> Generator[Broker]:
    """A broker that can be stopped, killed and started again at the same address.

    It keeps records however old: those of tests have times of their own.
    """
    broker = _broker(work_dir, {"log.retention.ms": "-1", **(settings or {})})
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def stop_then_kill(broker: Broker) -> Callable[[], None]:
    """Return a function that stops the broker, at its second call kills it, and starts it again."""
    ends = iter((broker.stop, broker.kill))

    def restart() -> None:
        next(ends)()
        broker.start()

    return restart


def _broker(work_dir: Path, settings: dict[str, str]) -> Broker:
    if AGAINST_KAFKA:
        return KafkaServer(find_kafka(), work_dir, settings)
    return TidelogServer(work_dir, settings, requested_port=free_port())
