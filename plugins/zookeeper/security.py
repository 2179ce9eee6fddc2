"""How a client of ZooKeeper checks its servers and proves who it is: TLS, and the scheme `digest`.

Its own nodes may have access control lists of Kafka's kind (Apache Kafka 3.9, `ZkData.defaultAcls`): the
client that creates a node may do everything with it, and all others read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable


@attrs.frozen(kw_only=True)
class ZooKeeperSecurity:
    """What clients of ZooKeeper can do.

    Attributes:
        new_context: makes the context of a connection to a `secureClientPort`, None without TLS; it is called
            for each, in a thread, so that files which were replaced are used. Raises `TidelogError` or
            `OSError`: what it reads cannot be used.
        digest: `user:password`, by which access control lists of that scheme know the client
        restricts_nodes: no one else may change the nodes that it creates
    """

    new_context: Callable[[], ssl.SSLContext] | None = None
    digest: str | None = attrs.field(default=None, repr=False)
    restricts_nodes: bool = False

    def kazoo_options(self) -> dict[str, Any]:
        """Return keyword arguments of `KazooClient`; TLS is none of them."""
        options: dict[str, Any] = {}
        if self.restricts_nodes:
            # Not at the top: without kazoo there is an error that names the extra.
            from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

            options["default_acl"] = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
        if self.digest is not None:
            options["auth_data"] = [("digest", self.digest)]
        return options
