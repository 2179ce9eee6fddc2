"""The command's options."""

from __future__ import annotations

from tests.mutation.__main__ import parser, updates_page
from tests.tables import for_each


@for_each(
    ("arguments", "updates"),
    [
        ([], False),
        (["--update"], True),
        (["--update", "--jobs", "2"], True),
        (["--update", "--at-most", "30"], True),
        (["--update", "--line", "40"], False),
        (["--update", "tests/kernel"], False),
    ],
)
def test_updates_page_with_the_figures_of_a_modules_own_tests_only(
    arguments: list[str], updates: bool
) -> None:
    assert updates_page(parser().parse_intermixed_args(["kernel/clock.py", *arguments])) is updates
