"""DescribeConfigs (API 32): the configuration of topics and other resources, with each value's source."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from tidelog.kernel.config import Config, ConfigKey, OriginKind
from tidelog.kernel.config import keys as kernel_keys
from tidelog.kernel.config.listeners import format_address
from tidelog.kernel.config.topic_config import TopicDefault
from tidelog.kernel.errors import BrokerError, InvalidRequest
from tidelog.kernel.metadata import ALL_BROKERS
from tidelog.kernel.pace import Pace, each_in_steps, run_in_steps
from tidelog.kernel.topic_names import check_topic_name
from tidelog.plugins.protocol_kafka.apis.config_changes import SCOPES, check_logger_node, node_named
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tidelog.plugins.protocol_kafka.unread_keys import UNREAD_KEYS, UnreadKey

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ResourceScope

TOPIC_SOURCE, THIS_BROKER_SOURCE, ALL_BROKERS_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5
LOGGER_SOURCE = 6
OWN_SOURCES: Mapping[ResourceScope, int] = {"client-metrics": 7, "group": 8}
DYNAMIC_SOURCES = {
    OriginKind.DYNAMIC_BROKER: THIS_BROKER_SOURCE,
    OriginKind.DYNAMIC_CLUSTER: ALL_BROKERS_SOURCE,
    OriginKind.DEFAULT: DEFAULT_SOURCE,
}
SOURCES_SINCE = 1
KEPT_RESOURCES = 16
"""Most whole descriptions that are cached while a request selects keys of them."""
MAX_REPEATED = 100
"""Most repetitions of resources in a request that are described."""
UNKNOWN_TYPE = 0
TYPES = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
"""Kafka's numbers for the types of keys; a type that Kafka does not have is reported as unknown."""


_Entries: TypeAlias = Generator[None, None, list[DescribeConfigsResourceResult]]
TopicConfigSource = Literal["topic", "broker", "default"]


class TopicConfigEntry(NamedTuple):
    """A topic key's value in Kafka's notation, and where it comes from.

    `broker_key` is the broker key that gives it when `source` is "broker". `value` is None for a secret.
    """

    name: str
    value: str | None
    source: TopicConfigSource
    broker_key: str | None = None
    secret: bool = False


async def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe each resource independently: an error of one does not affect the others.

    A repeated resource is described each time, up to a limit: a few bytes of request can be hundreds of
    kilobytes of response.
    """
    descriptions = _Descriptions(context, request)
    pace = Pace()
    results: list[DescribeConfigsResult] = []
    seen: set[tuple[int, str]] = set()
    for resource in request.resources:
        seen.add((resource.resource_type, resource.resource_name))
        refused = len(results) - len(seen) >= MAX_REPEATED
        describe = _describe(context, resource, descriptions, refused=refused)
        results.append(await run_in_steps(describe, pace))
        await pace.turn()
    return DescribeConfigsResponse(results=results)


class _Descriptions:
    """Whole descriptions for one request, the last of which are cached."""

    def __init__(self, context: RequestContext, request: DescribeConfigsRequest) -> None:
        self._context = context
        self._request = request
        self._last: dict[tuple[int, str], list[DescribeConfigsResourceResult]] = {}

    def entries(self, kind: int, name: str) -> _Entries:
        """Return all keys of a resource, in steps.

        Raises:
            BrokerError: there is no such resource.
        """
        # Put back below as the last one: the first one is the one that was not used for longest.
        found = self._last.pop((kind, name), None)
        if found is None:
            found = yield from each_in_steps(self._all_entries(kind, name), self._trimmed)
            if len(self._last) == KEPT_RESOURCES:
                del self._last[next(iter(self._last))]
        self._last[kind, name] = found
        return found

    def _all_entries(self, kind: int, name: str) -> Iterable[DescribeConfigsResourceResult]:
        documented = self._request.include_documentation
        return _entries(self._context, kind, name, documented=documented)

    def _trimmed(self, entry: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
        return _trimmed(entry, self._request, self._context.api_version)


def _describe(
    context: RequestContext,
    resource: DescribeConfigsResource,
    descriptions: _Descriptions,
    *,
    refused: bool,
) -> Generator[None, None, DescribeConfigsResult]:
    code = 0
    message: str | None = ""  # as in Kafka, whose message of a success is not null
    configs: list[DescribeConfigsResourceResult] = []
    try:
        if refused:
            name = resource.resource_name
            raise InvalidRequest(
                f"a request may repeat {MAX_REPEATED} resources at most, {name!r} is one more"
            )
        configs = yield from descriptions.entries(resource.resource_type, resource.resource_name)
        if resource.configuration_keys:
            wanted = set(resource.configuration_keys)
            configs = [entry for entry in configs if entry.name in wanted]
    except BrokerError as error:
        code, message = error_code(error), context.error_message(error)
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _entries(
    context: RequestContext, kind: int, name: str, *, documented: bool
) -> Iterable[DescribeConfigsResourceResult]:
    config = context.broker.config
    if kind == TOPIC_RESOURCE:
        check_topic_name(name)
        overrides = context.broker.topics.get(name).overrides
        return (_topic_entry(config, entry) for entry in topic_config_entries(config, overrides))
    if kind == BROKER_RESOURCE:
        if node_named(context, name) is None:
            return _entries_of_all_brokers(context)
        return _entries_of_this_broker(context, documented=documented)
    if kind == BROKER_LOGGER_RESOURCE:
        check_logger_node(context, name)
        return _logger_entries(context.broker.loggers.levels())
    if kind in SCOPES:
        if not name:
            raise InvalidRequest("the name of a group or of a subscription must not be empty")
        settings = context.broker.resource_configs.settings(SCOPES[kind], name)
        return _resource_entries(config, SCOPES[kind], settings)
    raise InvalidRequest(f"resources of type {kind} have no configuration here")


def _entries_of_this_broker(
    context: RequestContext, *, documented: bool
) -> Iterator[DescribeConfigsResourceResult]:
    """Yield every key of this broker, under each of its names, and Kafka's keys that nothing here reads."""
    config = context.broker.config
    for key in _broker_keys(config):
        entry = _broker_entry(config, key)
        if key.name == kernel_keys.ADVERTISED_LISTENERS.name:
            entry.value = _advertised(context)
        yield entry
        for alias in key.aliases:
            other = copy(entry)
            other.name = alias
            yield other
    for unread in UNREAD_KEYS:
        if config.keys.find(unread.name, "broker") is None:
            yield _unread_entry(config, unread, documented=documented)


def _advertised(context: RequestContext) -> str:
    """Return the addresses that clients get, which also stand for ports that the system has chosen."""
    advertised = [
        (listener.name, context.broker.cluster.this_broker(listener.name))
        for listener in context.broker.config.served_listeners()
    ]
    return ",".join(f"{name}://{format_address(here.host, here.port)}" for name, here in advertised)


def _unread_entry(config: Config, unread: UnreadKey, *, documented: bool) -> DescribeConfigsResourceResult:
    # It compares the name with every pattern, which takes longer than all the rest.
    judgement = config.keys.judge(unread.name, "", "broker") if documented else None
    why = "" if judgement is None else f" Not used: it {judgement.reason}."
    synonyms = [DescribeConfigsSynonym(name=unread.name, value=unread.value, source=DEFAULT_SOURCE)]
    return DescribeConfigsResourceResult(
        name=unread.name,
        value=unread.value,
        read_only=True,
        is_default=True,
        config_source=DEFAULT_SOURCE,
        is_sensitive=unread.type == "password",
        synonyms=[] if unread.value is None else synonyms,
        config_type=TYPES.get(unread.type, UNKNOWN_TYPE),
        documentation=unread.meaning + why,
    )


def _logger_entries(levels: Mapping[str, str]) -> Iterator[DescribeConfigsResourceResult]:
    for name, level in levels.items():
        yield DescribeConfigsResourceResult(
            name=name,
            value=level,
            read_only=False,
            is_default=False,
            config_source=LOGGER_SOURCE,
            is_sensitive=False,
            synonyms=[],  # as in Kafka
            config_type=UNKNOWN_TYPE,
            documentation=None,
        )


def _entries_of_all_brokers(context: RequestContext) -> Iterator[DescribeConfigsResourceResult]:
    """Yield what is set for all brokers, and nothing else, as in Kafka."""
    config = context.broker.config
    settings = context.broker.image.config(ALL_BROKERS)
    for key in _broker_keys(config):
        if key.name in settings:
            entry = _broker_entry(config, key)
            entry.value = None if key.secret else settings[key.name]
            entry.config_source, entry.is_default = ALL_BROKERS_SOURCE, False
            entry.synonyms = [
                DescribeConfigsSynonym(name=key.name, value=entry.value, source=ALL_BROKERS_SOURCE)
            ]
            yield entry


def _broker_keys(config: Config) -> Iterator[ConfigKey[object]]:
    """Yield every key of brokers, and those of single listeners that are set."""
    yield from config.keys.of_scope("broker")
    yield from config.listener_keys()


def _resource_entries(
    config: Config, scope: ResourceScope, settings: Mapping[str, str]
) -> Iterator[DescribeConfigsResourceResult]:
    """Yield every key of a group or of client metrics, and settings of keys that only Apache Kafka has."""
    keys = {key.name: key for key in config.keys.of_scope(scope)}
    for name in [*keys, *(name for name in settings if name not in keys)]:
        yield _resource_entry(config, scope, name, keys.get(name), settings.get(name))


def _resource_entry(
    config: Config, scope: ResourceScope, name: str, key: ConfigKey[object] | None, own: str | None
) -> DescribeConfigsResourceResult:
    synonyms: list[DescribeConfigsSynonym] = []
    if own is not None:
        synonyms.append(DescribeConfigsSynonym(name=name, value=own, source=OWN_SOURCES[scope]))
    if key is not None and key.broker_defaults:
        broker_key = key.broker_defaults[0].key
        value = broker_key.type.format(config[broker_key])
        synonyms += _broker_synonyms(config, broker_key, value)
    text, source = "" if key is None else key.type.format(key.default), DEFAULT_SOURCE
    if synonyms:
        text, source = synonyms[0].value or "", synonyms[0].source
    return DescribeConfigsResourceResult(
        name=name,
        value=text,
        read_only=False,
        is_default=own is None,
        config_source=source,
        is_sensitive=False,
        synonyms=synonyms,
        config_type=UNKNOWN_TYPE if key is None else TYPES.get(key.type.name, UNKNOWN_TYPE),
        documentation=None if key is None else key.documentation,
    )


def _trimmed(
    entry: DescribeConfigsResourceResult, request: DescribeConfigsRequest, version: int
) -> DescribeConfigsResourceResult:
    """Return the description without keys that were not requested and fields that the version lacks."""
    if version >= SOURCES_SINCE:
        entry.is_default = False
    if not request.include_synonyms:
        entry.synonyms = []
    if not request.include_documentation:
        entry.documentation = None
    return entry


def _topic_entry(config: Config, entry: TopicConfigEntry) -> DescribeConfigsResourceResult:
    key = config.keys.find(entry.name, "topic")
    entry = entry._replace(value=_in_kafkas_notation(key, entry.value))
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=False,
        is_default=entry.source != "topic",
        config_source=_topic_source(config, entry),
        is_sensitive=entry.secret,
        synonyms=_topic_synonyms(config, entry),
        config_type=UNKNOWN_TYPE if key is None else TYPES.get(key.type.name, UNKNOWN_TYPE),
        documentation=None if key is None else key.documentation,
    )


def _in_kafkas_notation(key: ConfigKey[object] | None, text: str | None) -> str | None:
    """Return a value as Kafka describes it: without spaces, signs and zeros that mean nothing."""
    if key is None or key.secret or text is None:
        return text
    try:
        return key.type.format(key.type.parse(text))
    except ValueError:
        # Another broker has stored it; this one uses its default instead.
        return text


def _topic_source(config: Config, entry: TopicConfigEntry) -> int:
    if entry.source == "topic":
        return TOPIC_SOURCE
    key = config.topic_defaults[entry.name].broker_key
    return DEFAULT_SOURCE if key is None else _broker_source(config, key)


def _broker_source(config: Config, key: ConfigKey[object]) -> int:
    return DYNAMIC_SOURCES.get(config.origin(key).kind, STATIC_SOURCE)


def _topic_synonyms(config: Config, entry: TopicConfigEntry) -> list[DescribeConfigsSynonym]:
    """Return the sources of a value in order of precedence: the topic's, the broker's, the default."""
    synonyms: list[DescribeConfigsSynonym] = []
    if entry.source == "topic":
        synonyms.append(DescribeConfigsSynonym(name=entry.name, value=entry.value, source=TOPIC_SOURCE))
    default = config.topic_defaults.get(entry.name)
    if default is None:
        return synonyms
    key = default.key
    if default.broker_key is not None:
        synonyms.append(
            DescribeConfigsSynonym(
                name=default.broker_key.name,
                value=None if key.secret else config.text(default.broker_key.name),
                source=_broker_source(config, default.broker_key),
            )
        )
    if key.broker_defaults and key.broker_defaults[0].key.default is not None:
        name = key.broker_defaults[0].key.name
        value = None if key.secret else key.type.format(key.default)
        synonyms.append(DescribeConfigsSynonym(name=name, value=value, source=DEFAULT_SOURCE))
    return synonyms


def _broker_entry(config: Config, key: ConfigKey[object]) -> DescribeConfigsResourceResult:
    is_set = config.is_set(key)
    value = None if key.secret or config[key] is None else key.type.format(config[key])
    return DescribeConfigsResourceResult(
        name=key.name,
        value=value,
        read_only=not key.dynamic,
        is_default=not is_set,
        config_source=_broker_source(config, key),
        is_sensitive=key.secret,
        synonyms=_broker_synonyms(config, key, value),
        config_type=TYPES.get(key.type.name, UNKNOWN_TYPE),
        documentation=key.documentation,
    )


def _broker_synonyms(
    config: Config, key: ConfigKey[object], value: str | None
) -> list[DescribeConfigsSynonym]:
    synonyms: list[DescribeConfigsSynonym] = []
    if config.is_set(key):
        synonyms.append(
            DescribeConfigsSynonym(name=key.name, value=value, source=_broker_source(config, key))
        )
    if key.default is not None:
        default = None if key.secret else key.type.format(key.default)
        synonyms.append(DescribeConfigsSynonym(name=key.name, value=default, source=DEFAULT_SOURCE))
    return synonyms


def topic_config_entries(config: Config, overrides: Mapping[str, str | None]) -> list[TopicConfigEntry]:
    """Return every topic key with its value for a topic that sets `overrides`, in the order of the keys.

    Overrides of unsupported keys, accepted because they ask for nothing, come last.
    """
    given = {
        key.name if (key := config.keys.find(name, "topic")) else name: text
        for name, text in overrides.items()
    }
    entries = [_entry(default, given.pop(name, None)) for name, default in config.topic_defaults.items()]
    return entries + [TopicConfigEntry(name, text, "topic") for name, text in given.items()]


def _entry(default: TopicDefault, override: str | None) -> TopicConfigEntry:
    key = default.key
    if override is not None:
        return TopicConfigEntry(key.name, None if key.secret else override, "topic", secret=key.secret)
    value = None if key.secret else key.type.format(default.value)
    if default.broker_key is None:
        return TopicConfigEntry(key.name, value, "default", secret=key.secret)
    return TopicConfigEntry(key.name, value, "broker", default.broker_key.name, key.secret)
