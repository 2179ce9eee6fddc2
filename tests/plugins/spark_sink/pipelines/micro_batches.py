"""A pipeline's process with everything but Spark: its source, its protocol, a small engine of micro-batches.

As Spark does, the engine stores where a micro-batch ends before it reads it, and repeats an unfinished one.
Each process is forked from one server, `forks`, that has imported PySpark, which takes seconds.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-I", "-S", "-c")
CLIENT = """
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
socket.send_fds(server, [sys.argv[2].encode()], [0, 1, 2])
os.close(0)
os.close(1)
code = server.recv(1)
sys.exit(code[0] if code else 1)
"""


class Engine:
    """Runs micro-batches until it is told to stop; rows are in one file for each."""

    def __init__(self, folder: Path) -> None:
        from tidelog.plugins.spark_sink.pipelines.definition import Pipeline
        from tidelog.plugins.spark_sink.pipelines.news_pipe import NewsSender
        from tidelog.plugins.spark_sink.pipelines.reader import PipelineDataSource

        pipeline = Pipeline.from_text(sys.stdin.readline())
        self._stopping = False
        self._news = NewsSender(folder / "news")
        threading.Thread(target=self._obey, daemon=True).start()
        own = {"topics": ",".join(pipeline.topics), "topicsRegex": pipeline.topics_regex or ""}
        source = PipelineDataSource({**pipeline.source_options, **own, "news": str(folder / "news")})
        self._reader: Any = source.streamReader(source.schema())
        self._checkpoint, self._table = Path(pipeline.checkpoint), Path(str(pipeline.output.path))
        for each in (self._checkpoint / "offsets", self._checkpoint / "commits", self._table):
            each.mkdir(parents=True, exist_ok=True)

    def _obey(self) -> None:
        from tidelog.plugins.spark_sink.pipelines.news_pipe import NEWS, STOP

        for line in sys.stdin:
            self._stopping = json.loads(line) == "stop"
            self._news.send(STOP if self._stopping else NEWS)
        if not self._stopping:
            os._exit(1)

    def run(self) -> None:
        """Run until the broker stops."""
        number = len([each for each in (self._checkpoint / "commits").iterdir() if each.name.isdecimal()])
        while not self._stopping:
            start = self._reader.initialOffset() if number == 0 else self._end_of(number - 1)
            if not self._offsets(number).exists() and not self._plan(number, start):
                continue
            end = self._end_of(number)
            rows = list(self._rows(start, end))
            _write(self._table / f"{number}.json", json.dumps(rows))
            _write(self._checkpoint / "commits" / str(number), "")
            print(json.dumps({"state": "running", "position": end, "batch": number}), flush=True)
            number += 1

    def _offsets(self, number: int) -> Path:
        return self._checkpoint / "offsets" / str(number)

    def _end_of(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._offsets(number).read_text())
        return found

    def _plan(self, number: int, start: dict[str, Any]) -> bool:
        end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        if end == start:
            return False
        _write(self._offsets(number), json.dumps(end), exclusive=True)
        return True

    def _rows(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[list[Any]]:
        for batch in self._batches(start, end):
            for row in batch.select(["topic", "partition", "offset", "key", "value"]).to_pylist():
                yield [each.hex() if isinstance(each, bytes) else each for each in row.values()]

    def _batches(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:
        from pyspark.sql import datasource_internal

        tasks = self._reader.partitions(start, end)
        if isinstance(self._reader, vars(datasource_internal)["_SimpleStreamReaderWrapper"]):
            yield from self._reader.getCache(start, end) or ()
        else:
            for task in tasks:
                yield from self._reader.read(task)


def _write(file: Path, text: str, *, exclusive: bool = False) -> None:
    """Replace a file; with `exclusive` fail if it is there: another process has taken over."""
    draft = file.with_name(f".{file.name}-{os.getpid()}")
    draft.write_text(text)
    if exclusive:
        os.link(draft, file)
        draft.unlink()
    else:
        draft.rename(file)


@contextmanager
def forks(folder: Path) -> Generator[tuple[str, ...]]:
    """Run the server; what is yielded is the command of a pipeline's process."""
    address = str(folder / "forks")
    with subprocess.Popen(
        [sys.executable, __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline(), "the server did not start"
        yield (*COMMAND, CLIENT, address)
        server.kill()


def serve(address: str) -> None:
    """Fork a process for each client; it gets the client's standard streams."""
    import_module("tidelog.plugins.spark_sink.pipelines.reader")  # which takes seconds

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(16)
        print("ready", flush=True)
        # Children are not waited for, and leave no zombies.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            client, _ = server.accept()
            if os.fork() == 0:
                work(client)
            client.close()


def work(client: socket.socket) -> None:
    """Be the process of a pipeline, and end."""
    data, descriptors, _, _ = socket.recv_fds(client, 4096, 3)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout = os.fdopen(0, "r"), os.fdopen(1, "w")
    code = 1
    try:
        Engine(Path(data.decode())).run()
        code = 0
    except Exception as error:
        print(json.dumps({"state": "failed", "error": repr(error)}), flush=True)
    finally:
        client.send(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
