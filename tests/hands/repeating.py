"""Doing again what a broker refuses that has just started."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaException

from tests.deadlines import DEADLINE_S

T = TypeVar("T")

PAUSE_S = 0.2


def repeat(action: Callable[[], T]) -> T:
    """Repeat what fails while a broker that has just started is not ready, and return its result.

    Raises:
        KafkaException: it still fails after `DEADLINE_S`.
    """
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return action()
        except KafkaException:
            if time.monotonic() >= deadline:
                raise
            time.sleep(PAUSE_S)
