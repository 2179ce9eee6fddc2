"""Kafka's wire protocol: messages, codecs, the sans-IO connection and the handlers of each API."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.kernel.hookspecs import hookimpl
from tidelog.kernel.seams.wire import WireCodec


@hookimpl
def tidelog_wire_codecs() -> Iterable[WireCodec]:
    """The codec `kafka`."""
    from tidelog.plugins.protocol_kafka.codec import KafkaCodec

    return [KafkaCodec()]
