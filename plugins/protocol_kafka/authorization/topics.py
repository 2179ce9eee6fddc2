"""The guards of APIs that name topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.errors import (
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from tidelog.kernel.records.batch import HEADER_BYTES
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.apis.common_fields import NOT_ASKED
from tidelog.plugins.protocol_kafka.authorization.cluster import cluster_operations
from tidelog.plugins.protocol_kafka.authorization.guarding import Access, Guard, narrowed, without
from tidelog.plugins.protocol_kafka.context import KnownAccess
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.schema import ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.messages.create_topics import (
        CreateTopicsRequest,
        CreateTopicsResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.delete_topics import (
        DeleteTopicsRequest,
        DeleteTopicsResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataResponse
    from tidelog.plugins.protocol_kafka.messages.produce import ProduceRequest, ProduceResponse

TOPIC: Final = ResourceType.TOPIC
DENIED: Final = error_code(TopicAuthorizationFailed(""))
FAILED: Final = "Topic authorization failed."
MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 22
TRANSACTIONAL: Final = 0x10
MAX_KNOWN: Final = 1000
"""Topics of a request that a connection keeps as allowed: more are asked for each time."""


def split_topics(
    access: Access, operation: AclOperation, asked: Sequence[Any], key: str = "name"
) -> Generator[None, Any, tuple[list[Any], list[Any]]]:
    """Return the elements whose topics are allowed, with those of unknown ids, and the others, in steps."""
    named = [(each, access.topic_name(each, key)) for each in asked]
    names = (name for _, name in named if name is not None)
    allowed = yield from access.among(TOPIC, operation, names)
    served = [each for each, name in named if name is None or name in allowed]
    return served, [each for each, name in named if not (name is None or name in allowed)]


def refused_topics(
    access: Access, request: Any, field: str, denied: Sequence[Any], text: str | None = None
) -> Any:
    """Return the response to the part of a request that names topics which are not allowed."""
    return access.refused(narrowed(request, **{field: denied}), TopicAuthorizationFailed, text)


def each_topic(
    operation: AclOperation,
    field: str,
    answered: str = "topics",
    *,
    key: str = "name",
    text: str | None = None,
    once: bool = False,
) -> Guard:
    """Return the guard of an API that needs an operation on each topic.

    `field` has the topics in the request, and `answered` in the response; `text` is the
    message of one that is refused. `once`: the handler refuses a topic that is named twice.
    """

    def guard(access: Access, request: Any) -> Generator[Any, Any, Any]:
        asked = getattr(request, field)
        counts = _count(asked, key) if once else Counter[str]()
        single = [each for each in asked if counts[getattr(each, key)] <= 1]
        _, denied = yield from split_topics(access, operation, single, key)
        if not denied:
            return (yield request)
        refused = refused_topics(access, request, field, denied, text)
        served = without(asked, denied)
        if not served:
            return refused
        response = yield narrowed(request, **{field: served})
        setattr(response, answered, [*getattr(response, answered), *getattr(refused, answered)])
        return response

    return guard


def _count(asked: Sequence[Any], key: str) -> Counter[str]:
    return Counter(getattr(each, key) for each in asked)


def may_produce(known: KnownAccess, request: ProduceRequest) -> bool:
    """Return whether all that a request writes is known to be allowed, and none of it is transactional."""
    writable = known.writable
    for topic in request.topic_data:
        if (topic.name or topic.topic_id) not in writable:
            return False
        for partition in topic.partition_data:
            records = partition.records
            # Nearly none has that bit, and a call for each takes longer.
            if records and len(records) > ATTRIBUTES_AT and records[ATTRIBUTES_AT] & TRANSACTIONAL:
                return False
    return True


def _is_transactional(records: memoryview | None) -> bool:
    if records is None or len(records) < HEADER_BYTES or records[MAGIC_AT] <= 1:
        return False
    return bool(records[ATTRIBUTES_AT] & TRANSACTIONAL)


def named_topics(access: Access, topics: Sequence[Any], key: str = "name") -> set[str | bytes]:
    """Return the names, or ids, of those topics that have a name: nothing is decided about an unknown id."""
    return {
        getattr(topic, key) or topic.topic_id for topic in topics if access.topic_name(topic, key) is not None
    }


def produce(
    access: Access, request: ProduceRequest
) -> Generator[Any, ProduceResponse | None, ProduceResponse | None]:
    """Need WRITE on each topic, and on the transactional id of transactional records."""
    if any(_is_transactional(each.records) for topic in request.topic_data for each in topic.partition_data):
        transactional_id = request.transactional_id
        if transactional_id is None or not access.allows(
            ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, transactional_id
        ):
            raise TransactionalIdAuthorizationFailed("Transactional Id authorization failed.")
    # Before anything is asked: a topic that is created meanwhile has not been.
    known, named = access.context.known_access, named_topics(access, request.topic_data)
    served, denied = yield from split_topics(access, AclOperation.WRITE, request.topic_data)
    if not denied:
        if known is not None and len(named) <= MAX_KNOWN:
            known.writable = named
        return (yield request)
    refused: ProduceResponse = refused_topics(access, request, "topic_data", denied)
    response: ProduceResponse | None = refused
    if served:
        response = yield narrowed(request, topic_data=served)
        if response is not None:
            response.responses = [*response.responses, *refused.responses]
    if not request.acks:
        raise ProtocolViolation("Produce with acks=0 is not allowed for a topic that it names")
    return response


def metadata(access: Access, request: MetadataRequest) -> Generator[Any, MetadataResponse, MetadataResponse]:
    """Show topics with DESCRIBE only, create those with CREATE only, and report what is allowed with both."""
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = cluster_operations(access)
    everything = request.topics is None or (access.context.api_version == 0 and not request.topics)
    denied: list[Any] = []
    served = request
    if not everything:
        asked = request.topics or []
        mine, denied = yield from split_topics(access, AclOperation.DESCRIBE, asked)
        mine, uncreatable = yield from _creatable(access, request, mine)
        denied = [*denied, *uncreatable]
        served = narrowed(request, topics=mine) if denied else request
    response = yield served
    topics = response.topics
    if everything:
        names = (topic.name for topic in topics if topic.name is not None)
        visible = yield from access.among(TOPIC, AclOperation.DESCRIBE, names, audited=False)
        topics = [topic for topic in topics if topic.name in visible]
    bits: dict[str, int] = {}
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None:
                bits[topic.name] = access.operations(TOPIC, topic.name)
                yield
    for topic in topics:
        if topic.name in bits:
            topic.topic_authorized_operations = bits[topic.name]
    response.topics = [*topics, *(_hidden(response, each) for each in _once(denied))]
    if response.cluster_authorized_operations != NOT_ASKED:
        response.cluster_authorized_operations = operations
    return response


def _creatable(
    access: Access, request: MetadataRequest, asked: list[Any]
) -> Generator[None, Any, tuple[list[Any], list[Any]]]:
    """Return the topics that exist or may be created, and those that may not be."""
    broker = access.context.broker
    if not (request.allow_auto_topic_creation and broker.config[keys.AUTO_CREATE_TOPICS_ENABLE]):
        return asked, []
    missing = [
        each for each in asked if each.topic_id == ZERO_UUID and broker.topics.find(each.name or "") is None
    ]
    if not missing or access.allows_on_cluster(AclOperation.CREATE, audited=False):
        return asked, []
    allowed = yield from access.among(TOPIC, AclOperation.CREATE, [each.name for each in missing])
    denied = [each for each in missing if each.name not in allowed]
    return without(asked, denied), denied


def _once(asked: Sequence[Any]) -> Sequence[Any]:
    return [*{(each.name, each.topic_id): each for each in asked}.values()]


def _hidden(response: MetadataResponse, asked: Any) -> Any:
    """Return the answer for a topic of which the client may not know whether it exists."""
    from tidelog.plugins.protocol_kafka.messages.metadata import MetadataResponseTopic

    by_id = asked.topic_id != ZERO_UUID
    return MetadataResponseTopic(
        error_code=DENIED, name=None if by_id else asked.name, topic_id=asked.topic_id, partitions=[]
    )


def offset_for_leader_epoch(access: Access, request: Any) -> Generator[Any, Any, Any]:
    """Need CLUSTER_ACTION, as followers have it, or DESCRIBE on each topic."""
    if access.allows_on_cluster(AclOperation.CLUSTER_ACTION, audited=False):
        return (yield request)
    guard = each_topic(AclOperation.DESCRIBE, "topics", key="topic")
    return (yield from guard(access, request))


def create_topics(
    access: Access, request: CreateTopicsRequest
) -> Generator[Any, CreateTopicsResponse, CreateTopicsResponse]:
    """Need CREATE on the cluster or on each topic, and DESCRIBE_CONFIGS to show the configuration."""
    counts = _count(request.topics, "name")
    # One that is named twice is the handler's, which refuses it.
    names = [name for name, count in counts.items() if count == 1]
    allowed = set(names)
    if not access.allows_on_cluster(AclOperation.CREATE, audited=False):
        allowed = yield from access.among(TOPIC, AclOperation.CREATE, names)
    describable = yield from access.among(TOPIC, AclOperation.DESCRIBE_CONFIGS, names, audited=False)
    denied = [each for each in request.topics if counts[each.name] == 1 and each.name not in allowed]
    served = [each for each in request.topics if counts[each.name] > 1 or each.name in allowed]
    refused: CreateTopicsResponse = refused_topics(access, request, "topics", denied, "Authorization failed.")
    response = yield narrowed(request, topics=served)
    for topic in response.topics:
        if not topic.error_code and topic.name not in describable:
            topic.topic_config_error_code = DENIED
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []
    response.topics = [*response.topics, *refused.topics]
    return response


def delete_topics(
    access: Access, request: DeleteTopicsRequest
) -> Generator[Any, DeleteTopicsResponse, DeleteTopicsResponse]:
    """Need DELETE on the cluster or on each topic; one without DESCRIBE is not shown to exist."""
    if access.allows_on_cluster(AclOperation.DELETE, audited=False):
        return (yield request)
    from tidelog.plugins.protocol_kafka.messages.delete_topics import DeletableTopicResult, DeleteTopicState

    by_state = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    counts = Counter((each.name, each.topic_id) for each in by_state)
    # What names no topic, or one twice, is the handler's, which refuses it.
    single = [
        (each, access.topic_name(each))
        for each in by_state
        if counts[each.name, each.topic_id] == 1 and (each.name is None) != (each.topic_id == ZERO_UUID)
    ]
    names = [name for _, name in single if name is not None]
    visible = yield from access.among(TOPIC, AclOperation.DESCRIBE, names)
    deletable = yield from access.among(TOPIC, AclOperation.DELETE, names)
    exists = access.context.broker.topics.find
    refused = [
        (each, name)
        for each, name in single
        if name is not None
        and name not in deletable
        and (each.name is None or name not in visible or exists(name) is not None)
    ]
    gone = {(each.name, each.topic_id) for each, _ in refused}
    response = yield narrowed(
        request,
        topics=[each for each in request.topics if (each.name, each.topic_id) not in gone],
        topic_names=[name for name in request.topic_names if (name, ZERO_UUID) not in gone],
    )
    response.responses = [
        *response.responses,
        *(
            DeletableTopicResult(
                name=name if each.name is not None or name in visible else None,
                topic_id=each.topic_id,
                error_code=DENIED,
                error_message=FAILED,
            )
            for each, name in refused
        ),
    ]
    return response


def describe_topic_partitions(
    access: Access, request: DescribeTopicPartitionsRequest
) -> Generator[Any, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponse]:
    """Show topics with DESCRIBE only, and what is allowed with them."""
    from tidelog.plugins.protocol_kafka.messages.describe_topic_partitions import (
        Cursor,
        DescribeTopicPartitionsResponse,
        DescribeTopicPartitionsResponseTopic,
        DescribeTopicPartitionsTopic,
    )

    cursor, named = request.cursor, [topic.name for topic in request.topics]
    if cursor is not None and (cursor.partition_index < 0 or (named and cursor.topic_name not in named)):
        # The handler refuses such a cursor, whatever the topics are.
        return (yield request)
    first = "" if cursor is None else cursor.topic_name
    asked = sorted({name for name in named or _existing(access) if name >= first})
    allowed = yield from access.among(TOPIC, AclOperation.DESCRIBE, asked)
    names = [name for name in asked if name in allowed]
    denied = [name for name in asked if name not in allowed] if named else []
    response = DescribeTopicPartitionsResponse(topics=[])
    if names:
        if cursor is not None and cursor.topic_name not in allowed:
            cursor = Cursor(topic_name=names[0], partition_index=0)
        topics = [DescribeTopicPartitionsTopic(name=name) for name in names]
        response = yield narrowed(request, topics=topics, cursor=cursor)
    bits: dict[str, int] = {}
    for topic in response.topics:
        bits[topic.name or ""] = access.operations(TOPIC, topic.name or "")
        yield
    for topic in response.topics:
        topic.topic_authorized_operations = bits[topic.name or ""]
    response.topics = [
        *response.topics,
        *(
            DescribeTopicPartitionsResponseTopic(error_code=DENIED, name=name, partitions=[])
            for name in denied
        ),
    ]
    return response


def _existing(access: Access) -> list[str]:
    return [topic.name for topic in access.context.broker.topics]
