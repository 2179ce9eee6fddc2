"""The garbage collector while a broker starts."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

RARE_OBJECTS: Final = 100_000
"""More than a start without data makes; one that reads a lot of it is still rid of its garbage."""


@contextmanager
def rare_collections() -> Generator[None]:
    """Nearly all that a start makes stays: to look for garbage every few hundred objects only takes time."""
    usual = gc.get_threshold()
    gc.set_threshold(RARE_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
