"""What goes wrong with ZooKeeper, as this plugin distinguishes it.

Passing: `Unavailable` and `SessionExpired`; the same is tried again. Of the answer to one request: `NoNode`,
`NodeExists`, `NotEmpty`. Until someone changes something: `Refused` and `Conflict`.
"""

from __future__ import annotations

from tidelog.kernel.errors import TidelogError


class ZooKeeperError(TidelogError):
    """Root of all errors here; the message names path or server."""


class Unavailable(ZooKeeperError):
    """No server answered in time, or the connection was lost: what was asked for may be done or not."""


class SessionExpired(Unavailable):
    """ZooKeeper has ended the session, and removed its ephemeral nodes."""


class NoNode(ZooKeeperError):
    """There is no such node, or nothing above the one to be created."""


class NodeExists(ZooKeeperError):
    """There is such a node."""


class NotEmpty(ZooKeeperError):
    """A node with children cannot be removed."""


class Refused(ZooKeeperError):
    """ZooKeeper does not let this client do it: access control lists, or a value that is too large."""


class Conflict(ZooKeeperError):
    """What is there belongs to another broker or cluster."""


class StaleRegistration(ZooKeeperError):
    """A session that has not expired yet holds the id of this broker, with the broker's own address."""
