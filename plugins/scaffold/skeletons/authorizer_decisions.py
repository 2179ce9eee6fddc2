"""What the authorizer decides: as another one does, and no writes to the topics that are closed."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.kernel.metadata import ImageChange, MetadataImage
from tidelog.kernel.seams.authorizer import Authorizer, Subject
from tidelog.kernel.seams.requests import AclOperation, ResourceType


class SkeletonAuthorizer(Authorizer):
    """Decides on the event loop, so what it decides by is in memory."""

    def __init__(self, wrapped: Authorizer, closed: Iterable[str]) -> None:
        self._wrapped = wrapped
        self._closed = frozenset(closed)
        self.has_acls = wrapped.has_acls

    def load(self, image: MetadataImage) -> None:
        """Take over all access control entries."""
        self._wrapped.load(image)

    async def follow(self, change: ImageChange) -> None:
        """Take over those that have changed."""
        await self._wrapped.follow(change)

    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether a subject may do this."""
        writes = operation is AclOperation.WRITE and resource_type is ResourceType.TOPIC
        if writes and name in self._closed:
            return False
        return self._wrapped.allows(subject, operation, resource_type, name)

    def allows_any(self, subject: Subject, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether a subject may do this with any resource of the type."""
        return self._wrapped.allows_any(subject, operation, resource_type)
