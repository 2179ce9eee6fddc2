"""Builder for the source of one function: lines, unique names, objects that the code refers to."""

from __future__ import annotations

import linecache
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable


class Source:
    """Source text under construction.

    `indented` blocks nest; `fresh` returns a unique variable name; `refer` returns a name for an object.
    """

    def __init__(self, runtime: Iterable[tuple[str, Any]]) -> None:
        """Begin with the globals `runtime`, which the source may use."""
        self._lines: list[str] = []
        self._depth = 0
        self._counter = 0
        self._namespace: dict[str, Any] = dict(runtime)
        self._names: dict[int, str] = {}

    def line(self, text: str) -> None:
        """Add one line at the current depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def indented(self, head: str) -> Generator[None]:
        """Add a line that ends in a colon, and indent the lines added in the `with` block."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """Return a variable name that was not used before."""
        self._counter += 1
        return f"{stem}{self._counter}"

    def refer(self, thing: Any, stem: str = "const") -> str:
        """Return a global name for an object of the generator, the same name each time."""
        name = self._names.get(id(thing))
        if name is None:
            # The namespace keeps the object alive, so that no other one gets its id.
            name = self._names[id(thing)] = self.fresh(f"{stem}_")
            self._namespace[name] = thing
        return name

    def literal(self, value: Any) -> str:
        """Return an expression for a value: a literal for a number, text or bytes, a reference otherwise."""
        if value is None or isinstance(value, int | float | str | bytes):
            return repr(value)
        return self.refer(value)

    def struct_method(self, method: str, codes: str) -> str:
        """Return a global name for a method of the big-endian `struct.Struct` with these codes."""
        name = f"{method}_{codes.replace('?', 't')}"
        if name not in self._namespace:
            self._namespace[name] = getattr(struct.Struct(">" + codes), method)
        return name

    @property
    def text(self) -> str:
        """Return the source so far."""
        return "\n".join(self._lines) + "\n"

    def function(self, name: str, filename: str) -> Callable[..., Any]:
        """Compile the source and return the function of that name; tracebacks show its lines."""
        text = self.text
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self._namespace)  # noqa: S102 - the text is made from declarations
        function: Callable[..., Any] = self._namespace[name]
        return function
