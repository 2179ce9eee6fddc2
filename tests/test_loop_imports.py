"""What a running broker imports at its first use is imported in threads, never by the event loop."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.deadlines import wait_until
from tests.plugins.protocol_kafka.apis.client import framed
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages.api import APIS
from tidelog.plugins.schema.declare import spec_of
from tidelog.plugins.schema.types import Array, Primitive, Struct

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.plugins.schema.types import Kind

Settings: TypeAlias = dict[str, str | int | float | bool]

TIMEOUT_S: Final = 60
BROKER: Final = """
import sys, threading, trio
from tidelog.kernel.testing.broker import running_broker

class Watch:
    def find_spec(self, name, path, target=None):
        if threading.get_ident() == loop:
            print(name, flush=True)

loop = 0

async def main():
    global loop
    settings = {
        "storage": "file", "log.dirs": sys.argv[1], "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.backoff.ms": 100, "log.segment.bytes": 1 << 20,
    }
    async with running_broker(settings) as broker:
        print(broker.listeners["PLAINTEXT"], flush=True)
        loop = threading.get_ident()
        await trio.to_thread.run_sync(sys.stdin.read)
        loop = 0

sys.meta_path.insert(0, Watch())
trio.run(main)
"""


class Watched:
    """A broker in a process of its own that prints what its event loop imports once it is ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process, self._output = process, process.stdout
        self.address = self._output.readline().strip()

    def imported(self) -> list[str]:
        """Stop it; the modules."""
        return self._process.communicate("", TIMEOUT_S)[0].split()


@contextmanager
def watched_broker(folder: Path) -> Generator[Watched]:
    """Such a broker, for the length of a block."""
    command = [sys.executable, "-c", BROKER, str(folder / "data")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            yield Watched(process)
        finally:
            process.kill()


ZEROS: Final[dict[str, Any]] = {"bool": False, "uuid": bytes(16), "string": "x", "bytes": b"", "records": b""}


def smallest(cls: type[Any]) -> Any:
    """A message of zeros and defaults, whose arrays have one element each."""
    required = [each for each in attrs.fields(cls) if each.default is attrs.NOTHING]
    fields = {each.name: _smallest(spec_of(each).kind) for each in required}
    return cls(**fields)


def _smallest(kind: Kind) -> Any:
    if isinstance(kind, Array):
        return [_smallest(kind.element)]
    if isinstance(kind, Struct):
        return smallest(kind.cls)
    assert isinstance(kind, Primitive)
    return ZEROS.get(kind.name, 0)


@pytest.mark.parametrize("newest", [True, False], ids=["newest versions", "oldest versions"])
def test_the_first_request_of_each_api_imports_nothing_on_the_event_loop(
    tmp_path: Path, newest: bool
) -> None:
    with watched_broker(tmp_path) as broker:
        host, port = broker.address.rsplit(":", 1)
        for served in BUILT_IN:
            api, version = APIS[served.key], served.span.high if newest else served.span.low
            with socket.create_connection((host, int(port)), TIMEOUT_S) as sock:
                sock.sendall(framed(api, version, smallest(api.request_class)))
                # One without an answer, and one that closes the connection, end at once, too.
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(100_000):
                    pass
        assert broker.imported() == []


def test_clients_import_nothing_on_the_event_loop(tmp_path: Path) -> None:
    """With every codec, transactions, both kinds of groups, compaction, and what tools ask for."""
    with watched_broker(tmp_path) as broker:
        bootstrap: Settings = {"bootstrap.servers": broker.address}
        admin = AdminClient(bootstrap)
        compacted = NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact", **EAGER})
        for created in admin.create_topics([compacted, *(NewTopic(name, 1, 1) for name in CODECS)]).values():
            created.result(TIMEOUT_S)
        for codec in CODECS:
            _produce(bootstrap, codec)
        for _ in range(3):
            _produce(bootstrap, "none", "compacted", 3_000)
        for protocol in ("classic", "consumer"):
            _consume(bootstrap, protocol)
        admin.list_consumer_groups().result(TIMEOUT_S)
        for described in admin.describe_consumer_groups(["classic", "consumer"]).values():
            described.result(TIMEOUT_S)
        wait_until(lambda: _log_bytes(tmp_path, "compacted") < 3 << 20, "compaction of 4 MB to 50 records")
        for deleted in admin.delete_topics([*CODECS]).values():
            deleted.result(TIMEOUT_S)
        assert broker.imported() == []


CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
EAGER: Final = {"min.cleanable.dirty.ratio": "0.01", "segment.bytes": str(1 << 20)}


def _log_bytes(folder: Path, topic: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(f"data/{topic}-0/*.log"))


def _produce(bootstrap: Settings, codec: str, topic: str | None = None, records: int = 100) -> None:
    """Produce in a transaction."""
    settings = {"compression.type": codec, "transactional.id": f"t-{codec}"}
    producer = Producer({**bootstrap, **settings})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for number in range(records):
        producer.produce(topic or codec, b"value" * 100, b"%d" % (number % 50))
        producer.poll(0)
    producer.commit_transaction(TIMEOUT_S)


def _consume(bootstrap: Settings, protocol: str) -> None:
    settings = {"group.id": protocol, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = Consumer({**bootstrap, **settings})
    consumer.subscribe([*CODECS])
    found = 0
    while found < len(CODECS) * 100:
        messages = consumer.consume(100, TIMEOUT_S)
        assert messages, f"{found} messages, and no more"
        found += len(messages)
    consumer.commit(asynchronous=False)
    consumer.close()
