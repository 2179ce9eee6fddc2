"""`quorum-state`: the last election known to this node.

    {"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}
    {"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,
     "currentVoters":[{"voterId":1}],"data_version":0}

Version 1 goes with `kraft.version` 1, where the voters stand in the log; version 0 with voters that are
configured. The bytes are as Apache Kafka 4.4.0 writes them, on one line; KIP-595, KIP-853.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.ids import encode_uuid_bytes

QUORUM_STATE = "quorum-state"
NO_NODE = -1
_NO_DIRECTORY = encode_uuid_bytes(bytes(16))


class QuorumState(NamedTuple):
    """Epoch and leader (-1: unknown), and the configured voters if the file names them."""

    leader_epoch: int = 0
    leader_id: int = NO_NODE
    voters: tuple[int, ...] | None = None


def read_quorum_state(directory: Path) -> QuorumState | None:
    """Blocking: return the last election, None without one.

    Raises:
        ConfigError: the file is malformed.
    """
    path = directory / QUORUM_STATE
    content = disk.read_file(path)
    if content is None:
        return None
    try:
        document: dict[str, Any] = json.loads(content)
        if document["data_version"] not in (0, 1):
            raise ValueError(f"its version is {document['data_version']!r}, this broker reads 0 and 1")
        voters = document.get("currentVoters")
        named = None if voters is None else tuple(int(voter["voterId"]) for voter in voters)
        return QuorumState(int(document["leaderEpoch"]), int(document["leaderId"]), named)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be used ({error}); restore it from a backup") from None


def write_quorum_state(directory: Path, node_id: int, epoch: int, kraft_version: int) -> None:
    """Blocking: record, durably, that this node leads in `epoch`."""
    document: dict[str, object]
    if kraft_version:
        document = {"leaderId": node_id, "leaderEpoch": epoch, "votedId": NO_NODE}
        document |= {"votedDirectoryId": _NO_DIRECTORY, "data_version": 1}
    else:
        document = {"clusterId": "", "leaderId": node_id, "leaderEpoch": epoch, "votedId": NO_NODE}
        document |= {"appliedOffset": 0, "currentVoters": [{"voterId": node_id}], "data_version": 0}
    disk.replace_file(directory / QUORUM_STATE, json.dumps(document, separators=(",", ":")).encode())
