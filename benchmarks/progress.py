"""How far a run is: a bar on a terminal, a line per scenario elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from collections.abc import Generator

    from rich.progress import TaskID


class Progress:
    """Told of every step before it is taken; writes to standard error."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._total = self._taken = 0
        self._last_title = ""

    @contextmanager
    def of(self, total: int) -> Generator[None]:
        """Show the progress of `total` steps until the end of the block."""
        self._total = total
        with self._bar:
            self._task = self._bar.add_task("", total=total)
            yield

    def step(self, title: str) -> None:
        """The next step begins."""
        if self._task is not None:
            self._bar.update(self._task, description=title, completed=self._taken)
        self._taken += 1
        if not self._console.is_terminal and title != self._last_title:
            self._console.print(f"[{self._taken}/{self._total}] {title}", markup=False, soft_wrap=True)
        self._last_title = title
