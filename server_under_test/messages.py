"""Requests of the sampling API as they stand on the wire, and what is wrong with a malformed one."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

MAX_SAMPLES = 256
MAX_TOPK = 20  # vLLM's default for max_logprobs


# What JSON encoders can write again, and engines read.
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class MalformedError(Exception):
    """A request that can't be understood; the text is a sentence that names the field."""


class Chunk(msgspec.Struct, frozen=True):
    """A part of a prompt. tokens stays JSON: its thousands of numbers go to the engine as they came."""

    tokens: msgspec.Raw
    type: str | None = "encoded_text"


class Prompt(msgspec.Struct, frozen=True):
    chunks: list[Chunk]


class SamplingParams(msgspec.Struct, frozen=True):
    """Absent and null mean the same: the engine's default."""

    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    seed: Int64 | None = None
    temperature: float | None = None
    top_k: Int64 | None = None
    top_p: float | None = None
    stop: str | list[str | Int64] | None = None


class SampleRequest(msgspec.Struct, frozen=True):
    """Body of asample."""

    prompt: Prompt
    sampling_params: SamplingParams
    num_samples: Annotated[int, msgspec.Meta(ge=1, le=MAX_SAMPLES)] | None = 1
    sampling_session_id: str | None = None
    seq_id: Int64 | None = None
    base_model: str | None = None
    model_path: str | None = None
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: Annotated[int, msgspec.Meta(ge=0, le=MAX_TOPK)] | None = 0
    topk_sample_logprobs: Annotated[int, msgspec.Meta(ge=0, le=MAX_TOPK)] | None = 0

    @property
    def samples(self) -> int:
        return self.num_samples or 1


class RetrieveRequest(msgspec.Struct, frozen=True):
    """Body of retrieve_future and of cancel_future."""

    request_id: str
    allow_metadata_only: bool | None = False


class SessionTarget(msgspec.Struct, frozen=True):
    sampling_session_id: str
    cloned_sampler_id: Int64 = 0


class RetrieveFuturesRequest(msgspec.Struct, frozen=True):
    """Body of retrieve_futures. timeout: seconds; 0 asks for an answer at once, None leaves it to the server."""

    target: SessionTarget
    prev_cursor: Int64 = 0
    timeout: float | None = None
    retrieved_request_ids: list[str] = []


class CreateSamplingSessionRequest(msgspec.Struct, frozen=True):
    session_id: str
    base_model: str | None = None
    model_path: str | None = None


class SessionRequest(msgspec.Struct, frozen=True):
    session_id: str


class SamplingSessionRequest(msgspec.Struct, frozen=True):
    sampling_session_id: str


T = TypeVar("T")


def parse(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Raises MalformedError with the path of the field that is wrong."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise MalformedError(f"{error}.") from error
    except msgspec.DecodeError as error:
        raise MalformedError(f"The body is not JSON: {error}.") from error
    except RecursionError as error:
        raise MalformedError("The body is JSON of too many levels.") from error


_sample_request = msgspec.json.Decoder(SampleRequest)


def parse_sample_request(body: bytes) -> SampleRequest:
    """Raises MalformedError."""
    return parse(body, _sample_request)


def prompt_tokens(prompt: Prompt) -> bytes:
    """All chunks' token ids as one JSON list, without a Python object a token. Raises MalformedError."""
    parts = []
    for number, chunk in enumerate(prompt.chunks):
        if chunk.type not in ("encoded_text", None):
            raise MalformedError(f"prompt.chunks[{number}].type should be encoded_text, found '{chunk.type}'.")
        tokens = bytes(chunk.tokens)
        # It is JSON already; of digits, commas and one pair of brackets only a flat list of whole numbers can be made.
        if tokens.translate(None, b"0123456789, \t\r\n") != b"[]":
            raise MalformedError(f"prompt.chunks[{number}].tokens should be a list of token ids.")
        if inner := tokens.strip()[1:-1].strip():
            parts.append(inner)
    if not parts:
        raise MalformedError("prompt.chunks holds no tokens; send one at least.")
    return b"[" + b",".join(parts) + b"]"


def completion_body(model: str, request: SampleRequest, prompt: bytes) -> bytes:
    """The engine's request for a sample: JSON of POST /v1/completions."""
    params = request.sampling_params
    fields: dict[str, object] = {
        "model": model,
        "prompt": msgspec.Raw(prompt),
        "n": request.samples,
        "logprobs": max(1, request.topk_sample_logprobs or 0),
        "stream": False,
        "return_token_ids": True,
    }
    for name in ("max_tokens", "seed", "temperature", "top_k", "top_p"):
        if (value := getattr(params, name)) is not None:
            fields[name] = value
    if params.stop:
        ids = isinstance(params.stop, list) and isinstance(params.stop[0], int)
        fields["stop_token_ids" if ids else "stop"] = params.stop
    if request.topk_sample_logprobs:
        fields["return_tokens_as_token_ids"] = True
    if request.prompt_logprobs or request.topk_prompt_logprobs:
        fields["prompt_logprobs"] = max(1, request.topk_prompt_logprobs or 0)
    return msgspec.json.encode(fields)
