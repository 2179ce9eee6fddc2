"""The HTTP server that people write in front of a broker: routes of aiohttp that call confluent-kafka.

`python -m benchmarks.http_route HOST:PORT TOPIC` prints the port that it listens on.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from typing import Any

from aiohttp import web
from confluent_kafka import Consumer, Producer, TopicPartition


class Routes:
    """Produce and fetch of one topic, as JSON."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "routes", "enable.auto.commit": False}
        )
        threading.Thread(target=self._poll, daemon=True).start()

    def _poll(self) -> None:
        while True:
            self._producer.poll(1)

    def application(self) -> web.Application:
        """What is served."""
        app = web.Application()
        path = f"/topics/{self._topic}"
        app.add_routes([web.post(path, self.produce), web.get(f"{path}/partitions/0/records", self.fetch)])
        return app

    async def produce(self, request: web.Request) -> web.Response:
        """Answer once all records are acknowledged."""
        loop, body = asyncio.get_running_loop(), await request.json()
        left, done = len(body["records"]), loop.create_future()
        offsets: list[dict[str, int]] = []

        def delivered(_error: Any, message: Any) -> None:
            nonlocal left
            left -= 1
            offsets.append({"partition": message.partition(), "offset": message.offset()})
            if not left:
                loop.call_soon_threadsafe(done.set_result, None)

        for record in body["records"]:
            self._producer.produce(self._topic, json.dumps(record["value"]).encode(), on_delivery=delivered)
        await done
        return web.json_response({"offsets": offsets})

    async def fetch(self, request: web.Request) -> web.Response:
        """Answer with as many records from an offset on as the request names."""
        offset, most = int(request.query["offset"]), int(request.query["max_records"])
        read = asyncio.get_running_loop().run_in_executor(None, self._read, offset, most)
        return web.json_response(await read)

    def _read(self, offset: int, most: int) -> list[dict[str, Any]]:
        self._consumer.assign([TopicPartition(self._topic, 0, offset)])
        return [
            {"offset": each.offset(), "value": json.loads(each.value() or b"")}
            for each in self._consumer.consume(most, 10)
        ]


def main() -> None:
    """Serve until the process is ended."""
    bootstrap, topic = sys.argv[1:]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        web.run_app(Routes(bootstrap, topic).application(), sock=listening, print=None, access_log=None)


if __name__ == "__main__":
    main()
