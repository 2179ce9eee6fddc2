"""Routes: which handler serves a method and a path, and what it takes and returns, for OpenAPI too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import attrs

from tidelog.plugins.protocol_http.messages import JSON, HttpProblem, HttpRequest

if TYPE_CHECKING:
    from tidelog.plugins.protocol_http.call import Call
    from tidelog.plugins.protocol_http.messages import HttpResponse, WebSocketAccepted

Handler: TypeAlias = "Callable[[Call], Awaitable[HttpResponse | WebSocketAccepted]]"


class Parameter(Protocol):
    """The type of a parameter of the query."""

    @property
    def schema(self) -> Mapping[str, object]:
        """The type as OpenAPI has it."""
        ...

    def parse(self, text: str) -> Any:
        """Return the value; raises ValueError, whose text says what is expected."""
        ...


@attrs.frozen
class Number:
    """A whole number within limits."""

    least: int = 0
    most: int = 2**63 - 1

    @property
    def schema(self) -> Mapping[str, object]:
        """An integer."""
        return {"type": "integer", "format": "int64", "minimum": self.least, "maximum": self.most}

    def parse(self, text: str) -> int:
        """Return the number."""
        if text.isascii() and text.isdigit() and len(text) < 20 and self.least <= int(text) <= self.most:
            return int(text)
        raise ValueError(f"a number from {self.least} to {self.most}")


@attrs.frozen
class OneOf:
    """One of some words; with `numbers`, or an offset."""

    words: Sequence[str]
    numbers: bool = False

    @property
    def schema(self) -> Mapping[str, object]:
        """A string."""
        words = {"type": "string", "enum": list(self.words)}
        return {"oneOf": [words, Number().schema]} if self.numbers else words

    def parse(self, text: str) -> str | int:
        """Return the word or the number."""
        if text in self.words:
            return text
        if self.numbers and text.isascii() and text.isdigit() and len(text) < 20:
            return int(text)
        raise ValueError(f"one of {', '.join(self.words)}" + (" or an offset" if self.numbers else ""))


class Waits(Enum):
    """What becomes of a request whose client leaves before it is answered."""

    GIVEN_UP = "it only waits and reads, and is given up"
    COMPLETED = "it may change something, and is completed"


@attrs.frozen
class KafkaOperation:
    """The operation of Kafka's protocol that a route is, by its key and name, as request stages know it."""

    key: int
    name: str


@attrs.frozen
class HttpRoute:
    """What serves a method and a path; parts of `template` in braces are parameters.

    `operation` is None for what needs no right and passes no stages, such as health. `consumes` and
    `produces` are media types, the first one the default; `statuses` are those of success, with what they
    mean.
    """

    method: str
    template: str
    handler: Handler
    summary: str
    operation: KafkaOperation | None = None
    query: Mapping[str, Parameter] = attrs.field(factory=dict[str, Parameter])
    consumes: Sequence[str] = ()
    produces: Sequence[str] = (JSON,)
    status: int = 200
    waits: Waits = Waits.COMPLETED

    @property
    def segments(self) -> Sequence[str]:
        """The parts of the template."""
        return self.template.strip("/").split("/")

    def parse_query(self, query: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the values of the parameters that are there.

        Raises:
            HttpProblem: there is no such parameter, or it has not such a value.
        """
        values: dict[str, Any] = {}
        for name, text in query.items():
            parameter = self.query.get(name)
            if parameter is None:
                known = ", ".join(self.query) or "none"
                raise HttpProblem(400, f"there is no parameter {name[:100]!r} here; there are: {known}")
            try:
                values[name] = parameter.parse(text)
            except ValueError as error:
                raise HttpProblem(400, f"the parameter {name} is {text[:100]!r}, not {error}") from None
        return values


PLACEHOLDER: Final = "{"


class Router:
    """All routes, found by method and path."""

    def __init__(self, routes: Sequence[HttpRoute]) -> None:
        self.routes = routes
        self._by_length: dict[int, list[tuple[Sequence[str], dict[str, HttpRoute]]]] = {}
        for route in routes:
            self._methods(route.segments)[route.method] = route

    def _methods(self, segments: Sequence[str]) -> dict[str, HttpRoute]:
        shaped = self._by_length.setdefault(len(segments), [])
        for known, methods in shaped:
            if known == segments:
                return methods
        added: dict[str, HttpRoute] = {}
        shaped.append((segments, added))
        # What has fewer placeholders is more particular, and is looked at first.
        shaped.sort(key=lambda entry: sum(part.startswith(PLACEHOLDER) for part in entry[0]))
        return added

    def find(self, request: HttpRequest) -> tuple[HttpRoute, Mapping[str, str]]:
        """Return the route of a request, and the parameters in its path.

        Raises:
            HttpProblem: there is none, or not with this method.
        """
        for segments, methods in self._by_length.get(len(request.path), ()):
            path = _match(segments, request.path)
            if path is None:
                continue
            route = methods.get(request.method)
            if route is None:
                raise HttpProblem(405, f"{request.method} is not served here: {', '.join(methods)}")
            return route, path
        raise HttpProblem(404, f"nothing is at /{'/'.join(request.path)[:200]}; /openapi.json lists what is")


def _match(segments: Sequence[str], path: Sequence[str]) -> Mapping[str, str] | None:
    found: dict[str, str] = {}
    for segment, part in zip(segments, path, strict=True):
        if segment.startswith(PLACEHOLDER):
            if not part:
                return None
            found[segment[1:-1]] = part
        elif segment != part:
            return None
    return found
