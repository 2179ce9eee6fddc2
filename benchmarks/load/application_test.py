"""A test of an application as a program: one topic, a record, and a group that reads it, by confluent-kafka.

The argument is the server: `tidelog` or `mock` in this process, or the address of one that runs. It prints as
JSON the milliseconds until the server was ready, and with tidelog those until a second one was.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module

PATIENCE_S = 60.0


def use(bootstrap: str) -> None:
    """Write a record, and read it as a member of a group."""
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", b"tea")
    assert producer.flush(PATIENCE_S) == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": "kitchen", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    (found,) = consumer.consume(1, PATIENCE_S)
    assert found.value() == b"tea"
    consumer.close()


def main(server: str) -> None:
    """Run the test with a server."""
    # Where a fixture starts a server it is there.
    import_module("pytest")
    ready_ms: list[float] = []
    if server == "tidelog":
        for _ in range(2):
            began = time.perf_counter()
            from tidelog.testing.server import KafkaServer

            kafka = KafkaServer()
            kafka.start()
            ready_ms.append((time.perf_counter() - began) * 1000)
            if len(ready_ms) == 1:
                use(kafka.bootstrap)
            kafka.stop()
    elif server == "mock":
        from confluent_kafka import Producer

        owner = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock"})
        (broker,) = owner.list_topics(timeout=PATIENCE_S).brokers.values()
        use(f"{broker.host}:{broker.port}")
    else:
        use(server)
    print(json.dumps(ready_ms))


if __name__ == "__main__":
    main(sys.argv[1])
