"""What a group subscribes to, as topics that exist."""

from __future__ import annotations

from hashlib import blake2b

from tidelog.plugins.coordinator.consumer_groups.changes import (
    PartitionMetadataRemoved,
    RegexRemoved,
    RegexSet,
    ResolvedRegex,
)
from tidelog.plugins.coordinator.consumer_groups.context import Context
from tidelog.plugins.coordinator.consumer_groups.draft import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.member import Member
from tidelog.plugins.coordinator.consumer_groups.settings import TopicCatalogue, TopicEntry

HASH_BYTES = 8


def subscribed_topics(group: ConsumerGroup, topics: TopicCatalogue) -> list[TopicEntry]:
    """The topics that the members of a group subscribe to and that exist, by name."""
    names: set[str] = set()
    for member in group.members.values():
        names |= group.subscribed_names(member)
    return [entry for name in sorted(names) if (entry := topics.by_name(name)) is not None]


def subscribed_ids(group: ConsumerGroup, member: Member, topics: TopicCatalogue) -> frozenset[bytes]:
    """The ids of the topics that a member subscribes to and that exist."""
    entries = map(topics.by_name, group.subscribed_names(member))
    return frozenset(entry.topic_id for entry in entries if entry is not None)


def metadata_hash(entries: list[TopicEntry]) -> int:
    """A number that tells these topics from others, or from the same with more partitions; 0 for none.

    Kafka computes another number from the same; a group that changes hands rebalances once.
    """
    if not entries:
        return 0
    digest = blake2b(digest_size=HASH_BYTES)
    for entry in entries:
        digest.update(b"%s%d %s\0" % (entry.topic_id, entry.partitions, entry.name.encode()))
    return int.from_bytes(digest.digest(), signed=True)


def update_regexes(draft: Draft, context: Context) -> bool:
    """Take over what was resolved, forget what nobody asks for; whether the group now means other topics."""
    group = draft.group
    asked = group.regex_subscribers()
    for regex in [regex for regex in group.regexes if not asked[regex]]:
        draft.apply(RegexRemoved(regex))
    changed = False
    for regex in sorted(context.resolved.keys() & asked.keys()):
        found = context.resolved[regex]
        known = group.regexes.get(regex)
        changed |= known is None or known.topics != found
        draft.apply(RegexSet(regex, ResolvedRegex(found, context.topics.version, context.now_ms)))
    return changed


def update_metadata(draft: Draft, context: Context, *, must_raise: bool) -> None:
    """Raise the group's epoch if `must_raise`, or if its topics are not those of its last epoch any more."""
    group = draft.group
    new_hash = metadata_hash(subscribed_topics(group, context.topics))
    group.topics_version = context.topics.version
    if must_raise or new_hash != group.metadata_hash:
        draft.raise_epoch(new_hash)
        if group.has_partition_metadata:
            draft.apply(PartitionMetadataRemoved())
