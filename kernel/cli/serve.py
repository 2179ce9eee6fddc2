"""`tidelog serve`: a broker in the foreground."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.kernel.cli.options import LocalPath, config_options, sources_of
from tidelog.kernel.config import keys
from tidelog.kernel.garbage_collection import rare_collections

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker

_log = logging.getLogger(__name__)

_EPILOG = """\b
Examples:
  tidelog serve --set listeners=PLAINTEXT://127.0.0.1:9092 --set log.dirs=data
  tidelog serve --config server.properties
  TIDELOG_STORAGE=memory tidelog serve
  tidelog serve --set listeners=PLAINTEXT://127.0.0.1:0 --ready-file ready.json

SIGTERM or SIGINT (Ctrl-C) stops it gracefully, a second one at once.
"""


@click.command("serve", epilog=_EPILOG)
@config_options
@click.option(
    "--ready-file",
    type=LocalPath(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="Write the bound addresses to PATH (JSON) once the broker is ready; removed when it stops.",
)
@click.option(
    "--log-format", metavar="FORMAT", help="auto, human or json; short for --set log.format=FORMAT."
)
@click.option(
    "--log-level", metavar="LEVEL", help="debug, info, warning or error; short for --set log.level=LEVEL."
)
def command(
    config_file: Path | None,
    settings: tuple[str, ...],
    ready_file: Path | None,
    log_format: str | None,
    log_level: str | None,
) -> None:
    """Run a broker until a signal stops it."""
    short = {"log.format": log_format, "log.level": log_level}
    short_settings = [f"{name}={value}" for name, value in short.items() if value is not None]
    with ExitStack() as starting:
        starting.enter_context(rare_collections())
        _run(config_file, [*settings, *short_settings], ready_file, starting)


def _run(
    config_file: Path | None, settings: Sequence[str], ready_file: Path | None, starting: ExitStack
) -> None:
    # Not at the top: `tidelog serve --help` needs none of these.
    import trio

    from tidelog.kernel.broker import serve
    from tidelog.kernel.cli.loading import show_loading
    from tidelog.kernel.cli.log_format import set_up_logging
    from tidelog.kernel.cli.ready import ReadyReport
    from tidelog.kernel.plugins import configure

    config, plugins = configure(sources_of(config_file, settings))
    set_up_logging(config[keys.LOG_FORMAT], config[keys.LOG_LEVEL], config[keys.LOG_FILE])
    for warning in config.warnings:
        _log.warning(warning)
    report = ReadyReport(config, ready_file)
    report.prepare()

    def ready(broker: Broker) -> None:
        starting.close()
        report(broker)

    try:
        trio.run(partial(serve, config, plugins, on_ready=ready, while_loading=show_loading))
    finally:
        report.withdraw()
