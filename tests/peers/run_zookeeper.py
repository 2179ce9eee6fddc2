"""`make run-zookeeper`: ZooKeeper, and a broker that is registered in it, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from .ports import LOOPBACK
from .process import ServerFailedError
from .unavailable import PeerUnavailableError
from .zookeeper_server import ZOOKEEPER, ZooKeeperServer

USAGE = """\
ZooKeeper {version} is ready at {connect}; its data is in {folder}.
  state      tidelog zookeeper --set log.dirs={data}
  clients    those of Kafka 0.8 to 0.10, for example its console consumer:
             kafka-console-consumer.sh --zookeeper {connect} --topic orders --from-beginning
  nodes      zkCli.sh -server {connect} get /brokers/ids/1
"""


def main() -> int:
    """Run both; the exit status of the broker."""
    options = _options()
    data = Path(options.data)
    settings = {"tickTime": "2000", "admin.enableServer": "false"}
    try:
        server = ZooKeeperServer(data / "zookeeper", settings, options.zookeeper_port)
        with ExitStack() as running:
            running.callback(server.stop)
            server.start()
            logs = data / "logs"
            print(
                USAGE.format(version=ZOOKEEPER, connect=server.connect, folder=server.work_dir, data=logs),
                flush=True,
            )
            return _serve(server.connect, options.port, logs, options.arguments)
    except (PeerUnavailableError, ServerFailedError) as error:
        print(error, file=sys.stderr)
        return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--zookeeper-port", type=int, default=2181)
    parser.add_argument("--data", default="data")
    parser.add_argument("arguments", nargs="*", help="of `tidelog serve`, after --")
    return parser.parse_args()


def _serve(connect: str, port: int, logs: Path, arguments: list[str]) -> int:
    logs.mkdir(parents=True, exist_ok=True)
    settings = {
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "log.dirs": str(logs),
        "zookeeper.connect": connect,
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    # Before the broker starts: Ctrl-C reaches it too, and ZooKeeper has to outlive it.
    signal.signal(signal.SIGINT, lambda *_: None)
    with subprocess.Popen([sys.executable, "-m", "tidelog.kernel", "serve", *words, *arguments]) as broker:
        signal.signal(signal.SIGTERM, lambda *_: broker.terminate())
        return broker.wait()


if __name__ == "__main__":
    sys.exit(main())
