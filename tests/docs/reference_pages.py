"""Pages of reference that are written from the source: docs/seams.md and docs/commands.md, by `make docs`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import click

from tests.docs.examples import DOCS
from tidelog.kernel import seams
from tidelog.kernel.cli.main import tidelog

_SEAMS = """\
# What a plugin implements and gets

Written by `make docs` from the modules of `tidelog.kernel.seams`; do not edit by hand. [hooks.md](hooks.md)
describes the hooks by which a plugin offers what it implements; the docstrings in the source have all of each
contract: errors, units, and on which thread a method is called.
"""
_COMMANDS = """\
# Commands

Written by `make docs` from the commands themselves; do not edit by hand. Each prints the same, and examples,
with `--help`. [running.md](running.md) describes how a broker is run.
"""
MOST_WIDTH = 10_000


def seams_page() -> str:
    """docs/seams.md: all public classes of the seams, with their members."""
    root = Path(seams.__path__[0])
    parts = [_SEAMS]
    for path in sorted(root.rglob("*.py")):
        name = ".".join(("tidelog.kernel.seams", *path.relative_to(root).with_suffix("").parts))
        tree = ast.parse(path.read_text())
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and _is_public(node.name)]
        if classes:
            parts.append(f"## `{name.removesuffix('.__init__')}`\n\n{_first_line(tree)}\n")
            parts.extend(_class(node) for node in classes)
    return "\n".join(parts)


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _first_line(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")


def _class(node: ast.ClassDef) -> str:
    bases = ", ".join(map(ast.unparse, node.bases))
    lines = [f"### `{node.name}`" + (f" ({bases})" if bases else ""), "", _first_line(node), ""]
    lines += [f"- {member}" for member in _members(node)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _members(node: ast.ClassDef) -> Iterator[str]:
    for member in node.body:
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            if _is_public(member.target.id):
                yield f"`{member.target.id}: {ast.unparse(member.annotation)}`"
        elif isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and _is_public(member.name):
            is_property = any(ast.unparse(each) == "property" for each in member.decorator_list)
            yield f"`{_signature(member, is_property=is_property)}`: {_first_line(member)}".removesuffix(": ")


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_property: bool) -> str:
    returns = ast.unparse(node.returns) if node.returns else "None"
    if is_property:
        return f"{node.name}: {returns}"
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("self").removeprefix("cls, ")
    begin = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{begin}{node.name}({arguments}) -> {returns}"


def commands_page() -> str:
    """docs/commands.md: all commands, of the kernel and of the plugins that are installed."""
    return "\n".join((_COMMANDS, *_commands(tidelog, _context(tidelog, None, "tidelog"))))


def _context(command: click.Command, parent: click.Context | None, name: str) -> click.Context:
    # So wide that nothing is wrapped.
    return click.Context(command, parent, name, terminal_width=MOST_WIDTH, max_content_width=MOST_WIDTH)


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        own = _context(command, context, name)
        yield from _command(command, own)
        if isinstance(command, click.Group):
            yield from _commands(command, own)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    usage = command.get_usage(context).removeprefix("Usage: ")
    text = (command.help or "").split("\f")[0].strip().split("\n\n")[0].replace("\n", " ")
    yield f"## `{context.command_path}`\n\n`{' '.join(usage.split())}`\n\n{' '.join(text.split())}\n"
    records = [record for param in command.params if (record := param.get_help_record(context)) is not None]
    if records:
        rows = [
            f"| `{_cell(names)}` | {_cell(' '.join(help_text.split()))} |" for names, help_text in records
        ]
        yield "\n".join(("| option | |", "|---|---|", *rows)) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {"seams.md": seams_page, "commands.md": commands_page}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
