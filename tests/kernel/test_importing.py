"""Imports of a running broker: in threads that leave the interpreter's lock to the event loop soon."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
import trio

from tidelog.kernel.importing import SWITCH_SECONDS, import_in_thread


@pytest.fixture(autouse=True)
def usual_interval() -> Iterator[float]:
    """Python's default, whatever other tests did; it has to be the interval afterwards."""
    sys.setswitchinterval(0.005)
    yield 0.005
    assert sys.getswitchinterval() == pytest.approx(0.005)


async def test_import_in_thread_returns_what_was_imported_elsewhere() -> None:
    assert await import_in_thread(threading.get_ident) != threading.get_ident()


async def test_import_in_thread_has_the_interpreter_switch_sooner_until_the_last_one_ends() -> None:
    begun, finish = threading.Semaphore(0), threading.Event()
    seen: list[float] = []

    def load() -> None:
        begun.release()
        assert finish.wait(60)
        seen.append(sys.getswitchinterval())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(import_in_thread, load)
        nursery.start_soon(import_in_thread, load)
        for _ in range(2):
            await trio.to_thread.run_sync(begun.acquire)
        # One that is finished meanwhile leaves it short for the others.
        await import_in_thread(lambda: None)
        finish.set()
    assert seen == pytest.approx([SWITCH_SECONDS] * 2)


async def test_import_in_thread_that_fails_restores_the_interval() -> None:
    with pytest.raises(ModuleNotFoundError):
        await import_in_thread(lambda: __import__("tidelog_has_no_such_module"))
