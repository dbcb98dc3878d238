"""vLLM's completion requests and its errors, as they stand on the wire."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from mockengine.corpus import MAX_TOKENS

MAX_CHOICES = 256  # the corpus tells this many choices of a request apart


class BadRequestError(Exception):
    """A request that vLLM would answer with 400; the text is a sentence that names the field."""


class CompletionRequest(msgspec.Struct, frozen=True):
    """The fields of POST /v1/completions that change the answer; others are accepted and ignored, as vLLM does."""

    prompt: list[Annotated[int, msgspec.Meta(ge=0)]]
    model: str = ""
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)] = 16
    n: Annotated[int, msgspec.Meta(ge=1, le=MAX_CHOICES)] = 1
    seed: int | None = None
    prompt_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    stream: bool | None = False


_decoder = msgspec.json.Decoder(CompletionRequest)


def parse_completion_request(body: bytes) -> CompletionRequest:
    """Raises BadRequestError."""
    try:
        request = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise BadRequestError(f"The request is not a completion request: {error}.") from error
    if request.stream:
        raise BadRequestError("stream: this mock engine does not stream; send stream: false.")
    if not request.prompt:
        raise BadRequestError("prompt: the list of token ids is empty; send at least one.")
    return request


def error_body(message: str, kind: str, code: int) -> bytes:
    """vLLM's JSON error."""
    error: dict[str, Any] = {"message": message, "type": kind, "param": None, "code": code}
    return msgspec.json.encode({"error": error})
