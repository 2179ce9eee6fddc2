"""The codec keeps the contract of its seam."""

import line_codec
from line_codec_conformance import LineConformance


class TestLines(LineConformance, plugin=line_codec): ...
