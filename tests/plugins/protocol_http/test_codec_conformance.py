"""The codec `http` keeps the contract of its seam."""

from __future__ import annotations

from tidelog.plugins.protocol_http import plugin
from tidelog.plugins.protocol_http.conformance import HttpCodecConformance


class TestHttpCodec(HttpCodecConformance, plugin=plugin): ...
