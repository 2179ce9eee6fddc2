"""Who is measured when."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Subject = TypeVar("Subject")


def turns(subjects: Sequence[Subject], slices: int) -> Iterator[Subject]:
    """Each subject once in each slice, in the order A B B A A B B A.

    What drifts in the course of a row, such as a warming machine, then favours none of them.
    """
    for number in range(slices):
        yield from reversed(subjects) if number % 2 else subjects
