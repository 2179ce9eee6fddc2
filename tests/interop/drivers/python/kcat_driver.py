"""Scenarios with kcat. Arguments: bootstrap servers, path of the program."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.interop.drivers.python.driving import (
    COUNT,
    HEADERS,
    MEGABYTE,
    WAIT_S,
    Answer,
    drive,
    key,
    row,
    timestamp_ms,
    value,
)

_RECORD = r"%o\t%T\t%K\t%k\t%S\t%s\n"


class Kcat:
    """Each public method is an action."""

    def __init__(self, bootstrap: str, program: str) -> None:
        self._words = [program, "-b", bootstrap]

    def list_topics(self, topic: str, _: str) -> Answer:
        described = json.loads(self._run("-L", "-J"))
        return {"listed": topic in [each["topic"] for each in described["topics"]]}

    def describe_topic(self, topic: str, _: str) -> Answer:
        described = json.loads(self._run("-L", "-J", "-t", topic))
        return {"partitions": len(described["topics"][0]["partitions"])}

    def describe_cluster(self, _topic: str, _: str) -> Answer:
        return {"brokers": [each["name"] for each in json.loads(self._run("-L", "-J"))["brokers"]]}

    def list_offsets(self, topic: str, _: str) -> Answer:
        return {"earliest": self._offset(topic, -2), "latest": self._offset(topic, -1)}

    def produce(self, topic: str, codec: str) -> Answer:
        return self._send(topic, "-z", codec)

    def acks(self, topic: str, acks: str) -> Answer:
        return self._send(topic, "-X", f"acks={acks}")

    def idempotent(self, topic: str, _: str) -> Answer:
        return self._send(topic, "-X", "enable.idempotence=true")

    def headers(self, topic: str, _: str) -> Answer:
        headers = [word for name, content in HEADERS for word in ("-H", f"{name}={content.decode()}")]
        return self._send_text(topic, b"key:value\n", "-K", ":", *headers)

    def null_key(self, topic: str, _: str) -> Answer:
        return self._send_text(topic, b"value\n")

    def null_value(self, topic: str, _: str) -> Answer:
        return self._send_text(topic, b"key:\n", "-K", ":", "-Z")

    def megabyte(self, topic: str, _: str) -> Answer:
        large = ["-X", f"message.max.bytes={2 * MEGABYTE}"]
        return self._send_text(topic, b"key:" + b"m" * MEGABYTE + b"\n", "-K", ":", *large)

    def too_large(self, topic: str, _: str) -> Answer:
        return self._send_text(topic, b"key:" + b"m" * 5000 + b"\n", "-K", ":")

    def auto_create(self, topic: str, _: str) -> Answer:
        return self._send_text(topic, b"key:value\n", "-K", ":")

    def read(self, topic: str, _: str) -> Answer:
        return {"records": [row(*each[:1], *each[2:]) for each in self._read(topic)]}

    def read_timestamps(self, topic: str, _: str) -> Answer:
        return {"timestamps": [each[1] for each in self._read(topic)]}

    def read_headers(self, topic: str, _: str) -> Answer:
        printed = self._consume(topic, "beginning", "-e", "-f", "%h").strip()
        return {"headers": [each.split("=") for each in printed.split(",")]}

    def read_nulls(self, topic: str, _: str) -> Answer:
        return self.read(topic, "")

    def read_megabyte(self, topic: str, _: str) -> Answer:
        return {"sizes": [int(size) for size in self._consume(topic, "beginning", "-e", "-f", "%S ").split()]}

    def seek_offset(self, topic: str, _: str) -> Answer:
        printed = self._consume(topic, "7", "-e", "-f", "%o ")
        return {"offsets": [int(offset) for offset in printed.split()]}

    def seek_end(self, topic: str, _: str) -> Answer:
        return {"ends": [self._offset(topic, -2), self._offset(topic, -1)]}

    def seek_time(self, topic: str, _: str) -> Answer:
        return {"offset": self._offset(topic, timestamp_ms(4) + 1)}

    def read_committed(self, topic: str, _: str) -> Answer:
        committed = ["-X", "isolation.level=read_committed"]
        return {"keys": self._consume(topic, "beginning", "-e", "-f", "%k ", *committed).split()}

    def group_read(self, topic: str, group: str) -> Answer:
        return self._group_read(topic, group, COUNT)

    def group_resume(self, topic: str, group: str) -> Answer:
        return self._group_read(topic, group, 4)

    def static_member(self, topic: str, group: str) -> Answer:
        return self._group_read(topic, group, COUNT, "-X", "group.instance.id=one")

    def _run(self, *arguments: str, stdin: bytes = b"") -> str:
        words = [*self._words, *arguments]
        ended = subprocess.run(words, input=stdin, capture_output=True, timeout=WAIT_S * 3)
        if ended.returncode:
            raise RuntimeError(ended.stderr.decode().strip()[-500:])
        return ended.stdout.decode()

    def _offset(self, topic: str, time_ms: int) -> int:
        return int(self._run("-Q", "-t", f"{topic}:0:{time_ms}").split()[-1])

    def _send(self, topic: str, *arguments: str) -> Answer:
        lines = b"".join(key(n) + b":" + value(n) + b"\n" for n in range(COUNT))
        return self._send_text(topic, lines, "-K", ":", *arguments)

    def _send_text(self, topic: str, lines: bytes, *arguments: str) -> Answer:
        self._run("-P", "-t", topic, "-p", "0", *arguments, stdin=lines)
        return {}

    def _consume(self, topic: str, offset: str, *arguments: str) -> str:
        return self._run("-C", "-t", topic, "-p", "0", "-o", offset, "-q", *arguments)

    def _read(self, topic: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
        records: list[tuple[int, int, bytes | None, bytes | None]] = []
        for line in self._consume(topic, "beginning", "-e", "-f", _RECORD).splitlines():
            offset, timestamp, key_size, key, size, value = line.split("\t")
            contents = [None if int(n) < 0 else text.encode() for n, text in ((key_size, key), (size, value))]
            records.append((int(offset), int(timestamp), contents[0], contents[1]))
        return records

    def _group_read(self, topic: str, group: str, count: int, *arguments: str) -> Answer:
        settings = ["-X", "auto.offset.reset=earliest", "-c", str(count), *arguments]
        printed = self._run("-G", group, "-q", "-f", "%o\n", *settings, topic)
        return {"count": len(printed.split())}


if __name__ == "__main__":
    drive(Kcat(sys.argv[1], sys.argv[2]))
