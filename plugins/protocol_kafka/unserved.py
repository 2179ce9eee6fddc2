"""APIs of Kafka's brokers that are not served, each with the reason.

Their requests close the connection, as in Kafka those of an API that a broker lacks do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Unserved(NamedTuple):
    """Name of an API, and why it is not served."""

    name: str
    reason: str


_NO_CONTROLLER: Final = (
    "only the controller of a ZooKeeper cluster sends it to its brokers, and this one has no peers"
)
_NO_SHARE_GROUPS: Final = "share groups are not coordinated here (KIP-932)"
_NO_STREAMS_GROUPS: Final = "streams groups are not coordinated here (KIP-1071)"
_ONE_VOTER: Final = "this node is the only voter of its metadata log"

UNSERVED: Final[Mapping[int, Unserved]] = {
    4: Unserved("LeaderAndIsr", _NO_CONTROLLER),
    5: Unserved("StopReplica", _NO_CONTROLLER),
    6: Unserved("UpdateMetadata", _NO_CONTROLLER),
    7: Unserved("ControlledShutdown", "a broker sends it to the controller of a ZooKeeper cluster"),
    56: Unserved("AlterPartition", "a broker sends it to its controller, and this one has no peers"),
    58: Unserved("Envelope", "a broker sends it to its controller, and this one has no peers"),
    64: Unserved("UnregisterBroker", "this node is the only broker"),
    67: Unserved("AllocateProducerIds", "a broker sends it to its controller, and this one has no peers"),
    76: Unserved("ShareGroupHeartbeat", _NO_SHARE_GROUPS),
    77: Unserved("ShareGroupDescribe", _NO_SHARE_GROUPS),
    78: Unserved("ShareFetch", _NO_SHARE_GROUPS),
    79: Unserved("ShareAcknowledge", _NO_SHARE_GROUPS),
    80: Unserved("AddRaftVoter", _ONE_VOTER),
    81: Unserved("RemoveRaftVoter", _ONE_VOTER),
    83: Unserved("InitializeShareGroupState", _NO_SHARE_GROUPS),
    84: Unserved("ReadShareGroupState", _NO_SHARE_GROUPS),
    85: Unserved("WriteShareGroupState", _NO_SHARE_GROUPS),
    86: Unserved("DeleteShareGroupState", _NO_SHARE_GROUPS),
    87: Unserved("ReadShareGroupStateSummary", _NO_SHARE_GROUPS),
    88: Unserved("StreamsGroupHeartbeat", _NO_STREAMS_GROUPS),
    89: Unserved("StreamsGroupDescribe", _NO_STREAMS_GROUPS),
    90: Unserved("DescribeShareGroupOffsets", _NO_SHARE_GROUPS),
    91: Unserved("AlterShareGroupOffsets", _NO_SHARE_GROUPS),
    92: Unserved("DeleteShareGroupOffsets", _NO_SHARE_GROUPS),
    93: Unserved("StreamsGroupTopologyDescriptionUpdate", _NO_STREAMS_GROUPS),
    94: Unserved("UnregisterController", "this node is the only controller"),
}
