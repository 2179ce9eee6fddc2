"""The authorizer `owners`: a user owns the topics that begin with its name and a dot."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.kernel import hookimpl
from tidelog.kernel.metadata import ImageChange, MetadataImage
from tidelog.kernel.seams.authorizer import Authorizer, AuthorizerBackend, AuthorizerContext, Subject
from tidelog.kernel.seams.requests import AclOperation, ResourceType

TIDELOG_INTERFACE = "1.0"


class Owners(Authorizer):
    """Decides as `wrapped` does about all that has no owner, or another one."""

    def __init__(self, wrapped: Authorizer) -> None:
        self._wrapped = wrapped
        self.has_acls = wrapped.has_acls

    def load(self, image: MetadataImage) -> None:
        self._wrapped.load(image)

    async def follow(self, change: ImageChange) -> None:
        await self._wrapped.follow(change)

    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        if resource_type is ResourceType.TOPIC and self.owns(subject, name):
            return True
        return self._wrapped.allows(subject, operation, resource_type, name)

    def owns(self, subject: Subject, topic: str) -> bool:
        # A name with a dot would own what belongs to the one before the dot.
        kind, user = subject.principal
        return kind == "User" and user != "" and "." not in user and topic.startswith(f"{user}.")

    def allows_any(self, subject: Subject, operation: AclOperation, resource_type: ResourceType) -> bool:
        return self._wrapped.allows_any(subject, operation, resource_type)


class OwnersBackend:
    name = "owners"

    def create(self, context: AuthorizerContext) -> Authorizer:
        return Owners(context.backend("standard").create(context))


@hookimpl
def tidelog_authorizers() -> Iterable[AuthorizerBackend]:
    return [OwnersBackend()]


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    from topic_owners_conformance import OwnersConformance

    return [OwnersConformance]
