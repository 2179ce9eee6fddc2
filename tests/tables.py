"""Tables of cases that take less time than pytest takes for a test: all cases of a table are one test."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, cast

import pytest

Function = Callable[..., Any]


def for_each(
    names: str | Sequence[str], cases: Iterable[Any], ids: Iterable[str] | Callable[[Any], str] | None = None
) -> Callable[[Function], Function]:
    """Call a test function for each case, with parameters as `pytest.mark.parametrize` takes them.

    Every case is tried. An error has a note that names its case. Fixtures are the same for all cases, so this
    is for functions that leave nothing behind.
    """
    argnames = [names] if isinstance(names, str) else list(names)
    table = [_case(case, len(argnames)) for case in cases]
    assert table, f"a table for {', '.join(argnames)} is empty"
    if callable(ids):
        labels = [", ".join(map(ids, values)) for _, values in table]
    else:
        labels = [label for label, _ in table] if ids is None else list(ids)

    def decorate(function: Function) -> Function:
        @functools.wraps(function, updated=())
        def test(**fixtures: Any) -> None:
            errors = _Errors(len(table))
            for label, (_, values) in zip(labels, table, strict=True):
                with errors.of(label):
                    function(**dict(zip(argnames, values, strict=True)), **fixtures)
            errors.check()

        @functools.wraps(function, updated=())
        async def async_test(**fixtures: Any) -> None:
            errors = _Errors(len(table))
            for label, (_, values) in zip(labels, table, strict=True):
                with errors.of(label):
                    await cast("Any", function)(**dict(zip(argnames, values, strict=True)), **fixtures)
            errors.check()

        if inspect.iscoroutinefunction(function):
            test = cast("Any", async_test)
        signature = inspect.signature(function)
        own = [value for name, value in signature.parameters.items() if name not in argnames]
        cast("Any", test).__signature__ = signature.replace(parameters=own)
        cast("Any", test).pytestmark = list(getattr(function, "pytestmark", []))
        return test

    return decorate


class _Errors:
    """The errors of all cases of a test."""

    def __init__(self, cases: int) -> None:
        self._cases = cases
        self._errors: list[BaseException] = []

    @contextlib.contextmanager
    def of(self, label: str) -> Generator[None]:
        """Note the error of a case."""
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"in the case {label}")
            self._errors.append(error)

    def check(self) -> None:
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise BaseExceptionGroup(f"{len(self._errors)} of {self._cases} cases failed", self._errors)


def _case(case: Any, count: int) -> tuple[str, tuple[Any, ...]]:
    """The name of a case and its values, of a value, a tuple of values, or what `pytest.param` made."""
    values: tuple[Any, ...]
    if isinstance(case, type(pytest.param())):
        values = tuple(case.values)
        return str(case.id or values), values
    values = (case,) if count == 1 else tuple(case)
    return repr(values), values
