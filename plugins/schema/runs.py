"""Runs, values that one `struct` call reads together, and generation of the code that reads them.

A run is fixed-width values, the length of a variable-length value or the first byte of one, and

- before them a string or bytes, if short (`runs`), or few numbers;
- among them values that are usually null or empty, and then have no bytes. A message whose value is not empty
  has the bytes of the run all the same, only that they mean something else: they are read again.

A string of nine bytes, a number of two bytes and the length of the next string take one call of
`struct.Struct(">9shB").unpack_from`, which also checks that the buffer has so many bytes. There is one format
per length, created when a value of that length is read for the first time.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.plugins.schema.errors import Malformed
from tidelog.plugins.schema.layout import is_number, length_code
from tidelog.plugins.schema.types import BYTES, RECORDS, STRING, Array, Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.schema.layout import Layout
    from tidelog.plugins.schema.source import Source

MAX_SHORT_BYTES: Final = 126
"""Longest string read with what is behind it: its compact length takes one byte, and tables stay small."""
FEW_NUMBERS: Final = (3, 1, 0, 2)
"""Counts of numbers that are read with what is behind them, the usual ones of replicas first."""
MOST_GUESSES: Final = 2
"""Most values of a run that are taken to be empty; the code for a wrong guess repeats what is behind it."""


class Runs(dict[int, "Callable[..., tuple[Any, ...]]"]):
    """`unpack_from` methods for bytes and the values of `codes` behind them, by the length on the wire.

    It is larger by `bias` than that of the bytes. A length that they cannot have raises `Malformed`.
    """

    __slots__ = ("_bias", "_codes")

    def __init__(self, codes: str, bias: int) -> None:
        self._codes = codes
        self._bias = bias

    def __missing__(self, length: int) -> Callable[..., tuple[Any, ...]]:
        count = length - self._bias
        if not 0 <= count <= MAX_SHORT_BYTES:
            raise Malformed
        self[length] = unpack = struct.Struct(f">{count}s{self._codes}").unpack_from
        return unpack


@cache
def runs(codes: str, bias: int) -> Runs:
    """Return the table for these codes; decoders share it."""
    return Runs(codes, bias)


class Variable(NamedTuple):
    """Variable-length value; the variable `length` has its length or the first byte of a compact one."""

    layout: Layout
    kind: Array | Primitive[Any]
    target: str
    nullable: bool
    length: str

    @property
    def empty(self) -> int:
        """Return the length of an empty value on the wire; that of null is one less."""
        return 1 if self.layout.flexible else 0

    @property
    def has_no_bytes(self) -> str:
        """Return the condition that the value is empty or null."""
        if not self.nullable:
            return f"{self.length} == {self.empty}"
        return f"{self.length} <= 1" if self.layout.flexible else f"-1 <= {self.length} <= 0"

    @property
    def nothing(self) -> str:
        """Return an expression for the value when it has no bytes."""
        empty = '""' if self.kind is STRING else 'b""' if self.kind is BYTES else "[]"
        if not self.nullable:
            return empty
        return f"{empty} if {self.length} == {self.empty} else None"


class RunWriter(ABC):
    """Writer of runs: `add` what is to be read, then `flush`."""

    def __init__(self, source: Source, *, count_numbers: bool) -> None:
        """Write to `source`. With `count_numbers` arrays of numbers are not read in runs."""
        self.source = source
        self._count_numbers = count_numbers
        self._pending: list[tuple[str, str]] = []
        self._before: Variable | None = None
        self._guesses: list[tuple[int, Variable]] = []

    @abstractmethod
    def whole_value(self, value: Variable) -> None:
        """Write the code that reads a value of any length; of `value.length` the first byte was read."""

    def add(self, code: str, target: str) -> None:
        """Read a fixed-width value into `target`."""
        self._pending.append((code, target))

    def add_variable(
        self,
        layout: Layout,
        kind: Array | Primitive[Any],
        target: str,
        *,
        nullable: bool,
        usually_empty: bool,
    ) -> None:
        """Read a variable-length value into `target`."""
        length = self.source.fresh("n")
        self.add("B" if layout.flexible else length_code(kind), length)
        value = Variable(layout, kind, target, nullable, length)
        if usually_empty and len(self._guesses) < MOST_GUESSES:
            self._guesses.append((len(self._pending), value))
            return
        self.flush()
        self._put_before(value)

    def flush(self) -> None:
        """Write the code that reads all that was added."""
        pending, self._pending = self._pending, []
        before, self._before = self._before, None
        guesses, self._guesses = self._guesses, []
        if before is None:
            self._fixed(pending)
        elif isinstance(before.kind, Array) and isinstance(before.kind.element, Primitive):
            self._few_numbers(before, before.kind.element.code, pending)
        else:
            self._short_content(before, pending)
        if guesses:
            self._check(guesses, pending)

    def _check(self, guesses: Sequence[tuple[int, Variable]], run: Sequence[tuple[str, str]]) -> None:
        """Write the code for values that may be empty, after the run that holds if they are."""
        with self.source.indented(f"if {' and '.join(value.has_no_bytes for _, value in guesses)}:"):
            for _, value in guesses:
                self.source.line(f"{value.target} = {value.nothing}")
        index, first = guesses[0]
        with self.source.indented("else:"):
            if run[index:]:
                self.source.line(f"pos -= {_size(run[index:])}")
            self._put_before(first)
            self._pending = list(run[index:])
            self._guesses = [(place - index, value) for place, value in guesses[1:]]
            self.flush()

    def _put_before(self, value: Variable) -> None:
        """Read a value with the run behind it, if that can be, else now."""
        if self._may_be_short(value):
            self._before = value
        else:
            self.whole_value(value)

    def _may_be_short(self, value: Variable) -> bool:
        if isinstance(value.kind, Primitive):
            return value.kind is not RECORDS
        numbers = isinstance(value.kind.element, Primitive) and is_number(value.kind.element)
        return numbers and not value.nullable and not self._count_numbers

    def _fixed(self, run: Sequence[tuple[str, str]]) -> None:
        """Write the code that reads fixed-width values: of each its code and target."""
        if not run:
            return
        codes, targets = "".join(code for code, _ in run), ", ".join(target for _, target in run)
        if codes == "B":
            self.source.line(f"{targets} = buf[pos]")
        else:
            unpack = self.source.struct_method("unpack_from", codes)
            self.source.line(f"{targets}{',' * (len(run) == 1)} = {unpack}(buf, pos)")
        self.source.line(f"pos += {_size(run)}")

    def _short_content(self, value: Variable, run: Sequence[tuple[str, str]]) -> None:
        """Write the code that reads a string or bytes, and the run behind it."""
        head = "if"
        if value.nullable:
            with self.source.indented(f"if {value.length} == {value.empty - 1}:"):
                self.source.line(f"{value.target} = None")
                self._fixed(run)
            head = "elif"
        table = self.source.refer(runs("".join(code for code, _ in run), value.empty), "runs")
        content = self.source.fresh("b")
        targets = ", ".join((content, *(target for _, target in run)))
        with self.source.indented(f"{head} {value.length} <= {MAX_SHORT_BYTES + value.empty}:"):
            self.source.line(f"{targets}{',' * (not run)} = {table}[{value.length}](buf, pos)")
            self.source.line(f"pos += {value.length} + {_size(run) - value.empty}")
            self.source.line(f"{value.target} = {content}{'.decode()' * (value.kind is STRING)}")
        self._otherwise(value, run)

    def _few_numbers(self, value: Variable, code: str, run: Sequence[tuple[str, str]]) -> None:
        """Write the code that reads an array of numbers, and the run behind it."""
        for count in FEW_NUMBERS:
            head = "if" if count == FEW_NUMBERS[0] else "elif"
            with self.source.indented(f"{head} {value.length} == {count + value.empty}:"):
                numbers = [self.source.fresh("i") for _ in range(count)]
                self._fixed([*((code, number) for number in numbers), *run])
                self.source.line(f"{value.target} = [{', '.join(numbers)}]")
        self._otherwise(value, run)

    def _otherwise(self, value: Variable, run: Sequence[tuple[str, str]]) -> None:
        with self.source.indented("else:"):
            self.whole_value(value)
            self._fixed(run)


def _size(run: Sequence[tuple[str, str]]) -> int:
    """Return the bytes of fixed-width values."""
    return struct.calcsize(">" + "".join(code for code, _ in run))
