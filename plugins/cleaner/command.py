"""`tidelog cleaner`: logs of a stopped broker are compacted by hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.kernel.cli.options import config_options, sources_of
from tidelog.kernel.config import keys
from tidelog.kernel.config.types import nearest_name

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tidelog.kernel import Broker
    from tidelog.kernel.seams.storage import TopicPartition

_EPILOG = """\b
Examples:
  tidelog cleaner run --config server.properties
  tidelog cleaner run --set log.dirs=data prices orders

The broker has to be stopped. What it needs to know of the logs is in its directories; settings of the broker,
such as log.cleaner.threads and log.cleaner.dedupe.buffer.size, count as they do for `tidelog serve`.
"""


@click.group("cleaner", epilog=_EPILOG)
def cleaner() -> None:
    """Compact logs by hand."""


@cleaner.command("run", epilog=_EPILOG)
@config_options
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
def run(config_file: Path | None, settings: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Compact the logs of a stopped broker, of all topics or of these, however little is to be compacted."""
    # Not at the top: `tidelog cleaner run --help` needs none of these.
    import trio

    from tidelog.kernel import Broker, configure
    from tidelog.kernel.cli.log_format import set_up_logging

    config, plugins = configure(sources_of(config_file, settings))
    set_up_logging(config[keys.LOG_FORMAT], config[keys.LOG_LEVEL])
    trio.run(_compact, Broker(config, plugins, must_exist=True), topics)


async def _compact(broker: Broker, topics: Sequence[str]) -> None:
    failed: Sequence[TopicPartition] = ()
    async with broker.opened():
        unknown = _unknown_topic(broker, topics)
        if not unknown:
            failed = await _rewrite(broker, topics)
    if unknown:
        raise click.ClickException(unknown)
    if failed:
        names = ", ".join(map(str, failed))
        raise click.ClickException(f"Not compacted: {names}; the lines above say why.")


def _unknown_topic(broker: Broker, names: Sequence[str]) -> str:
    """Return what is wrong with the first name that no topic has; empty without one."""
    for name in names:
        if broker.topics.find(name) is None:
            near = nearest_name(name, [topic.name for topic in broker.topics])
            return f"There is no topic {name!r} in these directories" + (
                f" (did you mean {near}?)." if near else "."
            )
    return ""


async def _rewrite(broker: Broker, names: Sequence[str]) -> Sequence[TopicPartition]:
    """Rewrite logs and print what was done; return those for which that failed."""
    # Not at the top: `tidelog cleaner run --help` needs no event loop.
    from tidelog.plugins.cleaner.execution.log_cleanup import LogCleanup

    cleanup = LogCleanup(broker.cleanup_policies, broker.config, broker.topics, broker.clock)
    with _Bar() as bar:
        done, failed = await cleanup.rewrite_now(names, bar.show)
    found = {log.topic for log in (*done, *failed)}
    for name in dict.fromkeys(names):
        if name not in found:
            policies = ",".join(broker.topics.get(name).config[keys.CLEANUP_POLICY])
            click.echo(f"{name} has nothing to compact; its cleanup.policy is {policies or 'empty'}.")
    statistics = cleanup.statistics().values()
    read = sum(each.rewrite_read_bytes for each in statistics)
    kept = sum(each.rewrite_kept_bytes for each in statistics)
    click.echo(f"{len(done)} log(s) compacted: {kept} of {read} bytes are left.")
    return failed


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
