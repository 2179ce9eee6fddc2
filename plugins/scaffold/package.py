"""The files of a new package, made of the skeleton of its seam."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from importlib.resources import files
from typing import Final, NamedTuple

import attrs
import click

MOST_CHARACTERS: Final = 24
"""With longer names lines would become longer than the linter of the package permits."""
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_SKELETONS: Final = "tidelog.plugins.scaffold.skeletons"


class SeamSkeleton(NamedTuple):
    """A seam that a package can be made for.

    `suite` is its conformance suite as `module:class`, empty where `tests` is the whole test. `chosen_by` is
    the setting by which a broker uses the plugin. `further_modules` are those beside the one with the hooks.
    """

    title: str
    contract: str
    chosen_by: str
    suite: str = ""
    tests: str = ""
    further_modules: tuple[str, ...] = ()


_OWN_SUITE_TEST: Final = '''\
"""The plugin keeps the contract of its seam."""

from __future__ import annotations

from {module} import plugin
from {module}.conformance import {camel}{seam_camel}Conformance


class Test{camel}({camel}{seam_camel}Conformance, plugin=plugin): ...
'''
_SASL_TEST: Final = '''\
"""The plugin keeps the contract of its seam."""

from __future__ import annotations

from {module}.conformance import {camel}SaslConformance


class Test{camel}({camel}SaslConformance): ...
'''
_AUTHORIZER_TEST: Final = '''\
"""The plugin keeps the contract of its seam."""

from __future__ import annotations

from tidelog.kernel.seams.authorizer import Subject
from tidelog.kernel.seams.requests import AclOperation, Principal, ResourceType
from tidelog.kernel.testing.authorizer import AccessRule, image_of_rules

from {module}.conformance import {camel}AuthorizerConformance, created


class Test{camel}({camel}AuthorizerConformance): ...


def test_writes_to_a_closed_topic_are_refused() -> None:
    authorizer = created(image_of_rules([AccessRule(None, operation=None)]))
    alice = Subject(Principal("User", "alice"), "192.0.2.1", "PLAINTEXT")
    assert authorizer.allows(alice, AclOperation.WRITE, ResourceType.TOPIC, "orders")
    assert authorizer.allows(alice, AclOperation.READ, ResourceType.TOPIC, "closed")
    assert not authorizer.allows(alice, AclOperation.WRITE, ResourceType.TOPIC, "closed")
'''

SEAMS: Final[Mapping[str, SeamSkeleton]] = {
    "storage": SeamSkeleton(
        "storage", "tidelog.kernel.seams.storage", "storage={name}", "storage:StorageConformance"
    ),
    "metadata": SeamSkeleton(
        "metadata store",
        "tidelog.kernel.seams.metadata",
        "storage=memory --set metadata={name}",
        "metadata:MetadataConformance",
    ),
    "controller": SeamSkeleton(
        "controller",
        "tidelog.kernel.seams.controller",
        "controller={name}",
        "controller:ControllerConformance",
    ),
    "index": SeamSkeleton(
        "index format",
        "tidelog.kernel.seams.indexes",
        "log.index.format={name}",
        "indexes:IndexFormatConformance",
    ),
    "cleanup": SeamSkeleton(
        "cleanup policy",
        "tidelog.kernel.seams.cleanup",
        "log.cleanup.policy={name}",
        "cleanup:CleanupPolicyConformance",
    ),
    "compression": SeamSkeleton(
        "compression codec",
        "tidelog.kernel.seams.compression",
        "compression.type={name}",
        "compression:CompressionCodecConformance",
    ),
    "coordinator": SeamSkeleton(
        "coordinator",
        "tidelog.kernel.seams.coordination",
        "coordinator={name}",
        "coordination:CoordinationConformance",
    ),
    "assignor": SeamSkeleton(
        "partition assignor",
        "tidelog.kernel.seams.coordination.assignors",
        "group.consumer.assignors={name}",
        "assignors:PartitionAssignorConformance",
    ),
    "sink": SeamSkeleton(
        "sink",
        "tidelog.kernel.seams.sinks",
        "sinks.{name}.first.path=/tmp",
        tests=_OWN_SUITE_TEST,
        further_modules=("conformance",),
    ),
    "authorizer": SeamSkeleton(
        "authorizer",
        "tidelog.kernel.seams.authorizer",
        "authorizer.class.name={name}",
        tests=_AUTHORIZER_TEST,
        further_modules=("conformance", "decisions"),
    ),
    "codec": SeamSkeleton(
        "wire codec",
        "tidelog.kernel.seams.wire",
        "listeners=PLAINTEXT://:9092,OWN://:9192 --set listener.codec.map=OWN:{name}",
        tests=_OWN_SUITE_TEST,
        further_modules=("conformance",),
    ),
    "transport": SeamSkeleton(
        "transport",
        "tidelog.kernel.seams.transport",
        "listeners=OWN://:9192 --set listener.security.protocol.map=OWN:{upper}",
        "transports:TransportConformance",
    ),
    "sasl": SeamSkeleton(
        "SASL mechanism",
        "tidelog.kernel.seams.sasl",
        "listeners=SASL_PLAINTEXT://:9092 --set sasl.enabled.mechanisms={upper}",
        tests=_SASL_TEST,
        further_modules=("conformance", "mechanism"),
    ),
    "interceptor": SeamSkeleton(
        "interceptor",
        "tidelog.kernel.seams.interceptors",
        "interceptors.first.type={name}",
        "interceptors:InterceptorConformance",
    ),
    "quotas": SeamSkeleton(
        "quota callback",
        "tidelog.kernel.seams.quotas",
        "client.quota.callback.class={name}",
        "quotas:QuotaCallbackConformance",
    ),
}
"""What `--seam` can name."""

_SUITE_TEST: Final = '''\
"""The plugin keeps the contract of its seam."""

from __future__ import annotations

from tidelog.kernel.testing.{suite_module} import {suite}

from {module} import plugin


class Test{camel}({suite}, plugin=plugin): ...
'''
_NAMED_SUITE_TEST: Final = '''\
"""The plugin keeps the contract of its seam."""

from __future__ import annotations

from typing import ClassVar

from tidelog.kernel.testing.{suite_module} import {suite}

from {module} import plugin


class Test{camel}({suite}, {seam}="{name}"):
    settings: ClassVar[dict[str, object]] = {{"plugins": plugin.__name__}}
'''
_PROJECT: Final = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
description = "A {title} for tidelog"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["tidelog"]

[project.optional-dependencies]
dev = ["hypothesis>=6.130", "mypy>=1.13", "pytest>=8.3", "pytest-trio>=0.8", "ruff>=0.9"]

[project.entry-points.tidelog]
{name} = "{module}.plugin"

[tool.setuptools.packages.find]
where = ["src"]

[tool.setuptools.package-data]
{module} = ["py.typed"]

[tool.pytest.ini_options]
testpaths = ["tests"]
addopts = ["--import-mode=importlib", "--strict-markers"]
trio_mode = true

[tool.mypy]
files = ["src", "tests"]
mypy_path = "src"
strict = true

[tool.ruff]
line-length = 110

[tool.ruff.lint]
select = ["ASYNC", "B", "C4", "E", "F", "I", "N", "PIE", "PT", "PTH", "RET", "RUF", "SIM", "UP", "W"]
"""
_README: Final = """\
# {name}

A {title} for [tidelog](https://pypi.org/project/tidelog/). The contract that it keeps is documented in
`{contract}`.

## Develop

```sh
pip install --editable '.[dev]'
tidelog plugins check {name}
pytest
mypy
ruff check
```

`tidelog plugins check` runs the conformance suite of the seam, `pytest` the tests of this package.

## Use

Where the package is installed a broker finds it:

```sh
tidelog plugins --verbose
tidelog serve --set {chosen_by}
```
"""


@attrs.frozen
class PluginPackage:
    """A package by the name of its distribution, by which a configuration chooses the plugin, too."""

    name: str
    seam: str

    @classmethod
    def named(cls, name: str, seam: str) -> PluginPackage:
        """Return the package of that name.

        Raises:
            click.BadParameter: it is no name, or too long.
        """
        if not _NAME.fullmatch(name) or len(name) > MOST_CHARACTERS:
            raise click.BadParameter(
                f"{name!r} is not a letter and up to {MOST_CHARACTERS - 1} further lower-case letters and "
                "digits with single dashes between them, such as tide-store.",
                param_hint="NAME",
            )
        made = cls(name, seam)
        if made._module in {*keyword.kwlist, *sys.stdlib_module_names, "tidelog", "tests"}:
            raise click.BadParameter(f"{name} is the name of something else in Python.", param_hint="NAME")
        return made

    def files(self) -> Mapping[str, str]:
        """Return the content of all files by their paths."""
        skeleton = SEAMS[self.seam]
        package = f"src/{self._module}"
        found = {
            "pyproject.toml": self._filled(_PROJECT),
            "README.md": self._filled(_README),
            f"{package}/__init__.py": self._filled('"""A {title} for tidelog."""\n'),
            f"{package}/py.typed": "",
            f"{package}/plugin.py": self._of_skeleton(self.seam),
            f"tests/test_{self._module}.py": self._filled(self._tests(skeleton)),
        }
        for further in skeleton.further_modules:
            found[f"{package}/{further}.py"] = self._of_skeleton(f"{self.seam}_{further}")
        return found

    @property
    def _module(self) -> str:
        return self.name.replace("-", "_")

    @property
    def _camel(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("-"))

    def _tests(self, skeleton: SeamSkeleton) -> str:
        if skeleton.tests:
            return skeleton.tests
        return _NAMED_SUITE_TEST if self.seam in ("controller", "coordinator") else _SUITE_TEST

    def _of_skeleton(self, module: str) -> str:
        """Return the source of a skeleton under the names of the package."""
        text = files(_SKELETONS).joinpath(f"{module}.py").read_text(encoding="utf-8")
        for old, new in (
            (f"    from {_SKELETONS}.{self.seam}_", f"    from {self._module}."),
            (f"from {_SKELETONS}.{self.seam}_", f"\nfrom {self._module}."),
            # In another package tidelog is one distribution among others.
            ("import attrs\n\n", "import attrs\n"),
            ("import trio\n\n", "import trio\n"),
            ("SKELETON", self._module.upper()),
            ("Skeleton", self._camel),
            ('"skeleton.', f'"{self.name.replace("-", ".")}.'),
            ("skeleton", self.name),
        ):
            text = text.replace(old, new)
        return text

    def _filled(self, template: str) -> str:
        skeleton = SEAMS[self.seam]
        suite_module, _, suite = skeleton.suite.partition(":")
        values = {
            "name": self.name,
            "module": self._module,
            "camel": self._camel,
            "upper": self._module.upper(),
            "seam": self.seam,
            "seam_camel": self.seam.capitalize(),
            "title": skeleton.title,
            "contract": skeleton.contract,
            "suite_module": suite_module,
            "suite": suite,
        }
        return template.format(chosen_by=skeleton.chosen_by.format(**values), **values)
