"""Skeletons keep the contracts of their seams, here those whose suites take no second."""

from __future__ import annotations

from importlib import import_module
from typing import ClassVar

from tidelog.kernel.plugins.interface import INTERFACE
from tidelog.kernel.plugins.loaded import NAMED_SEAMS
from tidelog.kernel.testing.assignors import PartitionAssignorConformance
from tidelog.kernel.testing.cleanup import CleanupPolicyConformance
from tidelog.kernel.testing.compression import CompressionCodecConformance
from tidelog.kernel.testing.controller import ControllerConformance
from tidelog.kernel.testing.indexes import IndexFormatConformance
from tidelog.kernel.testing.interceptors import InterceptorConformance
from tidelog.kernel.testing.metadata import MetadataConformance
from tidelog.kernel.testing.quotas import QuotaCallbackConformance
from tidelog.kernel.testing.suites import DEFAULTS
from tidelog.kernel.testing.transports import TransportConformance
from tidelog.plugins.scaffold.package import SEAMS
from tidelog.plugins.scaffold.skeletons import (
    assignor,
    cleanup,
    codec,
    compression,
    controller,
    index,
    interceptor,
    metadata,
    quotas,
    transport,
)
from tidelog.plugins.scaffold.skeletons.authorizer_conformance import SkeletonAuthorizerConformance
from tidelog.plugins.scaffold.skeletons.codec_conformance import SkeletonCodecConformance
from tidelog.plugins.scaffold.skeletons.sasl_conformance import SkeletonSaslConformance


class TestMetadata(MetadataConformance, plugin=metadata): ...


class TestController(ControllerConformance, controller="skeleton"):
    settings: ClassVar[dict[str, object]] = {"plugins": controller.__name__}


class TestIndex(IndexFormatConformance, plugin=index): ...


class TestCleanup(CleanupPolicyConformance, plugin=cleanup): ...


class TestCompression(CompressionCodecConformance, plugin=compression): ...


class TestAssignor(PartitionAssignorConformance, plugin=assignor): ...


class TestAuthorizer(SkeletonAuthorizerConformance): ...


class TestCodec(SkeletonCodecConformance, plugin=codec): ...


class TestTransport(TransportConformance, plugin=transport): ...


class TestInterceptor(InterceptorConformance, plugin=interceptor): ...


class TestQuotas(QuotaCallbackConformance, plugin=quotas): ...


class TestSasl(SkeletonSaslConformance): ...


def test_there_is_a_skeleton_for_each_seam_with_a_suite() -> None:
    assert {each.title for each in SEAMS.values()} == {NAMED_SEAMS[hook] for hook in DEFAULTS}


def test_each_skeleton_states_the_version_of_the_interface() -> None:
    for seam in SEAMS:
        plugin = import_module(f"tidelog.plugins.scaffold.skeletons.{seam}")
        assert str(INTERFACE) == plugin.TIDELOG_INTERFACE, seam
