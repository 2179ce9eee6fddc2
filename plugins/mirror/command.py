"""`tidelog mirror`: copy topics of other clusters into one, in a process of its own."""

from __future__ import annotations

import logging
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import click

from tidelog.kernel import configure
from tidelog.kernel.cli.options import LocalPath, config_options, sources_of
from tidelog.kernel.cli.tables import print_json
from tidelog.kernel.config.sources.properties_file import read_properties
from tidelog.kernel.errors import ConfigError, TidelogError
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.mirror import keys
from tidelog.plugins.mirror.errors import MirrorRefused
from tidelog.plugins.mirror.ledger import UnreadableLedger
from tidelog.plugins.mirror.statistics import CONNECTING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    import trio
    from rich.console import RenderableType
    from rich.progress import TaskID

    from tidelog.plugins.client.security import SecuritySettings
    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers, ZooKeeperEnsemble
    from tidelog.plugins.mirror.mirror import Mirror
    from tidelog.plugins.mirror.settings import MirrorSettings
    from tidelog.plugins.mirror.statistics import MirrorStatistics

_EPILOG = """\b
Examples:
  tidelog mirror --source old:9092 --target new:9092 --until-end
  tidelog mirror --source us:9092 --topics 'orders,payments.*' --set mirrors.mirror.rename.prefix=us.
  tidelog mirror --config mirrors.toml --target new:9092 us eu

A mirror is a table [mirrors.NAME] in the file; --source describes one without a file. The target remembers by
its name how far it has come, so that it can be stopped at any time and continues later.
"""
DEFAULT_TARGET: Final = "127.0.0.1:9092"
DEFAULT_NAME: Final = "mirror"


class MirrorFailed(TidelogError):
    """A copy to the end has failed."""


@click.command("mirror", epilog=_EPILOG, short_help="Copy topics of other clusters into one.")
@config_options
@click.option(
    "--target",
    default=DEFAULT_TARGET,
    show_default=True,
    metavar="HOST:PORT",
    help="A broker of the cluster to copy into; several with commas. Or zookeeper://HOST:PORT/PATH.",
)
@click.option(
    "--source",
    metavar="HOST:PORT",
    help=f"A broker of the cluster to copy from, for a mirror with one name, by default {DEFAULT_NAME}.",
)
@click.option(
    "--source-config",
    type=LocalPath(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="With --source: a properties file with Kafka's client keys, such as security.protocol and ssl.*.",
)
@click.option(
    "--target-config",
    type=LocalPath(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The same for the target.",
)
@click.option("--topics", metavar="PATTERNS", help="With --source: names or patterns, separated by commas.")
@click.option("--until-end", is_flag=True, help="Copy what is there now, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with all figures at the end.")
@click.option(
    "--status-file",
    type=LocalPath(path_type=Path),
    metavar="FILE",
    help="Keep all figures in this file, as JSON, while it runs.",
)
@click.argument("names", nargs=-1)
def mirror(
    config_file: Path | None,
    settings: tuple[str, ...],
    target: str,
    source: str | None,
    source_config: Path | None,
    target_config: Path | None,
    topics: str | None,
    until_end: bool,
    as_json: bool,
    status_file: Path | None,
    names: tuple[str, ...],
) -> None:
    """Copy topics into the target, exactly once: the mirrors NAMES, by default all that are configured.

    It runs until it is stopped by a signal, or with --until-end until what was there is copied.
    """
    import trio

    if source is None and source_config is not None:
        raise click.UsageError("--source-config needs --source; in a file each mirror has its own keys.")
    found = _mirrors(config_file, (*_of_options(source, topics, names), *settings), names)
    if source is not None and source_config is not None:
        security, ensemble = _connection_of(source, source_config)
        found = [attrs.evolve(each, source_security=security, ensemble=ensemble) for each in found]
    security, ensemble = _connection_of(target, target_config)
    if target_config is not None:
        found = [attrs.evolve(each, target_security=security) for each in found]
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    statistics = trio.run(_run, found, ensemble or target, until_end, status_file)
    if as_json:
        print_json([each.as_json(0.0) for each in statistics])
    elif until_end:
        for each in statistics:
            click.echo(
                f"{each.name}: copied {each.records} records in {each.topics} topics "
                f"({each.copied_bytes / 1e6:.1f} MB)."
            )


def _connection_of(named: str, path: Path | None) -> tuple[SecuritySettings, ZooKeeperEnsemble | None]:
    """Return how a cluster is connected to by the keys in a properties file; raises ConfigError."""
    from tidelog.plugins.mirror.client_keys import ensemble_named, security_of

    problems: list[str] = []
    values: dict[str, str] = {}
    try:
        if path is not None:
            found = read_properties(path.read_text(encoding="utf-8"), str(path), problems)
            values = {each.name: each.text for each in found}
        if not problems:
            return security_of(values), ensemble_named(named, values)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        problems.append(str(error))
    raise ConfigError(f"{named if path is None else path}: {problems[0]}.")


def _of_options(source: str | None, topics: str | None, names: Sequence[str]) -> list[str]:
    """Return the settings that stand for `--source` and `--topics`."""
    if source is None:
        if topics is not None:
            raise click.UsageError("--topics needs --source; in a file each mirror has its own `topics`.")
        return []
    if len(names) > 1:
        raise click.UsageError("--source describes one mirror: give one name at most.")
    table = f"{keys.SECTION}.{names[0] if names else DEFAULT_NAME}"
    chosen = [] if topics is None else [f"{table}.topics={topics}"]
    return [f"{table}.bootstrap.servers={source}", *chosen]


def _mirrors(config_file: Path | None, settings: Sequence[str], names: Sequence[str]) -> list[MirrorSettings]:
    from tidelog.plugins.mirror.settings import MirrorSettings

    config, _ = configure(sources_of(config_file, settings))
    tables = {each.name: each for each in config.tables(keys.SECTION)}
    if not tables:
        raise click.UsageError(
            "No mirror is configured: give --source, or a file with tables [mirrors.NAME]."
        )
    for name in names:
        if name not in tables:
            raise click.UsageError(f"There is no mirror {name!r}; configured are: {', '.join(tables)}.")
    return [MirrorSettings.of_table(tables[name]) for name in names or tables]


async def _run(
    mirrors: Sequence[MirrorSettings], target: BootstrapServers, until_end: bool, status_file: Path | None
) -> list[MirrorStatistics]:
    import trio

    from tidelog.plugins.mirror.statistics import MirrorStatistics
    from tidelog.plugins.mirror.status import publish_mirror_status

    statistics = [MirrorStatistics(each.name, each.bootstrap) for each in mirrors]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_at_signal, nursery.cancel_scope)
        if status_file is not None:
            nursery.start_soon(publish_mirror_status, status_file, statistics)
        try:
            await _run_all(mirrors, target, until_end, statistics)
        finally:
            nursery.cancel_scope.cancel()
    return statistics


async def _stop_at_signal(scope: trio.CancelScope) -> None:
    import trio

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


async def _run_all(
    mirrors: Sequence[MirrorSettings],
    target: BootstrapServers,
    until_end: bool,
    statistics: Sequence[MirrorStatistics],
) -> None:
    """Run mirrors side by side; one that cannot run does not stop the others.

    Raises:
        MirrorFailed: some could not run, or not to the end.
    """
    import trio

    failures: list[MirrorFailed] = []
    with _progress(is_shown=until_end) as show:

        async def run_one(settings: MirrorSettings, figures: MirrorStatistics) -> None:
            from tidelog.plugins.mirror.connected import connected

            async with connected(settings, target, figures) as running:
                try:
                    if until_end:
                        show(running)
                        await running.run_until_end()
                    else:
                        await running.run()
                except (ClientError, MirrorRefused, UnreadableLedger) as error:
                    failures.append(MirrorFailed(f"mirror {settings.name}: {error}"))

        async with trio.open_nursery() as nursery:
            for settings, figures in zip(mirrors, statistics, strict=True):
                nursery.start_soon(run_one, settings, figures)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("several mirrors", failures)


@contextmanager
def _progress(*, is_shown: bool) -> Generator[Callable[[Mirror], None]]:
    """Give a function that adds a mirror to the progress bars, which a terminal gets."""
    if not is_shown or not sys.stderr.isatty():
        yield lambda _mirror: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    running: list[tuple[Mirror, TaskID]] = []

    class _Bars(Progress):
        def get_renderables(self) -> Iterable[RenderableType]:
            # Rich asks several times a second, from a thread of its own.
            for each, task in running:
                left, done = each.remaining(), each.statistics.records
                total = None if each.statistics.state == CONNECTING else left + done
                rate = each.statistics.copied_bytes / 1e6
                self.update(task, total=total, completed=done, copied=f"{rate:.0f} MB", left=f"{left} left")
            yield from super().get_renderables()

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[copied]}"),
        TimeRemainingColumn(),
    )
    with _Bars(*columns, console=Console(stderr=True)) as bars:
        yield lambda each: running.append(
            (each, bars.add_task(each.statistics.name, total=None, copied="", left=""))
        )
