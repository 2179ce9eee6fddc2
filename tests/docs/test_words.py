"""Docstrings, comments, messages and pages use Kafka's terms and plain words, which readers search for.

So do the names of what tests are made of.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTEAD = {
    r"tells? of|told": "return, report or notify",
    r"sets?[ _]aside|impostors?": "quarantine, move aside",
    r"looked out for|looks? out for": "busy-poll, watch",
    r"nobody|somebody|anybody|whoever": "no one, the caller, the client, the peer",
    r"anew|made new": "again, recreate",
    r"goes on|go on|takes (?:its|their) leave": "continue, end",
    r"with care|carefully": "validated, slow path",
    r"strangers?|newcomers?": "a plain term",
    r"vouch(?:es|er|ing)?": "verify, confirm",
    r"crews?|scenes?": "members, the name of what it is",
    r"mend(?:s|ed|ing)?|spoil(?:s|ed|t)?|unsound": "repair, malformed, invalid",
    r"speaks? of|looks? after": "refer to, supervise",
    r"says? to each other": "requests, answers, messages",
}
_ANY = "|".join(rf"(?P<w{index}>{words})" for index, words in enumerate(INSTEAD))
# In names of the code, too, where underscores separate words.
WORDS = re.compile(rf"(?<![A-Za-z])(?:{_ANY})(?![A-Za-z])", re.IGNORECASE)

UNCLEAR_NAMES = re.compile(r"(?<![A-Za-z])(?:scene|crew|toy)|Scene|Crew|Toy")
"""Parts of names that say nothing: what is under test is a broker, a server, a group, a harness."""


def files() -> list[Path]:
    """The code of kernel and plugins, and the pages."""
    code = (path for folder in ("kernel", "plugins", "testing") for path in (ROOT / folder).rglob("*.py"))
    pages = (path for path in (ROOT / "docs").glob("*.md") if path.name != "interop.md")
    return [*code, *pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def test_words_of_code_and_pages_are_plain() -> None:
    advice = list(INSTEAD.values())
    found: list[str] = []
    for path in files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for match in WORDS.finditer(line):
                better = advice[int((match.lastgroup or "w0")[1:])]
                found.append(f"{path.relative_to(ROOT)}:{number}: {match.group()!r}: {better}")
    assert not found, "\n".join(found)


def test_names_in_tests_and_benchmarks_say_what_is_under_test() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()!r}"
        for folder in ("tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if path != Path(__file__)
        for number, line in enumerate([path.stem, *path.read_text().splitlines()])
        for match in UNCLEAR_NAMES.finditer(line)
    ]
    assert not found, "\n".join(found)
