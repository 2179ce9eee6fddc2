"""Tables of cases that take less time than pytest takes for a test: all cases of a table are one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest

Function = Callable[..., None]


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
            errors: list[BaseException] = []
            for label, (_, values) in zip(labels, table, strict=True):
                try:
                    function(**dict(zip(argnames, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in the case {label}")
                    errors.append(error)
            if len(errors) == 1:
                raise errors[0]
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(table)} cases failed", errors)

        signature = inspect.signature(function)
        own = [value for name, value in signature.parameters.items() if name not in argnames]
        cast("Any", test).__signature__ = signature.replace(parameters=own)
        cast("Any", test).pytestmark = list(getattr(function, "pytestmark", []))
        return test

    return decorate


def _case(case: Any, count: int) -> tuple[str, tuple[Any, ...]]:
    """The name of a case and its values, of a value, a tuple of values, or what `pytest.param` made."""
    values: tuple[Any, ...]
    if isinstance(case, type(pytest.param())):
        values = tuple(case.values)
        return str(case.id or values), values
    values = (case,) if count == 1 else tuple(case)
    return repr(values), values
