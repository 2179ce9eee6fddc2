"""How a client of ZooKeeper checks its servers and proves who it is: TLS, and the scheme `digest`.

Its own nodes may have access control lists of Kafka's kind (Apache Kafka 3.9, `ZkData.defaultAcls`): the
client that creates a node may do everything with it, and all others read it.
"""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class ZooKeeperSecurity:
    """What kazoo can do; files are PEM.

    Attributes:
        uses_tls: connect to a `secureClientPort`
        ca_file: certificates that servers' are checked with, None for those of the system
        cert_file, key_file: the client's own, where servers ask for one; None for none
        key_password: of the key
        checks_hostname: the certificate of a server has to name the host that is connected to
        digest: `user:password`, by which access control lists of that scheme know the client
        restricts_nodes: no one else may change the nodes that it creates
    """

    uses_tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = attrs.field(default=None, repr=False)
    checks_hostname: bool = True
    digest: str | None = attrs.field(default=None, repr=False)
    restricts_nodes: bool = False

    def kazoo_options(self) -> dict[str, Any]:
        """Return keyword arguments of `KazooClient`."""
        options: dict[str, Any] = {}
        if self.restricts_nodes:
            # Not at the top: without kazoo there is an error that names the extra.
            from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

            options["default_acl"] = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
        if self.digest is not None:
            options["auth_data"] = [("digest", self.digest)]
        if self.uses_tls:
            options |= {
                "use_ssl": True,
                "ca": self.ca_file,
                "certfile": self.cert_file,
                "keyfile": self.key_file,
                "keyfile_password": self.key_password,
                "check_hostname": self.checks_hostname,
            }
        return options
