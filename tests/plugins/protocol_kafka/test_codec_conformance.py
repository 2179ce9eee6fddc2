"""The codec `kafka` keeps the contract of its seam."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka import plugin
from tidelog.plugins.protocol_kafka.conformance import KafkaCodecConformance


class TestKafkaCodec(KafkaCodecConformance, plugin=plugin): ...
