"""CRC-32C from the compiled module alone, and from the package where that is not found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel import checksum
from tidelog.kernel.checksum import crc32c

CHECK_VALUE = 0xE3069283
"""CRC-32C of the digits from 1 to 9: RFC 3720 has the polynomial, every catalogue of checksums this value."""
IMPORT = "import sys; from tidelog.kernel.checksum import crc32c as ours"


def output(program: str, *options: str) -> str:
    command = [sys.executable, *options, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_crc32c_of_the_check_value() -> None:
    assert crc32c(b"123456789") == CHECK_VALUE
    assert crc32c(memoryview(b"6789"), crc32c(b"12345")) == CHECK_VALUE


@given(st.binary(), st.integers(0, 2**32 - 1))
def test_crc32c_is_that_of_the_package(data: bytes, before: int) -> None:
    assert crc32c(data, before) == package.crc32c(data, before)
    assert crc32c(data) == package.crc32c(data)


def test_crc32c_adds_no_call() -> None:
    assert output(f"{IMPORT}; print(type(ours).__name__)") == "builtin_function_or_method"


def test_crc32c_is_imported_without_the_package() -> None:
    unwanted = "{'crc32c', 'argparse', 'email', 'importlib.metadata', 'zipfile'}"
    assert output(f"{IMPORT}; print(sorted({unwanted} & set(sys.modules)))") == "[]"


def test_crc32c_leaves_the_package_to_be_imported_later() -> None:
    later = "import crc32c; print(crc32c.__version__, crc32c.crc32c(b'123456789') == ours(b'123456789'))"
    assert output(f"{IMPORT}; {later}") == f"{package.__version__} True"


def test_crc32c_is_that_of_a_package_imported_before() -> None:
    assert output(f"import crc32c; {IMPORT}; print(ours is crc32c.crc32c)") == "True"


def test_crc32c_of_a_package_without_a_compiled_module(tmp_path: Path) -> None:
    (tmp_path / "crc32c").mkdir()
    (tmp_path / "crc32c" / "__init__.py").write_text("def crc32c(data, value=0): return 7\n")
    assert output(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {IMPORT}; print(ours(b''))") == "7"


NOT_A_FILE = f"""
import importlib.abc, importlib.util, runpy, sys

class InMemory(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name == "crc32c" else None

    def exec_module(self, module):
        module.crc32c = lambda data, value=0: 8

sys.meta_path.append(InMemory())
print(runpy.run_path({checksum.__file__!r})["crc32c"](b""))
"""


def test_crc32c_of_a_package_that_is_no_file() -> None:
    # Without what is installed, so that no other finder has the package.
    assert output(NOT_A_FILE, "-S") == "8"
