"""Start a broker with TLS, a user and access control for development, and print what clients need.

The first start makes an authority, a certificate of the broker, and passwords of two users: admin, who may do
everything, and alice, who may do everything with topics and groups. They are in DATA/secure, which only the
owner can read.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

HOST = "localhost"
USER = "alice"
START_S = 60
PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
TIDELOG = Path(sys.executable).parent / "tidelog"


def main() -> int:
    """Run until the broker ends; a signal stops it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--data", type=Path, default=Path("data"))
    given = parser.parse_args()
    folder: Path = (given.data / "secure").absolute()
    prepare(folder)
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    broker = subprocess.Popen(serve(folder, given.data, given.port, ready))  # noqa: S603 - our own
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, _frame: broker.send_signal(number))
    try:
        if wait_until_ready(broker, ready):
            add_user(folder, given.port)
            print(configurations(folder, given.port), flush=True)
        return broker.wait()
    finally:
        broker.terminate()


def prepare(folder: Path) -> None:
    """Make certificates and passwords that are not there yet."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "broker.pem").exists():
        hosts = ["--host", HOST, "--host", "127.0.0.1"]
        run("certs", str(folder), *hosts)
    for user in ("admin", USER):
        file = folder / f"{user}.password"
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(secrets.token_urlsafe(18))
    (folder / "broker.toml").write_text(f'[users.admin]\nfile = "{folder / "admin.password"}"\n')
    (folder / "admin.properties").write_text(
        f"""\
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=PlainLoginModule required username="admin" password="${{directory:{folder}:admin.password}}";
config.providers=directory
config.providers.directory.class={PROVIDER}
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
"""
    )


def serve(folder: Path, data: Path, port: int, ready: Path) -> list[str]:
    """Return the command of the broker."""
    settings = {
        "listeners": f"SASL_SSL://127.0.0.1:{port}",
        "advertised.listeners": f"SASL_SSL://{HOST}:{port}",
        "log.dirs": str(data),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{folder}/broker.pem",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "authorizer.class.name": "standard",
        "super.users": "User:admin",
    }
    pairs = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    config = ["--config", str(folder / "broker.toml"), "--ready-file", str(ready)]
    return [str(TIDELOG), "serve", *config, *pairs]


def wait_until_ready(broker: subprocess.Popen[bytes], ready: Path) -> bool:
    """Return whether the broker is ready, False if it has ended."""
    deadline = time.monotonic() + START_S
    while not ready.exists():
        if broker.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def add_user(folder: Path, port: int) -> None:
    """Add alice and her permissions, unless they are there."""
    connect = ["-b", f"{HOST}:{port}", "--command-config", str(folder / "admin.properties")]
    if USER not in run("users", "list", USER, "--json", *connect):
        password = ["--password-file", str(folder / f"{USER}.password"), "--mechanism", "SCRAM-SHA-512"]
        run("users", "add", USER, *password, *connect)
    on = ["--topic", "*", "--group", "*", "--transactional-id", "*"]
    run("acls", "add", "--principal", f"User:{USER}", "--operation", "all", *on, *connect)


def run(*arguments: str) -> str:
    """Run a command of tidelog and return what it prints; its errors are printed.

    Raises:
        CalledProcessError: it fails.
    """
    done = subprocess.run([str(TIDELOG), *arguments], stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own
    return done.stdout


def configurations(folder: Path, port: int) -> str:
    """Return what to copy into clients."""
    password = (folder / f"{USER}.password").read_text()
    return f"""\
The password of the user {USER} is in {folder}/{USER}.password.
What the user admin needs is in {folder}/admin.properties.

Clients in Java, and --command-config of commands:
  bootstrap.servers={HOST}:{port}
  security.protocol=SASL_SSL
  sasl.mechanism=SCRAM-SHA-512
  sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" \
password="{password}";
  ssl.truststore.type=PEM
  ssl.truststore.location={folder}/ca.pem

librdkafka:
  bootstrap.servers={HOST}:{port}
  security.protocol=SASL_SSL
  sasl.mechanisms=SCRAM-SHA-512
  sasl.username={USER}
  sasl.password={password}
  ssl.ca.location={folder}/ca.pem

Python (tidelog.client):
  Producer("{HOST}:{port}", security_protocol="SASL_SSL", ssl_cafile="{folder}/ca.pem", \
sasl_mechanism="SCRAM-SHA-512", sasl_plain_username="{USER}", sasl_plain_password="{password}")
"""


if __name__ == "__main__":
    sys.exit(main())
