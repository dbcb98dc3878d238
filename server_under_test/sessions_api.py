"""The endpoints around sampling: what a client may do, and its sessions."""

from __future__ import annotations

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from server_under_test.access import read_body
from server_under_test.answers import RefusedError, json_answer
from server_under_test.messages import (
    CreateSamplingSessionRequest,
    MalformedError,
    SamplingSessionRequest,
    SessionRequest,
    parse,
)
from server_under_test.sessions import Sessions

# What the SDK assumes when it is not told (tinker, types/client_config_response.py).
SDK_MAX_OUTSTANDING = 2000
CONFIG_REFRESH_S = 300

_session_request = msgspec.json.Decoder(SessionRequest)
_sampling_session_request = msgspec.json.Decoder(SamplingSessionRequest)
_create_sampling_session_request = msgspec.json.Decoder(CreateSamplingSessionRequest)


class SessionsApi:
    """session_polling: tell clients to poll a session rather than each future."""

    def __init__(self, sessions: Sessions, session_polling: bool) -> None:
        self._sessions = sessions
        self._session_polling = session_polling

    def posts(self) -> dict[str, Handler]:
        return {
            "client/config": self._client_config,
            "client/dynamic_config": self._dynamic_config,
            "create_session": self._create_session,
            "session_heartbeat": self._session_heartbeat,
            "create_sampling_session": self._create_sampling_session,
            "join_sampling_session": self._join_sampling_session,
            "telemetry": self._telemetry,
        }

    async def _client_config(self, _: web.Request) -> web.Response:
        return json_answer(
            {
                "sample_max_concurrent_requests": SDK_MAX_OUTSTANDING,
                "sample_use_retrieve_futures": self._session_polling,
                "pjwt_auth_enabled": False,
            }
        )

    async def _dynamic_config(self, _: web.Request) -> web.Response:
        return json_answer({"refresh_interval_sec": CONFIG_REFRESH_S, "sample_cancel_enabled": True})

    async def _create_session(self, _: web.Request) -> web.Response:
        return json_answer({"type": "create_session", "session_id": self._sessions.create()})

    async def _session_heartbeat(self, request: web.Request) -> web.Response:
        wanted = parse(await read_body(request), _session_request)
        if not self._sessions.exists(wanted.session_id):
            raise RefusedError(410, f"There is no session '{wanted.session_id}'.")
        return json_answer({"type": "session_heartbeat"})

    async def _create_sampling_session(self, request: web.Request) -> web.Response:
        wanted = parse(await read_body(request), _create_sampling_session_request)
        if not self._sessions.exists(wanted.session_id):
            raise RefusedError(404, f"There is no session '{wanted.session_id}'.")
        model = wanted.base_model or wanted.model_path
        if model is None:
            raise MalformedError("base_model or model_path is missing.")
        try:
            sampling_session_id = self._sessions.create_sampling(model)
        except ValueError as error:
            raise MalformedError(f"base_model or model_path: {error}.") from error
        return json_answer({"type": "create_sampling_session", "sampling_session_id": sampling_session_id})

    async def _join_sampling_session(self, request: web.Request) -> web.Response:
        wanted = parse(await read_body(request), _sampling_session_request)
        if self._sessions.model_of(wanted.sampling_session_id) is None:
            raise RefusedError(404, f"There is no sampling session '{wanted.sampling_session_id}'.")
        return json_answer({"client_counter": self._sessions.join()})

    async def _telemetry(self, _: web.Request) -> web.Response:
        return json_answer({"status": "accepted"})
