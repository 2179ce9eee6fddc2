"""Who is measured when."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Subject = TypeVar("Subject")
_SEED = 6
"""Of an order that starts with A B B A and has about as many of either."""


def turns(subjects: Sequence[Subject], slices: int) -> Iterator[Subject]:
    """Each subject once in each slice, two slices in the order A B B A or, at random, B A A B.

    What drifts in the course of a row, such as a warming machine, then favours none of them, and neither
    does other work that comes and goes in a rhythm of its own.
    """
    random = Random(_SEED)
    backwards = False
    for number in range(slices):
        backwards = random.random() < 0.5 if number % 2 == 0 else not backwards
        yield from reversed(subjects) if backwards else subjects
