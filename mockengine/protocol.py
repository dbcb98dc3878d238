"""vLLM's completion requests and its errors, as they stand on the wire."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from mockengine.corpus import MAX_TOKENS

MAX_CHOICES = 256  # the corpus tells this many choices of a request apart
MAX_LOGPROBS = 20  # vLLM's default for max_logprobs

TokenNames = Literal["texts", "ids"]
TokenId = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class BadRequestError(Exception):
    """A request that vLLM would answer with 400; the text is a sentence that names the field."""


class CompletionRequest(msgspec.Struct, frozen=True):
    """The fields of POST /v1/completions that change the answer; others are accepted and ignored, as vLLM does.

    Without return_token_ids the ids are left out.
    """

    prompt: list[TokenId]
    model: str | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)] = 16
    n: Annotated[int, msgspec.Meta(ge=1, le=MAX_CHOICES)] = 1
    seed: int | None = None
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=MAX_LOGPROBS)] | None = None
    prompt_logprobs: Annotated[int, msgspec.Meta(ge=0, le=MAX_LOGPROBS)] | None = None
    return_token_ids: bool | None = False
    stop: str | list[str] | None = None
    stop_token_ids: list[TokenId] | None = None
    include_stop_str_in_output: bool | None = False
    return_tokens_as_token_ids: bool | None = False
    stream: bool | None = False

    @property
    def token_names(self) -> TokenNames:
        """How tokens are called within logprobs."""
        return "ids" if self.return_tokens_as_token_ids else "texts"

    @property
    def stop_strings(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def stops(self) -> bool:
        """Whether the answer may end early."""
        return bool(self.stop or self.stop_token_ids)


_decoder = msgspec.json.Decoder(CompletionRequest)


def parse_completion_request(body: bytes, max_model_len: int) -> CompletionRequest:
    """max_model_len: tokens of prompt and answer together. Raises BadRequestError."""
    try:
        request = _decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequestError(f"The request is not a completion request: {error}.") from error
    if request.stream:
        raise BadRequestError("stream: this mock engine does not stream; send stream: false.")
    if not request.prompt:
        raise BadRequestError("prompt: there are no tokens in it; send at least one.")
    if "" in request.stop_strings:
        raise BadRequestError("stop: it can't contain an empty string.")
    prompt_tokens = len(request.prompt)
    if prompt_tokens + request.max_tokens > max_model_len:
        raise BadRequestError(
            f"max_tokens: this model's maximum context length is {max_model_len} tokens, but {prompt_tokens} in the "
            f"prompt and {request.max_tokens} to be made were requested; ask for fewer."
        )
    return request


def _decode(body: bytes) -> CompletionRequest:
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError:
        # Rarer forms of a prompt, kept off the way of the usual one: a text, a token for each byte, and a batch of one.
        document = msgspec.json.decode(body)
        match document:
            case {"prompt": str(text)}:
                document["prompt"] = list(text.encode())
            case {"prompt": [list(token_ids)]}:
                document["prompt"] = token_ids
        return msgspec.convert(document, CompletionRequest)


def error_body(message: str, kind: str, code: int) -> bytes:
    """vLLM's JSON error."""
    error: dict[str, Any] = {"message": message, "type": kind, "param": None, "code": code}
    return msgspec.json.encode({"error": error})
