"""The sampling path of a Tinker-style training API, each future polled by itself.

Requests carry what the ``tinker`` SDK 0.38 sends, answers are read as it reads them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from locustfiles.lengths import JobLengths
from locustfiles.polling import Kind, Seen
from locustfiles.preset import Preset
from locustfiles.protocols.completions import prompt

PREFIX = "/api/v1/"
CLIENT_CONFIG = PREFIX + "client/config"
CREATE_SESSION = PREFIX + "create_session"
SESSION_HEARTBEAT = PREFIX + "session_heartbeat"
CREATE_SAMPLING_SESSION = PREFIX + "create_sampling_session"
ASAMPLE = PREFIX + "asample"
RETRIEVE_FUTURE = PREFIX + "retrieve_future"

SDK_VERSION = "0.38.0"
HEARTBEAT_INTERVAL_S = 10.0
PROTOBUF = "application/x-protobuf"

ASAMPLE_HEADERS = {"Accept": "application/json", "X-Tinker-Sampling-Backpressure": "1"}

T = TypeVar("T")


class BadAnswerError(Exception):
    """An answer that is not what the API promises; the text says what was found."""


class Accepted(msgspec.Struct, frozen=True):
    """The answer to a submit. The SDK wants an id for each sequence asked for, once it has the result."""

    request_id: str
    sample_sequence_ids: list[str] | None = None


class ClientConfig(msgspec.Struct, frozen=True):
    """What a server may tell its clients to do otherwise; None: nothing."""

    sample_dispatch_bytes_semaphore_size: int | None = None
    inflight_response_bytes_semaphore_size: int | None = None
    billing_exception_max_pause_duration_sec: float | None = None
    sample_no_retries: bool | None = None

    def applied_to(self, preset: Preset) -> Preset:
        told: dict[str, Any] = {
            "submit_bytes": self.sample_dispatch_bytes_semaphore_size,
            "response_bytes": self.inflight_response_bytes_semaphore_size,
            "billing_window_s": self.billing_exception_max_pause_duration_sec,
            "resubmits": None if self.sample_no_retries is None else not self.sample_no_retries,
        }
        return replace(preset, **{name: value for name, value in told.items() if value is not None})


class _Session(msgspec.Struct, frozen=True):
    session_id: str


class _SamplingSession(msgspec.Struct, frozen=True):
    sampling_session_id: str


class _JsonAnswer(msgspec.Struct, frozen=True):
    """The fields by which the JSON answers of a poll are told apart."""

    type: str | None = None
    status: str | None = None
    error: str | None = None
    response_payload_size: int | None = None


_accepted = msgspec.json.Decoder(Accepted)
_client_config = msgspec.json.Decoder(ClientConfig)
_session = msgspec.json.Decoder(_Session)
_sampling_session = msgspec.json.Decoder(_SamplingSession)
_json_answer = msgspec.json.Decoder(_JsonAnswer)


def client_config_body() -> bytes:
    return msgspec.json.encode({"sdk_version": SDK_VERSION})


def create_session_body(name: str) -> bytes:
    return msgspec.json.encode(
        {
            "tags": ["repoll"],
            "user_metadata": {"user": name},
            "sdk_version": SDK_VERSION,
            "type": "create_session",
        }
    )


def heartbeat_body(session_id: str) -> bytes:
    return msgspec.json.encode({"session_id": session_id, "type": "session_heartbeat"})


def create_sampling_session_body(session_id: str, base_model: str) -> bytes:
    request: dict[str, Any] = {
        "session_id": session_id,
        "sampling_session_seq_id": 0,
        "base_model": base_model,
        "type": "create_sampling_session",
    }
    return msgspec.json.encode(request)


def session_id_of(body: bytes) -> str:
    return _decoded(_session, body).session_id


def sampling_session_id_of(body: bytes) -> str:
    return _decoded(_sampling_session, body).sampling_session_id


def client_config_of(body: bytes) -> ClientConfig:
    return _decoded(_client_config, body)


def accepted_in(body: bytes) -> Accepted:
    """The answer to a submit."""
    return _decoded(_accepted, body)


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise BadAnswerError(f"{error}: {body[:200]!r}") from error


def asample_body(sampling_session_id: str, seq_id: int, lengths: JobLengths, seed: int) -> bytes:
    """One sample: its ``seed`` tells the mock engine which answer to give."""
    return (
        b'{"sampling_session_id":%b,"seq_id":%d,"num_samples":1,'
        b'"prompt":{"chunks":[{"type":"encoded_text","tokens":%b}]},'
        b'"sampling_params":{"max_tokens":%d,"seed":%d,"temperature":1.0,"top_k":-1,"top_p":1.0},'
        b'"prompt_logprobs":false,"topk_prompt_logprobs":0,"topk_sample_logprobs":0,'
        b'"prompt_alt_tokens_k":0,"record_stability_info":false,"type":"sample"}'
    ) % (
        msgspec.json.encode(sampling_session_id),
        seq_id,
        prompt(lengths.prompt_tokens),
        lengths.max_tokens,
        seed,
    )


def retrieve_body(request_id: str, allow_metadata_only: bool) -> bytes:
    return msgspec.json.encode({"request_id": request_id, "allow_metadata_only": allow_metadata_only})


def retrieve_headers(iteration: int, submit_roundtrip_s: float) -> dict[str, str]:
    headers = {
        "Accept": PROTOBUF,
        "X-Tinker-Request-Iteration": str(iteration),
        "X-Tinker-Request-Type": "Sample",
    }
    if iteration == 0:
        headers["X-Tinker-Create-Promise-Roundtrip-Time"] = f"{submit_roundtrip_s:.6f}"
    return headers


def seen_in(status: int, content_type: str, body: bytes) -> Seen:
    """What an answer to retrieve_future says."""
    if status == 400 and not body:
        return Seen(Kind.REJECTED, status)
    if not 200 <= status < 300:
        return Seen(Kind.STATUS, status, excerpt(body), is_json=status == 408 and _is_json(body))
    if PROTOBUF in content_type:
        return Seen(Kind.RESULT, status)
    try:
        answer = _json_answer.decode(body)
    except msgspec.MsgspecError:
        return Seen(Kind.NOT_A_RESULT, status, f"{content_type or 'no content type'}: {excerpt(body)}")
    if answer.type == "try_again":
        return Seen(Kind.TRY_AGAIN, status)
    if answer.status == "complete_metadata":
        return Seen(Kind.METADATA, status, payload_bytes=answer.response_payload_size or 0)
    if answer.error is not None:
        return Seen(Kind.FAILURE, status, answer.error)
    return Seen(Kind.NOT_A_RESULT, status, excerpt(body))


def _is_json(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body) is not None
    except msgspec.MsgspecError:
        return False


def excerpt(body: bytes) -> str:
    return body[:200].decode("utf-8", "replace")
