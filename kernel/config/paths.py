"""Paths in the configuration: of this machine, which a URI is not, and where the storage has its files.

`s3://bucket/x` would be a folder in the working directory.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs

from tidelog.kernel.config.types import ValueType

if TYPE_CHECKING:
    from tidelog.kernel.config.config import Config

T = TypeVar("T")

_DIRECTORY_KEYS: Final = ("log.dirs", "log.dir")
"""The first one that is set counts, whichever plugin the storage is: its keys have the names of Kafka's."""
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


def data_directories(config: Config) -> tuple[Path, ...]:
    """Return the data directories, absolute, in the order of the configuration; none without files."""
    for name in _DIRECTORY_KEYS:
        key = config.keys.find(name, "broker")
        directories = cast("tuple[str, ...] | None", config[key]) if key is not None else None
        if directories:
            return tuple(Path(text).absolute() for text in directories)
    return ()
