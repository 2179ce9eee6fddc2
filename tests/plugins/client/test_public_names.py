"""`tidelog.client`: its names, and that an asyncio program needs no trio."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tidelog.client


def test_each_public_name_is_there() -> None:
    for name in tidelog.client.__all__:
        found = getattr(tidelog.client, name)
        assert getattr(found, "__name__", name).rpartition(".")[2] == name
    with pytest.raises(AttributeError, match="no attribute 'KafkaProducer'"):
        _ = tidelog.client.KafkaProducer  # pyright: ignore


ASYNCIO = """
import asyncio, sys
from tidelog.client import AsyncProducer

async def main():
    async with AsyncProducer("127.0.0.1:9"):
        assert "trio" not in sys.modules

asyncio.run(main())
"""


def test_an_asyncio_program_imports_no_trio() -> None:
    subprocess.run([sys.executable, "-c", ASYNCIO], check=True)


def test_an_async_producer_needs_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match="trio run or an asyncio event loop"):
        tidelog.client.AsyncProducer("127.0.0.1:9")


def test_a_client_that_was_never_used_has_nothing_open() -> None:
    def open_files() -> list[str]:
        return [each.name for each in Path("/proc/self/fd").iterdir()]

    before = len(open_files())
    kept: list[object] = []
    for _ in range(20):
        kept += [tidelog.client.Producer("127.0.0.1:9"), tidelog.client.Admin("127.0.0.1:9")]
        for wrong in (tidelog.client.Producer, tidelog.client.Consumer, tidelog.client.Admin):
            with pytest.raises(tidelog.client.ClientError):
                wrong("nowhere")
    assert len(open_files()) == before


EVERYTHING = """
import sys
import tidelog.client

for name in tidelog.client.__all__:
    getattr(tidelog.client, name)
tidelog.client.Producer("127.0.0.1:9")
tidelog.client.ConsumerConnector("127.0.0.1:9", group_id="g").shutdown()
assert "kazoo" not in sys.modules
assert "tidelog.kernel.config" not in sys.modules
"""


def test_a_client_that_names_brokers_loads_nothing_of_zookeeper() -> None:
    subprocess.run([sys.executable, "-c", EVERYTHING], check=True)
