"""Codecs of Kafka's messages: declarations, a compiled codec, and a reference codec to check it against.

Messages are declared with `declare`; `decoder` and `encoder` compile what one version of one message needs.
"""

from tidelog.plugins.schema.compiled import (
    decode,
    decoder,
    encode,
    encode_in_steps,
    encoder,
    large_decoder,
    large_encoder,
    small_decoder,
    small_encoder,
)
from tidelog.plugins.schema.errors import (
    CodecError,
    DecodeError,
    EncodeError,
    TooManyElements,
)
from tidelog.plugins.schema.types import ZERO_UUID, Part, RecordRegions, Uuid

__all__ = [
    "ZERO_UUID",
    "CodecError",
    "DecodeError",
    "EncodeError",
    "Part",
    "RecordRegions",
    "TooManyElements",
    "Uuid",
    "decode",
    "decoder",
    "encode",
    "encode_in_steps",
    "encoder",
    "large_decoder",
    "large_encoder",
    "small_decoder",
    "small_encoder",
]
