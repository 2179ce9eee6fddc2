"""Building blocks of operations: send requests, and retry by the retry policy.

An operation on several topics or partitions has an outcome for each: a result or an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from tidelog.plugins.client.cluster import ClusterMetadata
from tidelog.plugins.client.errors import ClientError, ErrorResponse, UnknownNode
from tidelog.plugins.client.requests import ByVersion, of_plugin
from tidelog.plugins.client.steps import Exchange, Pause
from tidelog.plugins.protocol_kafka.messages.api import METADATA
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.requests import DeclaredApi
    from tidelog.plugins.client.steps import Session, Steps

K = TypeVar("K")
T = TypeVar("T")

Outcomes: TypeAlias = "dict[K, T | ClientError]"

FIRST_WITH_CREATION_CHOSEN: Final = 4
"""First version of Metadata that says whether topics may be created."""

_MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def send_request(
    session: Session,
    request: object,
    *,
    api: DeclaredApi | None = None,
    node: int | None = None,
    at_most: int | None = None,
    max_delay_s: float = 0.0,
    lane: str = "",
) -> Steps[Any]:
    """Return the response to one request, of the API's response class.

    Args:
        session: the client's session
        request: a message or a `ByVersion`
        api: the API of the message if a plugin of the broker adds it: its `KafkaApi`, or a `PluginApi`
        node: the broker's node id, None for any broker
        at_most: the highest version to use
        max_delay_s: how long the broker may delay the response on purpose, in seconds
        lane: the connection to use (see `Exchange`)

    Raises:
        TypeError: the message is no request, or not one of `api`.
        UnknownNode: the cluster has no such broker.
        ClientError: see `tidelog.plugins.client.errors`.
    """
    if api is not None:
        request = of_plugin(api, request)
    answers = yield from send_requests(
        session, [request], node=node, at_most=at_most, max_delay_s=max_delay_s, lane=lane
    )
    return answers[0]


def send_requests(
    session: Session,
    requests: Sequence[object],
    *,
    node: int | None = None,
    at_most: int | None = None,
    max_delay_s: float = 0.0,
    lane: str = "",
) -> Steps[list[Any]]:
    """Return the responses to pipelined requests; see `send_request`."""
    addresses = yield from _addresses(session, node)
    answers: list[Any] = yield Exchange(addresses, tuple(requests), at_most, max_delay_s, lane)
    return answers


def refresh(
    session: Session, topics: Sequence[str] | None = (), *, create: bool = False
) -> Steps[ClusterMetadata]:
    """Request metadata from any broker (by default of no topic, None: of all) and cache it."""

    def build(version: int) -> MetadataRequest:
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        if version == 0:
            # Without topics it asks for all of them.
            return MetadataRequest(topics=named or [])
        # Brokers before version 4 create topics as they are configured to.
        return MetadataRequest(
            topics=named, allow_auto_topic_creation=create or version < FIRST_WITH_CREATION_CHOSEN
        )

    answer: MetadataResponse = yield from send_request(session, ByVersion(METADATA, build))
    if answer.error_code:
        raise ErrorResponse(ErrorCode.of(answer.error_code), "metadata")
    metadata = ClusterMetadata.from_response(answer)
    session.cluster.update(metadata)
    return metadata


def retrying(
    session: Session,
    attempt: Callable[[], Steps[T]],
    *,
    may_retry: Callable[[ClientError], bool] = lambda error: error.retriable,
) -> Steps[T]:
    """Repeat an attempt while `may_retry` and the retry policy allow it, then raise the last error."""
    missing = _MissingTopics(session.settings.retry.missing_topic_s)
    for pause in session.settings.retry.pauses():
        try:
            return (yield from attempt())
        except ClientError as error:
            if not may_retry(error) or missing.are_given_up(error):
                raise
            missing.paused([error], pause)
        yield Pause(pause)
    return (yield from attempt())


def _addresses(session: Session, node: int | None) -> Steps[tuple[Address, ...]]:
    if node is None:
        return session.cluster.addresses()
    if node not in session.cluster.brokers:
        yield from refresh(session)
    address = session.cluster.brokers.get(node)
    if address is None:
        raise UnknownNode(node)
    return (address,)


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


def retry_each(
    session: Session,
    keys: Iterable[K],
    attempt: Callable[[list[K]], Steps[Outcomes[K, T]]],
    may_retry: Callable[[ClientError], bool],
) -> Steps[Outcomes[K, T]]:
    """Return the outcomes of all `keys`; retry errors for which `may_retry` is true, by the retry policy."""
    pending = list(dict.fromkeys(keys))
    outcomes = yield from attempt(pending)
    missing = _MissingTopics(session.settings.retry.missing_topic_s)
    for pause in session.settings.retry.pauses():
        errors = {
            key: outcome
            for key in pending
            if isinstance(outcome := outcomes[key], ClientError)
            and may_retry(outcome)
            and not missing.are_given_up(outcome)
        }
        if not errors:
            break
        missing.paused(errors.values(), pause)
        yield Pause(pause)
        pending = list(errors)
        outcomes |= yield from attempt(pending)
    return outcomes


@attrs.define
class _MissingTopics:
    """How long an operation has waited for topics that a broker does not know, of `most_s` seconds."""

    most_s: float
    waited_s: float = 0.0

    def are_given_up(self, error: ClientError) -> bool:
        """Return whether an error is about such a topic, and the time for it is up."""
        return self.waited_s >= self.most_s and _is_missing(error)

    def paused(self, errors: Iterable[ClientError], seconds: float) -> None:
        """Count a pause after these errors."""
        if any(map(_is_missing, errors)):
            self.waited_s += seconds


def _is_missing(error: ClientError) -> bool:
    return isinstance(error, ErrorResponse) and error.code in _MISSING
