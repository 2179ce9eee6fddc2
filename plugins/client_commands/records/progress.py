"""Progress bar on standard error, where that is a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class ProgressBar:
    """How far a command is, in records, and if the end is known in `unit`.

    It imports nothing and prints nothing unless it is shown.
    """

    def __init__(self, label: str, unit: str, total: int | None, *, is_shown: bool) -> None:
        self.is_shown = is_shown
        self._bar: Any = None
        self._task: Any = None
        if is_shown:
            self._make(label, unit, total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, records: int, done: int) -> None:
        """Show how many records there were, and how far that is."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, records=records)

    def _make(self, label: str, unit: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        known = [] if total is None else [BarColumn(), TimeRemainingColumn()]
        place = "{task.completed:,.0f}" + ("" if total is None else " of {task.total:,.0f}")
        self._bar = Progress(
            TextColumn(label),
            *known,
            TextColumn(f"{{task.fields[records]:,}} records, {place} {unit}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(label, total=total, records=0)
