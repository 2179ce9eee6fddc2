"""Concurrent operations on the segments of a log: one table of which exclude each other.

`RULES` has a row for each operation that is under way and a column for each one that begins. A pair that is
not in the table cannot happen; an attempt is a programming error. Anything else that changes or
rewrites segments gets a row and a column of its own here; nothing else excludes operations from each other.
Sources: Apache Kafka's `LogCleanerManager` (what aborts a cleaning), KIP-113.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple

from tidelog.kernel.errors import LogBusy


class Operation(enum.Enum):
    """Operation on a log's segments; the value is its name in messages and in the documentation."""

    DRAFT = "draft"
    """Segments are rewritten into files of their own; any number of drafts at once."""
    REPLACE = "replace"
    """Drafts replace segments."""
    DELETE = "delete"
    """The oldest segments are deleted."""
    TRUNCATE = "truncate"
    """The log's end is cut off."""
    MOVE = "move"
    """A replica move copies the log, or keeps a copy equal to it."""
    SWAP = "swap"
    """The end of a move: from the decision that the copy counts until it has the log's name."""
    CLOSE = "close"
    """The log was closed or deleted; this never ends."""
    FAIL = "fail"
    """The log directory failed; this never ends."""


class Rule(enum.Enum):
    """Outcome when an operation begins while another one is under way."""

    TOGETHER = "together"
    """Both continue independently."""
    WAITS = "waits"
    """The one that begins waits for the end of the other."""
    REFUSED = "refused"
    """The one that begins is refused with `LogBusy`."""
    ABORTS = "aborts it"
    """The one under way is aborted and has no effect."""
    INFORMS = "notifies it"
    """The one under way is notified of what the other has done, and follows."""


_DRAFT, _REPLACE, _DELETE, _TRUNCATE = (
    Operation.DRAFT,
    Operation.REPLACE,
    Operation.DELETE,
    Operation.TRUNCATE,
)
_MOVE, _SWAP, _CLOSE, _FAIL = Operation.MOVE, Operation.SWAP, Operation.CLOSE, Operation.FAIL

RULES: Final[Mapping[Operation, Mapping[Operation, Rule]]] = {
    _DRAFT: {
        _DRAFT: Rule.TOGETHER,
        # A draft made of segments that were replaced meanwhile would bring the old ones back.
        _REPLACE: Rule.INFORMS,
        # Drafts of what was deleted fit in nowhere, and their replacement is refused for that.
        _DELETE: Rule.TOGETHER,
        # Other records may be appended at the offsets of those that it has copied.
        _TRUNCATE: Rule.ABORTS,
        # Its files are in the directory that the partition is about to leave.
        _MOVE: Rule.ABORTS,
        _CLOSE: Rule.ABORTS,
        # In no row this waits: it begins on the event loop.
        _FAIL: Rule.ABORTS,
    },
    _REPLACE: {
        _DRAFT: Rule.TOGETHER,
        _REPLACE: Rule.WAITS,
        _DELETE: Rule.WAITS,
        _TRUNCATE: Rule.WAITS,
        _MOVE: Rule.WAITS,
        _CLOSE: Rule.WAITS,
        _FAIL: Rule.TOGETHER,
    },
    _DELETE: {
        _DRAFT: Rule.TOGETHER,
        _REPLACE: Rule.WAITS,
        _DELETE: Rule.WAITS,
        _TRUNCATE: Rule.WAITS,
        _MOVE: Rule.WAITS,
        _SWAP: Rule.WAITS,
        _CLOSE: Rule.WAITS,
        _FAIL: Rule.TOGETHER,
    },
    _TRUNCATE: {
        _DRAFT: Rule.WAITS,
        _REPLACE: Rule.WAITS,
        _DELETE: Rule.WAITS,
        _TRUNCATE: Rule.WAITS,
        _MOVE: Rule.WAITS,
        _CLOSE: Rule.WAITS,
        _FAIL: Rule.TOGETHER,
    },
    _MOVE: {
        # The copy follows appends and deletions, but no replacements.
        _DRAFT: Rule.REFUSED,
        _REPLACE: Rule.REFUSED,
        _DELETE: Rule.INFORMS,
        _TRUNCATE: Rule.ABORTS,
        _CLOSE: Rule.ABORTS,
        _FAIL: Rule.ABORTS,
    },
    _SWAP: {
        _DRAFT: Rule.REFUSED,
        _REPLACE: Rule.REFUSED,
        # Until it ends, the log and its copy have to stay equal.
        _DELETE: Rule.WAITS,
        _TRUNCATE: Rule.WAITS,
        _CLOSE: Rule.WAITS,
        _FAIL: Rule.TOGETHER,
    },
    _CLOSE: {
        _DRAFT: Rule.REFUSED,
        _REPLACE: Rule.REFUSED,
        _DELETE: Rule.REFUSED,
        _TRUNCATE: Rule.REFUSED,
        _MOVE: Rule.REFUSED,
        _CLOSE: Rule.TOGETHER,
        _FAIL: Rule.TOGETHER,
    },
    _FAIL: {
        _DRAFT: Rule.REFUSED,
        _REPLACE: Rule.REFUSED,
        _DELETE: Rule.REFUSED,
        _TRUNCATE: Rule.REFUSED,
        _MOVE: Rule.REFUSED,
        _CLOSE: Rule.TOGETHER,
        _FAIL: Rule.TOGETHER,
    },
}
"""Operation under way → operation that begins → what follows."""


class Change(NamedTuple):
    """Change by an operation: all segments in `[start_offset, end_offset)` were removed."""

    operation: Operation
    start_offset: int
    end_offset: int


class OperationAborted(Exception):
    """The operation was aborted by another one, which the message names."""


class UnderWay:
    """One operation under way. `aborted_by` is set, in any thread, once another one has aborted it."""

    __slots__ = ("aborted_by", "informed", "operation")

    def __init__(self, operation: Operation, informed: Callable[[Change], None] | None) -> None:
        """`informed(change)` is called in the thread of the operation that the table lets inform this one."""
        self.operation = operation
        self.informed = informed
        self.aborted_by: Operation | None = None


_TURN: Final = threading.Condition()
"""Guards the operations of all logs: they begin and end rarely, and one for each of thousands of logs would
take a kilobyte each."""


class Operations:
    """The operations under way on one log; any thread may use it."""

    __slots__ = ("_label", "_under_way")

    def __init__(self, label: str) -> None:
        """`label` names the log in messages."""
        self._label = label
        self._under_way: tuple[UnderWay, ...] = ()

    @property
    def under_way(self) -> list[Operation]:
        """The operations under way now."""
        return [begun.operation for begun in self._under_way]

    def begin(self, operation: Operation, informed: Callable[[Change], None] | None = None) -> UnderWay:
        """Blocking where the table has `Rule.WAITS`: begin an operation, which lasts until `end`.

        Raises:
            LogBusy: an operation under way does not let it begin.
            KeyError: an operation under way cannot be met by this one.
        """
        begun = UnderWay(operation, informed)
        with _TURN:
            self._wait_and_abort(operation, None)
            self._under_way = (*self._under_way, begun)
        return begun

    def advance(self, begun: UnderWay, operation: Operation) -> None:
        """Blocking, as `begin`: turn an operation under way into another one, which continues it.

        Raises:
            OperationAborted: it was aborted.
            LogBusy, KeyError: as for `begin`; it stays what it was.
        """
        with _TURN:
            self._wait_and_abort(operation, begun)
            begun.operation = operation
            _TURN.notify_all()

    def end(self, begun: UnderWay) -> None:
        """End an operation, and let begin what waits for that; no error when it was aborted or has ended."""
        with _TURN:
            self._remove(begun)

    @contextlib.contextmanager
    def during(self, operation: Operation) -> Generator[UnderWay]:
        """Run a block as an operation; blocks and raises as `begin`."""
        begun = self.begin(operation)
        try:
            yield begun
        finally:
            self.end(begun)

    def inform(self, begun: UnderWay, start_offset: int, end_offset: int) -> None:
        """Blocking: inform others, by the table, of what this operation has done; it has not ended yet."""
        # The tuple is replaced and never changed, so no lock is held while others follow, which may take
        # long.
        change = Change(begun.operation, start_offset, end_offset)
        for other in self._under_way:
            if other.informed is not None and RULES[other.operation].get(begun.operation) is Rule.INFORMS:
                other.informed(change)

    def _wait_and_abort(self, operation: Operation, continued: UnderWay | None) -> None:
        # Computed again after each wait, since others may have begun meanwhile.
        while Rule.WAITS in (rules := self._rules(operation, continued)).values():
            _TURN.wait()
        # All refusals before any abort: an operation that cannot begin must have no effect.
        for other, rule in rules.items():
            if rule is Rule.REFUSED:
                raise LogBusy(f"{self._label}: no {operation.value} while it has: {other.operation.value}")
        for other, rule in rules.items():
            if rule is Rule.ABORTS:
                other.aborted_by = operation
                self._remove(other)

    def _rules(self, operation: Operation, continued: UnderWay | None) -> dict[UnderWay, Rule]:
        if continued is not None and continued.aborted_by is not None:
            raise OperationAborted(
                f"{self._label}: a {continued.aborted_by.value} aborted the {continued.operation.value}"
            )
        others = [other for other in self._under_way if other is not continued]
        return {other: RULES[other.operation][operation] for other in others}

    def _remove(self, begun: UnderWay) -> None:
        self._under_way = tuple(other for other in self._under_way if other is not begun)
        _TURN.notify_all()
