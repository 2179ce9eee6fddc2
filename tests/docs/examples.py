"""Examples of a page: run as a reader would run them, and compared with what the page promises."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import attrs

from tests.deadlines import DEADLINE_S
from tests.kernel.cli.running import clean_environment

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_IN_FOREGROUND = re.compile(r"tidelog serve[^&|\n]*\n")
_FAIL_AT_ONCE = r"""
ended_in_background() {
  [ -n "${!-}" ] && ! kill -0 $! 2> /dev/null || return 0
  local code=0
  wait $! || code=$?
  if [ $code != 0 ] && [ $code -lt 128 ]; then
    echo "what runs in the background ended with $code" >&2
    exit $code
  fi
}
trap ended_in_background CHLD
trap '[ $? = 0 ] || kill $(jobs -p) 2> /dev/null || true' EXIT
"""
"""Without this, a broker in the background that has ended by itself is waited for as long as a test may take;
and one that is left there holds the output open as long."""
_FILE_NAME = re.compile(r"# (?P<name>[\w.-]+\.\w+)\n")


@attrs.frozen
class Example:
    """A block of code with what it prints, if the page says so."""

    language: str
    text: str
    prints: str | None

    @property
    def file_name(self) -> str | None:
        """The file that the block is the content of, named by its first line."""
        name = _FILE_NAME.match(self.text)
        return name["name"] if name else None

    def __str__(self) -> str:
        return self.text.strip().splitlines()[0]


def examples_of(page: str) -> list[Example]:
    """All code blocks of a page in docs/; a `text` block is what the one before it prints."""
    found: list[Example] = []
    for block in _BLOCK.finditer((DOCS / page).read_text()):
        if block["language"] == "text":
            found[-1] = attrs.evolve(found[-1], prints=block["text"])
        else:
            found.append(Example(block["language"], block["text"], None))
    return found


def module_of(source: str) -> str:
    """The name of the module that a plugin's source says in its first line."""
    name = _FILE_NAME.match(source)
    assert name is not None, source
    return name["name"].removesuffix(".py")


def examples_of_hook(hook: str) -> list[str]:
    """The plugins that docs/hooks.md shows for a hook."""
    section = (DOCS / "hooks.md").read_text().partition(f"\n## `{hook}(")[2].partition("\n## ")[0]
    return [block["text"] for block in _BLOCK.finditer(section)]


def example_of_hook(hook: str) -> str:
    """The first plugin that docs/hooks.md shows for a hook."""
    return examples_of_hook(hook)[0]


def run_example(example: Example, folder: Path, *, python: Path = Path(sys.executable)) -> None:
    """Do what the page says, in `folder`; the output has to match where the page shows any."""
    if example.file_name is not None:
        (folder / example.file_name).write_text(example.text)
    elif example.language == "python":
        check(_run([str(python), "-c", example.text], folder), example)
    elif _IN_FOREGROUND.fullmatch(example.text):
        check(_serve(example, folder), example)
    elif example.language == "sh":
        check(_run(["bash", "-eu", "-c", _FAIL_AT_ONCE + example.text], folder), example)
    else:
        raise AssertionError(f"nothing is known to do with {example}")


def run_example_on(example: Example, bootstrap: str, folder: Path) -> None:
    """Do what the page says with the broker at `bootstrap`: the commands for clients are told its address."""
    groups = "topics|groups|configs|acls|users|tokens|quotas|partitions"
    command = rf"(tidelog (?:(?:{groups}) [\w-]+|produce|consume))(?=\s)"
    text = re.sub(command, rf"\1 --bootstrap-server {bootstrap}", example.text)
    run_example(attrs.evolve(example, text=text), folder)


def check(printed: str, example: Example) -> None:
    """Compare; `...` on the page stands for any text within a line, alone on a line for any lines."""
    if example.prints is None:
        return
    pattern = "".join(_pattern(line) for line in example.prints.splitlines())
    assert re.fullmatch(pattern, printed.rstrip("\n") + "\n"), (
        f"{printed}\nis not what the page shows:\n{example.prints}"
    )


def _pattern(line: str) -> str:
    if line == "...":
        return r"(?:.*\n)*"
    return re.escape(line).replace(r"\.\.\.", ".*") + r"\n"


def _environment() -> dict[str, str]:
    inherited = clean_environment()
    return {**inherited, "PATH": f"{Path(sys.executable).parent}:{inherited['PATH']}"}


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _serve(example: Example, folder: Path) -> str:
    """A broker in the foreground, on a free port instead of the usual one, until Ctrl-C."""
    command = ["bash", "-c", "exec " + example.text.replace(":9092", ":0")]
    with subprocess.Popen(
        command, cwd=folder, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            printed = ""
            while "  stop " not in printed and (line := process.stdout.readline()):
                printed += line
            process.send_signal(signal.SIGINT)
            printed += process.stdout.read()
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9092", printed)


def write_examples(page: str, folder: Path) -> None:
    """Write the examples of a page that are files of their own into a folder, for `make mypy`."""
    folder.mkdir(parents=True, exist_ok=True)
    for example in examples_of(page):
        if example.file_name is not None:
            (folder / example.file_name).write_text(example.text)


if __name__ == "__main__":
    write_examples(sys.argv[1], Path(sys.argv[2]))
