"""What has to be true of everything that the members of a group told."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, NamedTuple

from .group import PARTITIONS
from .member import Owns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .group import Group
    from .member import Member


class Term(NamedTuple):
    """A stretch of time, in nanoseconds, in which a member owned a partition."""

    partition: int
    start_ns: int
    end_ns: int
    member: str


def assert_one_reader_at_a_time(group: Group) -> None:
    """No two members ever owned a partition at once, and nobody read what was another's."""
    terms = sorted(
        term if group.kind.tells_revocation else _up_to_last_read(term, member)
        for member in group.members
        for term in _terms(member)
    )
    for before, after in itertools.pairwise(terms):
        if before.partition == after.partition:
            assert before.end_ns <= after.start_ns, f"two owners at once: {before} and {after}"
    for member in group.members:
        _assert_read_what_it_owned(member)


def assert_every_record_read(group: Group, *, at_most: int = 1) -> None:
    """Every record that was produced was read, and none more than `at_most` times."""
    read = group.read
    assert len(read) == group.produced
    assert max(read.values()) <= at_most, [record for record, times in read.items() if times > at_most]


def assert_heir_takes_over(group: Group, killed: Member, heir: Member) -> None:
    """Of the two members of a group one is killed; the other gets all partitions, and nothing is lost."""
    group.wait_settled()
    group.produce()
    group.wait_read()
    group.commit()
    group.kill(killed)
    group.produce()
    group.wait_settled()
    group.wait_read()
    assert heir.owned == {*range(PARTITIONS)}
    assert_one_reader_at_a_time(group)
    assert_every_record_read(group)


def _terms(member: Member) -> Iterator[Term]:
    until_now = Owns(time.monotonic_ns(), frozenset())
    for now, then in zip(member.owns, [*member.owns[1:], until_now], strict=True):
        for partition in now.partitions:
            yield Term(partition, now.time_ns, then.time_ns, member.name)


def _up_to_last_read(term: Term, member: Member) -> Term:
    """A member that does not tell when it gives a partition up has done so when it reads no more."""
    times = [
        read.time_ns
        for read in member.reads
        if read.partition == term.partition and term.start_ns <= read.time_ns <= term.end_ns
    ]
    return term._replace(end_ns=max(times, default=term.start_ns))


def _assert_read_what_it_owned(member: Member) -> None:
    terms: Sequence[Term] = [*_terms(member)]
    for read in member.reads:
        assert any(
            term.partition == read.partition and term.start_ns <= read.time_ns <= term.end_ns
            for term in terms
        ), f"{member.name} read {read} that it did not own"
