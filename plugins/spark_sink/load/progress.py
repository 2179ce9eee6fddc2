"""How far a load is: a bar on a terminal, else a line for each chunk."""

from __future__ import annotations

from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tidelog.plugins.spark_sink.load.directory import Commit


class LoadProgressBar:
    """Progress on standard error, of offsets: how many of them have records is known when they are read."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} offsets"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> LoadProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, total: int, done: int) -> None:
        """Show what there is to do, and what earlier starts have done."""
        self._task = self._bar.add_task("Starting Spark", total=total, completed=done)
        if done and not self._console.is_terminal:
            click.echo(f"Continuing: {done} of {total} offsets are loaded.", err=True)

    def advance(self, done: float) -> None:
        """Show how much is written."""
        if self._task is not None:
            self._bar.update(self._task, completed=done, description="Loading")

    def committed(self, commit: Commit, chunks: int, done: int) -> None:
        """Show that a chunk is committed."""
        self.advance(done)
        if not self._console.is_terminal:
            click.echo(
                f"Chunk {commit.chunk + 1} of {chunks}: "
                f"{commit.records} records in {len(commit.files)} files.",
                err=True,
            )
