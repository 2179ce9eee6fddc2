"""The plugin that a broker for tests has beside the others: what it was asked, and faults on purpose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.protocol_kafka.apis import checked_apis
from tidelog.testing.cut_connection import CuttingCodec
from tidelog.testing.faults import InjectedFaults
from tidelog.testing.request_log import RequestLog

if TYPE_CHECKING:
    from tidelog.kernel import Broker
    from tidelog.kernel.seams.broker import PluginHooks
    from tidelog.kernel.seams.requests import RequestStage
    from tidelog.kernel.seams.wire import WireCodec


@hookimpl
def tidelog_request_stages(broker: Broker) -> Iterable[RequestStage]:
    """Return the stages of one broker."""

    def name_of(topic_id: bytes) -> str | None:
        topic = broker.topics.find_by_id(topic_id)
        return None if topic is None else topic.name

    apis = checked_apis(broker.plugins.ask("tidelog_kafka_apis"))
    return (InjectedFaults([api.name for api in apis], name_of, lambda: broker.clock() / 1000), RequestLog())


@hookimpl
def tidelog_wire_codecs(plugins: PluginHooks) -> Iterable[WireCodec]:
    """Return the codec whose connections faults can cut."""
    return [CuttingCodec(plugins)]
