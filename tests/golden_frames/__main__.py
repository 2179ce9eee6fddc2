"""`python -m tests.golden_frames` captures the frames anew."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.peers.kafka_server import running_kafka
from tests.peers.ports import LOOPBACK
from tests.peers.tidelog_server import running_tidelog

from .captures import file_of, save
from .clients import CLIENTS
from .proxy import running_proxy

BROKERS = ("kafka", "tidelog")


def capture(client: str, broker: str) -> None:
    """Capture what a client exchanges with a new broker."""
    with running_proxy() as proxy, TemporaryDirectory() as folder:
        advertised = {"advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{proxy.port}"}
        running = running_kafka if broker == "kafka" else running_tidelog
        with running(Path(folder), settings=advertised) as server:
            proxy.upstream_port = server.port
            CLIENTS[client](f"{LOOPBACK}:{proxy.port}")
        path = file_of(client, broker)
        save(path, proxy.exchanges)
        print(f"{path.name}: {len(proxy.exchanges)} exchanges, {path.stat().st_size} bytes")


if __name__ == "__main__":
    for client in CLIENTS:
        for broker in BROKERS:
            capture(client, broker)
