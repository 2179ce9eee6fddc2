from __future__ import annotations

import pytest

from benchmarks.load.codec_messages import CodecMessage, codec_messages
from tidelog.plugins.schema import decode, encode


@pytest.mark.parametrize("message", codec_messages(), ids=lambda message: message.name)
def test_codecs_of_all_packages_have_the_same_bytes(message: CodecMessage) -> None:
    data = encode(message.message, message.version)
    assert decode(type(message.message), message.version, data) == message.message
    encoders = message.encoders()
    assert list(encoders) == ["tidelog", "kafka-python", "kio"]
    assert [call() for call in encoders.values()] == [data] * 3
    decoded = {name: call() for name, call in message.decoders().items()}
    assert decoded["tidelog"] == (message.message, len(data))
    assert decoded["kafka-python"].encode() == data  # type: ignore[attr-defined]
