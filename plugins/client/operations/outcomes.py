"""Operations on several things at once: each has an outcome of its own, a result or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.steps import Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidelog.plugins.client.steps import Session, Steps

K = TypeVar("K")
T = TypeVar("T")

Outcomes: TypeAlias = "dict[K, T | ClientError]"


def or_raise(outcomes: Mapping[K, T | ClientError]) -> dict[K, T]:
    """Return the results when there is no error among the outcomes.

    Raises:
        ClientError: the first error among them.
    """
    results: dict[K, T] = {}
    for key, outcome in outcomes.items():
        if isinstance(outcome, ClientError):
            raise outcome
        results[key] = outcome
    return results


def settle(
    session: Session,
    keys: Iterable[K],
    attempt: Callable[[list[K]], Steps[Outcomes[K, T]]],
    may_retry: Callable[[ClientError], bool],
) -> Steps[Outcomes[K, T]]:
    """Return the outcomes of all `keys`; retry errors for which `may_retry` is true, by the retry policy."""
    pending = list(dict.fromkeys(keys))
    outcomes = yield from attempt(pending)
    for pause in session.settings.retry.pauses():
        pending = [key for key in pending if _is_hopeful(outcomes[key], may_retry)]
        if not pending:
            break
        yield Pause(pause)
        outcomes |= yield from attempt(pending)
    return outcomes


def _is_hopeful(outcome: object, may_retry: Callable[[ClientError], bool]) -> bool:
    return isinstance(outcome, ClientError) and may_retry(outcome)
