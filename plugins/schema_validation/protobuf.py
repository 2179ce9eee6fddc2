"""Values that are Protobuf messages."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tidelog.plugins.schema_validation.unfit import Unfit


def protobuf_check(content: bytes, message: str) -> Callable[[bytes], None]:
    """Return what checks that values are messages of this full name; `content` is a `FileDescriptorSet`.

    Fields that the message does not have are accepted, as Protobuf does. Its parser limits the depth to 100.

    Raises:
        ValueError: the descriptors cannot be used, or have no such message.
        ModuleNotFoundError: protobuf is not installed.
    """
    descriptors: Any = import_module("google.protobuf.descriptor_pb2")
    pools: Any = import_module("google.protobuf.descriptor_pool")
    factory: Any = import_module("google.protobuf.message_factory")
    pool = pools.DescriptorPool()
    try:
        files = descriptors.FileDescriptorSet.FromString(content)
        for file in files.file:
            pool.Add(file)
        found = pool.FindMessageTypeByName(message)
    except KeyError:
        raise ValueError(f"it has no message {message!r}; set schema_validation.message") from None
    # A `DecodeError`, or what a pool raises of descriptors that contradict each other.
    except Exception as error:
        raise ValueError(f"it has no descriptors as protoc writes them: {error}") from error
    parse = factory.GetMessageClass(found).FromString

    def check(value: bytes) -> None:
        try:
            parsed = parse(value)
        except Exception:
            raise Unfit(f"the value is no {message}") from None
        if not parsed.IsInitialized():
            raise Unfit(f"a required field of {message} is missing: {parsed.FindInitializationErrors()}")

    return check
