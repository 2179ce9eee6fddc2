"""Paths of this machine, which a URI is not: `s3://bucket/x` would be a folder in the working directory."""

from __future__ import annotations

import re
from typing import Final, TypeVar, cast

import attrs

from tidelog.kernel.config.types import ValueType

T = TypeVar("T")

_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):/")


def scheme_of(path: str) -> str | None:
    """Return the scheme of a path that is a URI, such as `s3` of `s3://bucket/x`; None without any."""
    found = _SCHEME.match(path)
    return None if found is None else found[1].lower()


def check_local_path(path: str) -> None:
    """Check that a path has no scheme, not even `file`.

    Raises:
        ValueError: it has one; the text continues a sentence about the option.
    """
    scheme = scheme_of(path)
    if scheme == "file":
        raise ValueError(f"has {path!r}: name the path alone, without the scheme file")
    if scheme is not None:
        raise ValueError(
            f"has {path!r}, and the scheme {scheme} cannot be served: name a path of this machine, which may "
            "be that of something mounted"
        )


def local_path(inner: ValueType[T]) -> ValueType[T]:
    """Return the type of a path of this machine, or of a list of them, as `inner` parses it."""

    def parse(text: str) -> T:
        value = inner.parse(text)
        _check_each(value)
        return value

    return attrs.evolve(inner, parse=parse)


def _check_each(value: object) -> None:
    paths = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    for path in paths:
        check_local_path(str(path))
