"""`tidelog cleaner`: logs of a stopped broker are compacted by hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.kernel.cli.options import config_options, sources_of
from tidelog.kernel.config import keys

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tidelog.kernel.broker import Broker
    from tidelog.kernel.seams.storage import TopicPartition

_EPILOG = """\b
Examples:
  tidelog cleaner run --config server.properties
  tidelog cleaner run --set log.dirs=data prices orders

The broker has to be stopped. What it needs to know of the logs is in its directories; settings of the broker,
such as log.cleaner.threads and log.cleaner.dedupe.buffer.size, count as they do for `tidelog serve`.
"""


@click.group("cleaner")
def command() -> None:
    """Compact logs by hand."""


@command.command("run", epilog=_EPILOG)
@config_options
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
def run(config_file: Path | None, settings: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Compact the logs of a stopped broker, of all topics or of these, however little is to be compacted."""
    # Not at the top: `tidelog cleaner run --help` needs none of these.
    import trio

    from tidelog.kernel.broker import Broker
    from tidelog.kernel.cli.log_format import set_up_logging
    from tidelog.kernel.plugins import configure

    config, plugins = configure(sources_of(config_file, settings))
    set_up_logging(config[keys.LOG_FORMAT], config[keys.LOG_LEVEL])
    trio.run(_compact, Broker(config, plugins), topics)


async def _compact(broker: Broker, topics: tuple[str, ...]) -> None:
    async with broker.opened():
        missing = [name for name in topics if broker.topics.find(name) is None]
        found: Sequence[TopicPartition] = ()
        if not missing:
            with _Bar() as bar:
                found = await broker.cleanup.rewrite_now(topics, bar.show)
        statistics = broker.cleanup.statistics().values()
    if missing:
        raise click.ClickException(f"There is no topic {missing[0]!r} in these directories.")
    failures = sum(each.failures for each in statistics)
    read = sum(each.rewrite_read_bytes for each in statistics)
    kept = sum(each.rewrite_kept_bytes for each in statistics)
    print(f"{len(found) - failures} log(s) compacted: {kept} of {read} bytes are left.")
    if failures:
        raise click.ClickException(f"{failures} log(s) could not be compacted; the lines above say why.")


class _Bar:
    """A bar for the log that is read, on a terminal."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._rows: dict[TopicPartition, TaskID] = {}

    def __enter__(self) -> _Bar:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(console=Console(stderr=True), transient=True)
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, log: TopicPartition, done_bytes: int, all_bytes: int) -> None:
        """Show how much of a log was read."""
        if self._progress is None:
            return
        if log not in self._rows:
            self._rows[log] = self._progress.add_task(str(log))
        self._progress.update(self._rows[log], completed=done_bytes, total=all_bytes)
