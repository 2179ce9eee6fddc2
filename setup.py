"""Builds tidelog. The modules of `kernel/compiled.py` are compiled by mypyc where there is a C compiler."""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError

ROOT = Path(__file__).resolve().parent
PACKAGES = ROOT / "src"
SOURCES = ROOT / "build" / "sources"
"""Nothing but the modules, under the names that they are imported by: mypyc follows imports."""
CACHE = ROOT / "build" / "mypyc"
MODULES: tuple[str, ...] = runpy.run_path(str(PACKAGES / "tidelog" / "kernel" / "compiled.py"))["MODULES"]


def obstacle() -> str | None:
    """Return what is missing to compile, None if nothing is."""
    if os.environ.get("TIDELOG_PURE"):
        return "TIDELOG_PURE is set"
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if shutil.which(shlex.split(compiler)[0]) is None:
        return f"there is no C compiler {compiler!r}"
    headers = sysconfig.get_paths()["include"]
    if not Path(headers, "Python.h").exists():
        return f"there are no headers of Python in {headers}"
    return "mypyc is not installed" if find_spec("mypyc") is None else None


def linked(module: str) -> Path:
    """Return the path of a link to the source of a module in `SOURCES`."""
    *folders, name = module.split(".")
    link = SOURCES.joinpath(*folders, f"{name}.py")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(PACKAGES.joinpath(*folders, f"{name}.py"))
    return link


class BuildCompiled(build_ext):
    """Translates the modules to C, then lets setuptools compile that."""

    def finalize_options(self) -> None:
        """Replace the names of the modules by what mypyc made of them."""
        from mypyc.build import mypycify

        os.environ["MYPYPATH"] = str(SOURCES)
        files = [str(linked(module)) for module in MODULES]
        # What an earlier build remembers of a module does not always fit a later one.
        shutil.rmtree(CACHE, ignore_errors=True)
        options = [
            f"--cache-dir={CACHE}",
            "--config-file=",
            # What is not compiled is taken as it comes at run time, whatever is installed where it is built:
            # two builds of one source are alike.
            "--ignore-missing-imports",
            "--no-site-packages",
            "--explicit-package-bases",
            "--namespace-packages",
        ]
        self.distribution.ext_modules = mypycify(
            [*options, *files],
            opt_level="3",
            debug_level="0",
            # Each has a library of its own beside it, not all one among the top-level packages.
            separate=True,
            target_dir=str(ROOT / "build" / "c"),
        )
        # A module is a library of its own, so each core compiles another one.
        self.parallel = self.parallel or True
        super().finalize_options()

    def build_extensions(self) -> None:
        """Compile all or nothing: a compiler that does not work is as good as none."""
        try:
            super().build_extensions()
        except CCompilerError as error:
            print(f"tidelog: pure Python, as compiling failed: {error}", file=sys.stderr)
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []


problem = obstacle()
print(f"tidelog: {'compiled by mypyc' if problem is None else f'pure Python, as {problem}'}", file=sys.stderr)
if problem is None:
    setup(
        ext_modules=[Extension(module, sources=[]) for module in MODULES],
        cmdclass={"build_ext": BuildCompiled},
    )
else:
    setup()
