"""Mutants of one module's text: cosmic-ray's operators, and two of our own in its form.

Only cosmic-ray's operators and its syntax tree are used. Its own runner changes the file in place and starts
an interpreter for each mutant; ours (runner.py) changes a copy and forks. The other maintained tool, mutmut,
leaves out properties and most other decorated functions.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import random
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

Position: TypeAlias = "tuple[int, int]"

# One replacement for each operator; all pairs would be ten for each sign.
_BINARY = (
    "Add_Sub Sub_Add Mul_FloorDiv Div_Mul FloorDiv_Mul Mod_FloorDiv Pow_Mul LShift_RShift RShift_LShift "
    "BitAnd_BitOr BitOr_BitAnd BitXor_BitOr"
)
_COMPARISON = "Eq_NotEq NotEq_Eq Lt_LtE LtE_Lt Gt_GtE GtE_Gt Is_IsNot IsNot_Is"
_UNARY = "Delete_Not Delete_USub Delete_Invert"
_CORE = (
    "AddNot",
    "ExceptionReplacer",
    "NumberReplacer",
    "ReplaceAndWithOr",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ReplaceFalseWithTrue",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    "ZeroIterationForLoop",
    *(f"ReplaceBinaryOperator_{pair}" for pair in _BINARY.split()),
    *(f"ReplaceComparisonOperator_{pair}" for pair in _COMPARISON.split()),
    *(f"ReplaceUnaryOperator_{pair}" for pair in _UNARY.split()),
)


@attrs.frozen
class Mutant:
    """One change of a module.

    Args:
        operator: what was changed, in cosmic-ray's words.
        line: where, counted from 1.
        text: the whole module with the change.
        diff: the lines that differ.
    """

    operator: str
    line: int
    text: str
    diff: str


class Place(NamedTuple):
    """Where an operator changes a module: the how-manieth of its positions it is, and the line."""

    line: int
    name: str
    operator: Any
    occurrence: int


def places_of(source: str) -> list[Place]:
    """Return the places of all mutants of a module in the order of their lines; few of them change nothing.

    No test can tell annotations, docstrings, `__all__`, debug messages and what only type checkers read.
    """
    skipped = _Skipped(source)
    trees = importlib.import_module("cosmic_ray.ast")
    nodes = list(trees.ast_nodes(trees.get_ast(source)))
    found: list[Place] = []
    for name, operator in _operators():
        starts: list[Position] = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        found += [
            Place(start[0], name, operator, occurrence)
            for occurrence, start in enumerate(starts)
            if not skipped.covers(start)
        ]
    return sorted(found, key=lambda place: place[:2])


def sample(places: Sequence[Place], at_most: int | None) -> Sequence[Place]:
    """Return so many of them at most, always the same ones, spread over the module."""
    if at_most is None or len(places) <= at_most:
        return places
    chosen = random.Random(len(places)).sample(range(len(places)), at_most)
    return [places[index] for index in sorted(chosen)]


def mutants_at(source: str, places: Iterable[Place]) -> Iterator[Mutant]:
    """Yield the mutants of these places."""
    trees = importlib.import_module("cosmic_ray.ast")
    for place in places:
        tree = trees.get_ast(source)
        _mutate(tree, trees, place.operator, place.occurrence)
        text: str = tree.get_code()
        if text != source and _compiles(text):
            yield Mutant(place.name, place.line, text, _diff(source, text))


def _operators() -> Iterator[tuple[str, Any]]:
    provider = importlib.import_module("cosmic_ray.operators.provider").OperatorProvider()
    for name in _CORE:
        yield name, provider[name]()
    yield "RemoveStatement", RemoveStatement()
    yield "ReplaceString", ReplaceString()


def _mutate(tree: Any, trees: Any, operator: Any, occurrence: int) -> None:
    """Change the node in place that holds the operator's `occurrence`-th position."""
    for node in list(trees.ast_nodes(tree)):
        positions = sum(1 for _ in operator.mutation_positions(node))
        if occurrence < positions:
            mutated = operator.mutate(node, occurrence)
            if mutated is not node:
                siblings = node.parent.children
                siblings[next(index for index, child in enumerate(siblings) if child is node)] = mutated
            return
        occurrence -= positions


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


def _is_quiet(node: ast.AST) -> bool:
    """Whether it is a debug message: no user relies on it."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "debug"
    )


class _Skipped:
    """Places of a module that no test can tell."""

    def __init__(self, source: str) -> None:
        self._ranges = [
            ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
            for node in self._nodes(ast.parse(source))
        ]

    def covers(self, position: Position) -> bool:
        return any(start <= position < end for start, end in self._ranges)

    @classmethod
    def _nodes(cls, tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
        for node in ast.walk(tree):
            match node:
                case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
                    yield annotation
                case (
                    ast.FunctionDef(returns=ast.expr() as returns)
                    | ast.AsyncFunctionDef(returns=ast.expr() as returns)
                ):
                    yield returns
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    yield node
                case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
                    yield node
                case ast.Expr(value=ast.Constant(value=str())):
                    yield node
                case ast.Expr() if _is_quiet(node):
                    yield node
                case ast.Call(func=ast.Name(id="cast"), args=[ast.expr() as named, *_]):
                    yield named
                case ast.Call(func=ast.Name(id="TypeVar" | "NewType" | "getLogger")):
                    yield node
                case _:
                    yield from cls._type_alias(node)

    @staticmethod
    def _type_alias(node: ast.AST) -> Iterable[ast.stmt]:
        """Python 3.12's `type X = …` and its older form."""
        if type(node).__name__ == "TypeAlias" and isinstance(node, ast.stmt):
            yield node


class RemoveStatement:
    """Replace a statement that has an effect with `pass`: a call, a change of state, `raise`, `del`."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Position, Position]]:
        if node.type == "simple_stmt" and self._has_effect(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        tree = importlib.import_module("parso.python.tree")
        first = node.children[0]
        node.children[0] = tree.Keyword("pass", first.start_pos, prefix=first.get_first_leaf().prefix)
        return node

    @staticmethod
    def _has_effect(statement: Any) -> bool:
        if statement.type == "keyword":
            return bool(statement.value == "return")
        if statement.type == "expr_stmt":
            target, sign = statement.children[0], statement.children[1]
            return sign.type == "operator" and (sign.value != "=" or target.type in ("power", "atom_expr"))
        if statement.type == "power" or statement.type == "atom_expr":
            return True
        return statement.type in ("raise_stmt", "return_stmt", "del_stmt", "await_expr")


class ReplaceString:
    """Change a word: a key, a suffix, a file's name. Sentences stay, for they are free to change."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Position, Position]]:
        if node.type == "string" and len(node.value) > 2 and not self._is_sentence(node.value):
            yield node.start_pos, node.end_pos
        elif node.type == "fstring" and not any(self._is_sentence(part) for part in self._parts(node)):
            for child in node.children:
                if child.type == "fstring_string":
                    yield child.start_pos, child.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        if node.type == "string":
            quote = '"""' if node.value.endswith('"""') else node.value[-1]
            node.value = node.value[: -len(quote)] + "XX" + quote
        else:
            [child for child in node.children if child.type == "fstring_string"][index].value += "XX"
        return node

    @staticmethod
    def _parts(node: Any) -> Iterator[str]:
        return (child.value for child in node.children if child.type == "fstring_string")

    @staticmethod
    def _is_sentence(text: str) -> bool:
        return any(letter.isspace() for letter in text)
