"""PersistentMap: as a dictionary, and every earlier version stays as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.metadata.persistent_map import BUCKETS, PersistentMap

# Keys whose hashes meet in a bucket, are equal, or are negative.
keys = st.one_of(
    st.sampled_from([0, BUCKETS, -1, -2, 7, 7 + BUCKETS, 1 << 70]), st.text(max_size=2), st.integers()
)
changes = st.dictionaries(keys, st.one_of(st.none(), st.integers()), max_size=6)


@given(steps=st.lists(changes, max_size=8))
def test_updated_is_a_dictionary_that_leaves_all_versions_as_they_were(
    steps: list[dict[object, int | None]],
) -> None:
    model: dict[object, int] = {}
    versions: list[tuple[PersistentMap[object, int], list[tuple[object, int]]]] = []
    current = PersistentMap[object, int]()
    for step in steps:
        current = current.updated(step)
        for key, value in step.items():
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        versions.append((current, list(model.items())))
        for version, content in versions:
            assert list(version.items()) == content
            assert len(version) == len(content)
            assert all(key in version and version[key] == value for key, value in content)
    assert not any(key in current for key in [object(), "never"])


def test_updated_copies_no_more_than_the_buckets_of_its_keys() -> None:
    large = PersistentMap({number: number for number in range(100 * BUCKETS)})
    after = large.updated({3: 0, 3 + BUCKETS: None, 5: 1})
    shared = [
        before is now
        for before, now in zip(large._buckets, after._buckets, strict=True)  # pyright: ignore[reportPrivateUsage]
    ]
    assert shared.count(False) == 2
