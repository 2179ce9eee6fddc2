"""Messages of the commands for a broker's errors, each with the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidelog.kernel.config.types import nearest_name
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client_commands.options import CommandFailed
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

NAME_RULE = (
    "A name has 1 to 249 characters, each one of a-z, A-Z, 0-9, '.', '_' and '-', and is neither '.' "
    "nor '..'."
)

_LEGAL_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


def creation_failed(name: str, error: ErrorResponse) -> CommandFailed:
    """Return the error for a topic that was not created."""
    detail = _detail(error)
    match error.code:
        case ErrorCode.TOPIC_ALREADY_EXISTS:
            text = f"Topic {name!r} exists already. With --if-not-exists this is no error."
        case ErrorCode.INVALID_TOPIC_EXCEPTION if not _LEGAL_NAME.fullmatch(name):
            text = f"{name!r} is no topic name. {NAME_RULE}"
        case ErrorCode.INVALID_CONFIG:
            text = f"Topic {name!r} cannot have this configuration: {detail} `tidelog config` lists the keys."
        case _:
            text = f"Topic {name!r} cannot be created: {detail}"
    return CommandFailed(text)


def in_doubt(what: str, error: ClientError, check: str = "tidelog topics list") -> CommandFailed:
    """Return the error for a change that may or may not have been made; the command `check` shows which."""
    return CommandFailed(f"Whether {what} is not known: {error}. Check with `{check}`.")


def alteration_failed(name: str, error: ErrorResponse, existing: Iterable[str]) -> CommandFailed:
    """Return the error for a topic that was not changed."""
    match error.code:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            text = _no_topic(name, existing)
        case ErrorCode.INVALID_TOPIC_EXCEPTION if not _LEGAL_NAME.fullmatch(name):
            text = f"{name!r} is no topic name. {NAME_RULE}"
        case ErrorCode.INVALID_CONFIG:
            text = _bad_config(name, error)
        case ErrorCode.INVALID_PARTITIONS:
            text = f"Topic {name!r} cannot be changed: {_detail(error)} --partitions has to be more than now."
        case _:
            text = f"Topic {name!r} cannot be changed: {_detail(error)}"
    return CommandFailed(text)


def deletion_failed(name: str, error: ClientError, existing: Iterable[str]) -> CommandFailed:
    """Return the error for a topic that was not deleted."""
    if not isinstance(error, ErrorResponse):
        return CommandFailed(f"Topic {name!r} was perhaps not deleted: {error}.")
    match error.code:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return CommandFailed(f"{_no_topic(name, existing)} With --if-exists this is no error.")
        case ErrorCode.TOPIC_DELETION_DISABLED:
            return CommandFailed(
                f"Topic {name!r} cannot be deleted: the broker has delete.topic.enable=false. Start it with "
                "delete.topic.enable=true."
            )
        case _:
            return CommandFailed(f"Topic {name!r} cannot be deleted: {_detail(error)}")


def not_found(name: str, code: ErrorCode, existing: Iterable[str]) -> CommandFailed:
    """Return the error for a topic that cannot be described."""
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return CommandFailed(_no_topic(name, existing))
    if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        return CommandFailed(f"{name!r} is no topic name. {NAME_RULE}")
    return CommandFailed(f"Topic {name!r} cannot be described: {code.name}.")


def _no_topic(name: str, existing: Iterable[str]) -> str:
    near = nearest_name(name, existing)
    hint = f"Did you mean {near!r}?" if near else "`tidelog topics list` lists those there are."
    return f"There is no topic {name!r}. {hint}"


def _bad_config(name: str, error: ErrorResponse) -> str:
    detail = _detail(error)
    return f"Topic {name!r} cannot have this configuration: {detail} `tidelog config` lists the keys."


def _detail(error: ErrorResponse) -> str:
    """Return the broker's error message as a sentence, or the name of the error when it has none."""
    text = (error.detail or error.code.name).strip()
    return text if text[-1] in ".!?" else f"{text}."
