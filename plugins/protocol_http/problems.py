"""The one table from errors of the broker to statuses and codes of HTTP.

Codes are those of the REST proxy that most clients know (v2): 40401 for an unknown topic, 50002 and 50003 for
errors of Kafka that are lasting, or pass. What it has no code for gets the status and the digits 90 and up.
"""

from __future__ import annotations

from typing import Final

from tidelog.kernel import errors
from tidelog.plugins.protocol_http import json_text
from tidelog.plugins.protocol_http.messages import HttpProblem, HttpResponse

UNKNOWN_TOPIC: Final = 40401
UNKNOWN_PARTITION: Final = 40402
UNKNOWN_INSTANCE: Final = 40403
LASTING: Final = 50002
PASSING: Final = 50003
MAX_TEXT: Final = 1000
"""Most characters of a text, which may quote what a client sent."""

TABLE: Final[dict[type[errors.BrokerError], tuple[int, int]]] = {
    errors.BrokerError: (500, LASTING),
    errors.UnknownTopicOrPartition: (404, UNKNOWN_TOPIC),
    errors.UnknownTopicId: (404, UNKNOWN_TOPIC),
    errors.GroupIdNotFound: (404, 40490),
    errors.UnknownMemberId: (404, UNKNOWN_INSTANCE),
    errors.TopicAlreadyExists: (409, 40990),
    errors.NonEmptyGroup: (409, 40991),
    errors.GroupSubscribedToTopic: (409, 40991),
    errors.RebalanceInProgress: (409, 40992),
    errors.IllegalGeneration: (409, 40992),
    errors.StaleMemberEpoch: (409, 40992),
    errors.UnstableOffsetCommit: (409, 40993),
    errors.InvalidRequest: (422, 42290),
    errors.InvalidTopic: (422, 42291),
    errors.InvalidGroupId: (422, 42292),
    errors.InvalidPartitions: (422, 42293),
    errors.InvalidReplicationFactor: (422, 42294),
    errors.InvalidConfig: (422, 42295),
    errors.RecordsRefused: (422, 42296),
    errors.CorruptBatch: (500, LASTING),
    errors.OffsetMetadataTooLarge: (422, 42297),
    errors.InvalidCommitOffsetSize: (422, 42297),
    errors.InvalidRegularExpression: (422, 42298),
    errors.OffsetOutOfRange: (416, 41690),
    errors.MessageTooLarge: (413, 41390),
    errors.BatchTooLarge: (413, 41390),
    errors.PolicyViolation: (403, 40390),
    errors.TopicDeletionDisabled: (403, 40391),
    errors.TopicAuthorizationFailed: (403, 40301),
    errors.GroupAuthorizationFailed: (403, 40301),
    errors.ClusterAuthorizationFailed: (403, 40301),
    errors.TransactionalIdAuthorizationFailed: (403, 40301),
    errors.GroupMaxSizeReached: (503, PASSING),
    errors.NotLeaderOrFollower: (503, PASSING),
    errors.FencedLeaderEpoch: (503, PASSING),
    errors.UnknownLeaderEpoch: (503, PASSING),
    errors.CoordinatorNotAvailable: (503, PASSING),
    errors.CoordinatorLoadInProgress: (503, PASSING),
    errors.NotCoordinator: (503, PASSING),
    errors.NotEnoughReplicas: (503, PASSING),
    errors.StorageError: (503, PASSING),
}


def problem_of(error: errors.BrokerError) -> HttpProblem:
    """Return what a client gets for an error of the broker."""
    for kind in type(error).__mro__:
        found = TABLE.get(kind)
        if found is not None:
            return HttpProblem(found[0], str(error), found[1])
    return HttpProblem(500, str(error), LASTING)


def response_of(problem: HttpProblem) -> HttpResponse:
    """Return the response that says what the problem is."""
    text = str(problem)
    if len(text) > MAX_TEXT:
        text = text[: MAX_TEXT - 1] + "…"
    return HttpResponse(problem.status, json_text.encode({"error_code": problem.code, "message": text}))
