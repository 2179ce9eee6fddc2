"""What `tidelog serve` shows while logs are opened: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, NoReturn

import trio

if TYPE_CHECKING:
    from tidelog.kernel.seams.storage.load_progress import LogLoadProgress

_log = logging.getLogger(__name__)

PATIENCE_S = 1.0
"""Most starts are over by then; nothing is shown of them."""
_BAR_INTERVAL_S = 0.1
_LINE_INTERVAL_S = 10.0


async def show_loading(progress: LogLoadProgress) -> NoReturn:
    """Show how far it is until cancelled."""
    await trio.sleep(PATIENCE_S)
    if sys.stderr.isatty():
        await _show_bar(progress)
    while True:
        # A start also takes long for other reasons, such as a busy machine.
        if any(progress.remaining_logs.values()):
            _log.info("opening the logs: %s", progress)
        await trio.sleep(_LINE_INTERVAL_S)


async def _show_bar(progress: LogLoadProgress) -> NoReturn:
    # Not at the top: a broker that starts at once needs none of it.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("opening the logs"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[segments]} segments left of those under way"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, segments=0)
        while True:
            total, left = progress.total_logs, sum(progress.remaining_logs.values())
            segments = sum(progress.remaining_segments.values())
            bar.update(task, total=total, completed=total - left, segments=segments)
            await trio.sleep(_BAR_INTERVAL_S)
