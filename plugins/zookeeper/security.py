"""How a client of ZooKeeper checks its servers and proves who it is: TLS, and the scheme `digest`."""

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
    """

    uses_tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = attrs.field(default=None, repr=False)
    checks_hostname: bool = True
    digest: str | None = attrs.field(default=None, repr=False)

    def kazoo_options(self) -> dict[str, Any]:
        """Return keyword arguments of `KazooClient`."""
        options: dict[str, Any] = {}
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
