"""Faults as they happen to requests: what is answered, and what is done to the connection, the port or the process."""

from __future__ import annotations

import math
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

from aiohttp import web

from mockengine.altered import ALTERATIONS, altered_body
from mockengine.connections import Connections
from mockengine.faults import Plan, Rule
from mockengine.protocol import error_body
from mockengine.wire import WIRE_KINDS, Close, Scripted, script

# In vLLM's errors the type says what the status does.
_ERROR_TYPES = {
    400: "BadRequestError",
    408: "RequestTimeoutError",
    429: "TooManyRequestsError",
    500: "InternalServerError",
    502: "BadGatewayError",
    503: "ServiceUnavailableError",
}


class Host(Protocol):
    """The process that the engine runs in, as far as faults reach beyond one connection."""

    def close_port(self, seconds: float) -> None:
        """Refuse connections for a time; those that exist stay."""

    def restart(self, seconds: float) -> None:
        """Die at once and come back after a time. Does not return."""


class Injector:
    """Makes the faults of a plan happen, and counts each when it does."""

    def __init__(self, plan: Plan, host: Host) -> None:
        self._plan = plan
        self._host = host
        self._connections = Connections()

    def met(self, request: web.BaseRequest) -> web.StreamResponse | None:
        """The end of a request on a connection that an earlier fault marked; None for any other request."""
        if request.transport is None or self._connections.request_has_come(request.transport):
            return None
        return Scripted([Close()])

    def strike(self, rule: Rule) -> web.StreamResponse | None:
        """Let a fault of Moment.ARRIVAL happen: its answer, or None when the request is served all the same."""
        self._plan.count(rule)
        match rule.kind:
            case "restart":
                self._host.restart(rule.parameters["seconds"])
            case "port_closed":
                self._host.close_port(rule.parameters["seconds"])
                return None
        return _error(rule)

    def answer(self, rule: Rule, request: web.BaseRequest, body: Callable[[], bytes]) -> web.StreamResponse:
        """The answer with a fault of Moment.ANSWER. body: makes the one that was due, where anything of it is sent."""
        kind, parameters, connection = rule.kind, rule.parameters, request.transport

        def happens() -> None:
            self._plan.count(rule)

        if kind in ("idle_close", "close_on_reuse") and connection is not None:
            if kind == "idle_close":
                self._connections.close_when_idle(connection, parameters["seconds"], happens)
            else:
                self._connections.close_on_reuse(connection, happens)
            return _json(body())
        happens()
        if kind in ALTERATIONS:
            return _json(altered_body(kind, parameters, body()))
        if kind in WIRE_KINDS:
            return Scripted(script(kind, parameters, body()))
        match kind:
            case "truncated_json":
                whole = body()
                return _json(whole[: len(whole) // 2])
            case "empty_200":
                return _json(b"")
            case "html_200":
                return _html(200, "Service temporarily busy")
        return _error(rule)


def refusal(status: int, retry_after_s: float, message: str) -> web.Response:
    """An error that asks to come again later, as vLLM's or a router's."""
    answer = _json_error(status, message)
    answer.headers["Retry-After"] = str(math.ceil(retry_after_s))
    return answer


def _error(rule: Rule) -> web.Response:
    status = int(rule.kind.removeprefix("http_"))
    phrase = HTTPStatus(status).phrase
    answer = _html(status, phrase) if rule.parameters["html"] else _json_error(status, f"{phrase} (injected).")
    if "retry_after" in rule.parameters:
        answer.headers["Retry-After"] = str(math.ceil(rule.parameters["retry_after"]))
    return answer


def _json_error(status: int, message: str) -> web.Response:
    return _json(error_body(message, _ERROR_TYPES[status], status), status)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _html(status: int, title: str) -> web.Response:
    """A page such as a router in front of the engine sends."""
    text = f"<html>\n<head><title>{title}</title></head>\n<body><center><h1>{title}</h1></center></body>\n</html>\n"
    return web.Response(text=text, status=status, content_type="text/html")
