"""Skeletons keep the contracts of their seams, here those whose suites take no second."""

from __future__ import annotations

from typing import ClassVar

from tidelog.kernel.testing.assignors import PartitionAssignorConformance
from tidelog.kernel.testing.cleanup import CleanupPolicyConformance
from tidelog.kernel.testing.compression import CompressionCodecConformance
from tidelog.kernel.testing.controller import ControllerConformance
from tidelog.kernel.testing.indexes import IndexFormatConformance
from tidelog.kernel.testing.metadata import MetadataConformance
from tidelog.plugins.scaffold.skeletons import assignor, cleanup, compression, controller, index, metadata
from tidelog.plugins.scaffold.skeletons.authorizer_conformance import SkeletonAuthorizerConformance


class TestMetadata(MetadataConformance, plugin=metadata): ...


class TestController(ControllerConformance, controller="skeleton"):
    settings: ClassVar[dict[str, object]] = {"plugins": controller.__name__}


class TestIndex(IndexFormatConformance, plugin=index): ...


class TestCleanup(CleanupPolicyConformance, plugin=cleanup): ...


class TestCompression(CompressionCodecConformance, plugin=compression): ...


class TestAssignor(PartitionAssignorConformance, plugin=assignor): ...


class TestAuthorizer(SkeletonAuthorizerConformance): ...
