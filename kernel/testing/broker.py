"""A broker inside the test's own process: in a trio task, or in a thread for clients that block."""

from __future__ import annotations

import queue
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager

import attrs
import trio

from tidelog.kernel.broker import Broker
from tidelog.kernel.clock import Clock, wall_clock_ms
from tidelog.kernel.config import Sources, settings_from_mapping
from tidelog.kernel.config.config import DEFAULT_CODEC
from tidelog.kernel.plugins import configure

FOR_A_TEST = {"listeners": "PLAINTEXT://127.0.0.1:0", "storage": "memory", "log.retention.ms": -1}
"""Default settings of a broker for a test: in memory, on a free port of loopback.

Records are kept however old: those of a test have times of their own.
"""
INITIAL_REBALANCE_DELAY = "group.initial.rebalance.delay.ms"
"""Three seconds by default, in which a client that blocks would wait for its first records."""


@attrs.frozen
class ThreadedBroker:
    """A broker in a thread of its own; `token` is that of its trio run.

    `bootstrap` has the addresses of the listeners for Kafka's protocol, `broker.listeners` has all by name.
    """

    broker: Broker
    bootstrap: str
    token: trio.lowlevel.TrioToken


def new_broker(values: Mapping[str, object] | None = None, *, clock: Clock = wall_clock_ms) -> Broker:
    """Return a broker that is not running yet, by default in memory and on a free port of loopback."""
    config, plugins = configure(Sources().over(settings_from_mapping({**FOR_A_TEST, **(values or {})})))
    return Broker(config, plugins, clock=clock)


@asynccontextmanager
async def running_broker(
    values: Mapping[str, object] | None = None, *, clock: Clock = wall_clock_ms
) -> AsyncGenerator[Broker]:
    """Run a broker in this trio run; it stops gracefully when the block ends."""
    async with new_broker(values, clock=clock).running() as broker:
        yield broker


@contextmanager
def broker_in_thread(
    values: Mapping[str, object] | None = None, *, clock: Clock = wall_clock_ms
) -> Generator[ThreadedBroker]:
    """Run a broker in a thread of its own; it stops gracefully when the block ends.

    Without another value a group waits for no further members. `clock` is called in that thread.

    Raises:
        Exception: whatever kept it from starting.
    """
    values = {INITIAL_REBALANCE_DELAY: 0, **(values or {})}
    started: queue.SimpleQueue[tuple[Broker, trio.lowlevel.TrioToken] | Exception] = queue.SimpleQueue()

    async def main() -> None:
        async with new_broker(values, clock=clock).running() as broker:
            started.put((broker, trio.lowlevel.current_trio_token()))
            await broker.wait_stop_requested()

    def run() -> None:
        try:
            trio.run(main)
        except Exception as error:
            started.put(error)

    thread = threading.Thread(target=run, name="tidelog-broker", daemon=True)
    thread.start()
    outcome = started.get()
    if isinstance(outcome, Exception):
        raise outcome
    broker, token = outcome
    try:
        yield ThreadedBroker(broker, ",".join(_kafka_addresses(broker)), token)
    finally:
        token.run_sync_soon(broker.request_stop)
        thread.join()


def _kafka_addresses(broker: Broker) -> list[str]:
    served = broker.config.served_listeners()
    return [broker.listeners[each.name] for each in served if each.codec == DEFAULT_CODEC]
