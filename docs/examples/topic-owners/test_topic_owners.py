"""The authorizer keeps the contract of its seam, and owners own their topics alone."""

import pytest
from topic_owners_conformance import OwnersConformance, created

from tidelog.kernel.seams.authorizer import Subject
from tidelog.kernel.seams.requests import AclOperation, Principal, ResourceType
from tidelog.kernel.testing.authorizer import image_of_rules


class TestOwners(OwnersConformance): ...


@pytest.mark.parametrize(
    ("user", "topic", "owns"),
    [
        ("alice", "alice.orders", True),
        ("alice", "alice", False),
        ("alice", "alicex.orders", False),
        ("alice", "bob.orders", False),
        ("", ".orders", False),
        ("alice.x", "alice.x.orders", False),
    ],
)
def test_owners_own_their_topics(user: str, topic: str, owns: bool) -> None:
    subject = Subject(Principal("User", user), "192.0.2.1", "PLAINTEXT")
    authorizer = created(image_of_rules([]))
    assert authorizer.allows(subject, AclOperation.WRITE, ResourceType.TOPIC, topic) is owns
    assert not authorizer.allows(subject, AclOperation.WRITE, ResourceType.GROUP, topic)
