"""The controller `local` has to do what every controller does."""

from __future__ import annotations

from tidelog.kernel.testing.controller import ControllerConformance


class TestLocalController(ControllerConformance, controller="local"): ...
