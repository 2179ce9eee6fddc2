"""`tidelog test-broker`: a broker for as long as a command runs, for tests in any language."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from tidelog.testing.server import KafkaServer

VARIABLE: Final = "KAFKA_BOOTSTRAP_SERVERS"
"""In the environment of the command: the address of the broker."""
_NOT_FOUND, _NOT_EXECUTABLE, _TIMED_OUT = 127, 126, 124
"""Exit codes, as a shell and `timeout` have them."""
_GRACE_S: Final = 10.0

_EPILOG = f"""\b
Examples:
  tidelog test-broker -- npm test
  tidelog test-broker --topic orders:3 --ttl 60 -- go test ./...
  tidelog test-broker --set num.partitions=4 --print-bootstrap
  tidelog test-broker --data-dir data --port 9092

The command finds the address of the broker in {VARIABLE}: that of
advertised.listeners, if it is set. Its exit code is that of this one; {_TIMED_OUT} if its time was up.
Without a command the broker runs until it is interrupted. Records are in memory unless there is a directory,
groups wait for no further members, and topics are created when they are used.
"""


@click.command(
    "test-broker",
    epilog=_EPILOG,
    short_help="Run a broker for tests, as long as a command runs.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARGS]...]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting; repeatable.")
@click.option("--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS]", help="Create it; repeatable.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Keep records in files there.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 is a free one.", show_default=True)
@click.option("--print-bootstrap", is_flag=True, help="Print the address on standard output.")
@click.option(
    "--ttl",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="End broker and command after that time.",
)
def test_broker(
    command: tuple[str, ...],
    settings: tuple[str, ...],
    topics: tuple[str, ...],
    data_dir: Path | None,
    port: int,
    print_bootstrap: bool,
    ttl: float | None,
) -> None:
    """Run a broker for tests, as long as a command runs."""
    # Not at the top: `--help` needs no broker.
    from tidelog.testing.server import KafkaServer

    values = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", **dict(map(_setting, settings))}
    with KafkaServer(values, topics=dict(map(_topic, topics)), directory=data_dir) as kafka:
        if print_bootstrap or not command:
            click.echo(kafka.advertised)
            sys.stdout.flush()
        code = _run(command, kafka, ttl) if command else _wait(ttl)
    sys.exit(code)


def _run(command: tuple[str, ...], kafka: KafkaServer, ttl: float | None) -> int:
    environment = {**os.environ, VARIABLE: kafka.advertised}
    try:
        process = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's own command
    except FileNotFoundError:
        click.echo(f"tidelog: There is no command {command[0]!r}.", err=True)
        return _NOT_FOUND
    except PermissionError:
        click.echo(f"tidelog: {command[0]!r} may not be executed.", err=True)
        return _NOT_EXECUTABLE

    def hand_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, hand_on)
    try:
        code = process.wait(ttl)
    except subprocess.TimeoutExpired:
        click.echo(f"tidelog: {command[0]!r} was ended: it ran for more than {ttl:g} s.", err=True)
        _end(process)
        return _TIMED_OUT
    # As a shell says that a signal has ended it.
    return code if code >= 0 else 128 - code


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(ttl: float | None) -> int:
    ended = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda _number, _frame: ended.set())
    ended.wait(ttl)
    return 0


def _setting(text: str) -> tuple[str, object]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE.", param_hint="'--set'")
    return key, value


def _topic(text: str) -> tuple[str, int]:
    name, separator, count = text.rpartition(":")
    if not separator:
        return text, 1
    if not name or not count.isdecimal() or int(count) < 1:
        raise click.BadParameter(
            f"{text!r} is not of the form NAME or NAME:PARTITIONS.", param_hint="'--topic'"
        )
    return name, int(count)
