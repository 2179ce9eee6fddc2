"""Changes of a module that lie in its functions alone: they can be made where the module is imported already.

A function keeps its identity and gets the code of another text, so that each reference to it, a decorated one
and one imported by name as well, behaves as in that text. What is computed when modules are imported (a
constant, a class attribute, a default) is not changed so: a text that differs there has to be imported.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

_IS_FUNCTION = 0x01  # CO_OPTIMIZED: neither a module nor the body of a class
_RUN_AT_ONCE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def differs_in_functions_only(before: str, after: str) -> bool:
    """Return whether both texts do the same when they are imported."""
    return _same_import(compile(before, "m", "exec"), compile(after, "m", "exec"))


def change_functions(path: Path, before: str, after: str) -> None:
    """Give the functions of the imported module at `path` the code of the text `after`.

    Only for texts of which `differs_in_functions_only` is true.

    Raises:
        ValueError: a function of the text has other free variables, or the module's functions are not found.
    """
    if before == after:
        return
    codes = {_key(old): new for old, new in _pairs(_compiled(path, before), _compiled(path, after))}
    functions = list(_functions(path))
    is_imported = any(
        str(module.__dict__.get("__file__")).endswith(str(path)) for module in [*sys.modules.values()]
    )
    if is_imported and not (codes and functions):
        raise ValueError(f"no function of {path} is found")
    for function in functions:
        if (new := codes.get(_key(function.__code__))) is not None:
            function.__code__ = new


def _compiled(path: Path, text: str) -> CodeType:
    return compile(text, str(path), "exec")


def _same_import(old: CodeType, new: CodeType) -> bool:
    """Whether two codes that run at import are the same but for the functions that they define."""
    if len(old.co_consts) != len(new.co_consts):
        return False
    if (old.co_code, old.co_names, old.co_varnames) != (new.co_code, new.co_names, new.co_varnames):
        return False
    return all(map(_same_constant, old.co_consts, new.co_consts))


def _same_constant(old: object, new: object) -> bool:
    if not isinstance(old, CodeType) or not isinstance(new, CodeType):
        return repr(old) == repr(new)
    if old.co_name != new.co_name or old.co_freevars != new.co_freevars:
        return False
    if old.co_flags & _IS_FUNCTION and old.co_name not in _RUN_AT_ONCE:
        return True
    return _same_import(old, new)


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The codes within both texts that have the same place."""
    inner = [[const for const in code.co_consts if isinstance(const, CodeType)] for code in (old, new)]
    for pair in zip(*inner, strict=False):
        yield pair
        yield from _pairs(*pair)


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _functions(path: Path) -> Iterator[FunctionType]:
    name = str(path)
    frozen = gc.get_freeze_count()
    gc.unfreeze()  # what is frozen is not among the objects below
    objects = gc.get_objects()
    if frozen:
        gc.freeze()
    for found in objects:
        if type(found) is FunctionType and found.__code__.co_filename.endswith(name):
            yield found
