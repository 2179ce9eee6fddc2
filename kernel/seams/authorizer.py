"""The authorizer seam: who may do what, chosen by the key `authorizer.class.name`.

An authorizer only decides. What a request needs, which error its client gets, and what an answer leaves out
is the matter of the wire protocol; denials are logged by the kernel (`kafka.authorizer.logger`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import attrs

from tidelog.kernel.seams.requests import AclOperation, Principal, ResourceType

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.metadata import ImageChange, MetadataImage


class Subject(NamedTuple):
    """Who asks: the principal of a connection, the address of the client, and the listener it came to."""

    principal: Principal
    host: str
    listener: str


class Undecided(Exception):
    """A decision takes time: `decided()` is awaited, and then the same is asked again.

    Only the connection that waits is held up. What `decided()` raises ends that connection.
    """

    def __init__(self, decided: Callable[[], Awaitable[None]]) -> None:
        super().__init__("this is not decided yet")
        self.decided = decided


class Authorizer(Protocol):
    """Decides who may do what. It is asked on the event loop and has to return soon.

    An exception other than `Undecided` is a denial, which is logged.
    """

    has_acls: bool = False
    """Whether it goes by the access control entries of the image, which clients may list and change then."""

    version: object | None = None
    """Another object after each change of what it decides, so that connections may keep that something is
    allowed until then; None if it is to be asked for each request."""

    def load(self, image: MetadataImage) -> None:
        """Take over the image as a whole, before anything is asked."""
        return

    async def follow(self, change: ImageChange) -> None:
        """Take over a change of the image; it is answered when this returns. It does not raise."""
        return

    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether this subject may do this with this resource.

        The operation is a single one, never ALL, and the name is that of a resource, no pattern; the cluster
        is named `kafka-cluster`.

        Raises:
            Undecided: it is not known yet.
        """
        ...

    def explain(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> str:
        """Return why `allows` decides as it does, for the audit log; empty where there is nothing to say."""
        return ""

    def allows_any(self, subject: Subject, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether this subject may do this with at least one resource of the type (KIP-679).

        It is asked for producers that are idempotent without a permission of their own for that.

        Raises:
            Undecided: it is not known yet.
        """
        return False


@attrs.frozen
class AuthorizerContext:
    """What an authorizer may use of its broker; `backend(name)` is another kind, for one that wraps it."""

    config: Config
    backend: Callable[[str], AuthorizerBackend]


class AuthorizerBackend(Protocol):
    """A kind of authorizer, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that the key `authorizer.class.name` chooses it by."""
        ...

    def create(self, context: AuthorizerContext) -> Authorizer:
        """Return an authorizer that has loaded no image yet.

        Raises:
            ConfigError: it cannot be used as it is configured.
        """
        ...
