"""What the processes send to each other. Structs are positional on the wire, so the order of fields is the format.

A batch holds n rows, one for each request that has new output: per-row fields are lists of n, or None when the batch
has no such field. A row on its way to an HTTP worker is a batch of one.

Opaque fields (``time_stats``, ``customized_info``) are ``Wrapped`` over MessagePack. Over pickle they hold the plain
value, whatever their annotation: msgspec checks types when it decodes, and pickle does not ask it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

FinishedReason = dict[str, Any]
Tensor = np.ndarray
if TYPE_CHECKING:
    IntArray = array[int]
else:
    IntArray = array  # takes no parameter before Python 3.12


class Wrapped(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """An opaque value as the bytes of its pickle."""

    pickled: bytes


class _Batch(msgspec.Struct, tag=True, array_like=True):
    """http_worker_ipcs: the address of the worker that owns each row; None where nobody does."""

    rids: list[str] | None = None
    http_worker_ipcs: list[str | None] | None = None


class EmbeddingBatch(_Batch):
    """Embeddings: a dense list, a sparse dict or a score for each row."""

    finished_reasons: list[FinishedReason | None] | None = None
    embeddings: list[list[float] | dict[int, float] | float] | None = None
    prompt_tokens: list[int] | None = None
    cached_tokens: list[int] | None = None
    retraction_counts: list[int] | None = None
    cached_tokens_details: list[dict[str, int | str]] | None = None
    pooled_hidden_states: list[Tensor] | None = None  # one for each row, or a single one that stacks all rows
    placeholder_tokens_idx: list[list[int]] | None = None
    placeholder_tokens_val: list[list[Tensor]] | None = None
    time_stats: Wrapped | None = None


class GeneratedBatch(_Batch):
    """What batches of tokens and of text have in common; a finished reason of None means that more will come."""

    finished_reasons: list[FinishedReason | None] | None = None
    output_ids: list[IntArray] | None = None  # of this step only
    prompt_tokens: list[int] | None = None
    cached_tokens: list[int] | None = None
    completion_tokens: list[int] | None = None
    reasoning_tokens: list[int] | None = None
    # A row without logprobs has an empty list.
    input_token_logprobs_val: list[list[float | None]] | None = None
    input_token_logprobs_idx: list[list[int]] | None = None
    output_token_logprobs_val: list[list[float]] | None = None
    output_token_logprobs_idx: list[list[int]] | None = None
    input_top_logprobs_val: list[list[list[float] | None]] | None = None
    input_top_logprobs_idx: list[list[list[int] | None]] | None = None
    output_top_logprobs_val: list[list[list[float]]] | None = None
    output_top_logprobs_idx: list[list[list[int]]] | None = None
    input_token_ids_logprobs_val: list[list[list[float] | None]] | None = None
    input_token_ids_logprobs_idx: list[list[list[int] | None]] | None = None
    output_token_ids_logprobs_val: list[list[list[float]]] | None = None
    output_token_ids_logprobs_idx: list[list[list[int]]] | None = None
    output_token_entropy_val: list[float | None] | None = None
    output_hidden_states: list[list[Any] | None] | None = None
    retraction_counts: list[int] | None = None
    cached_tokens_details: list[dict[str, int | str] | None] | None = None
    dp_ranks: list[int] | None = None
    token_steps: list[int] | None = None
    image_tokens: list[int] | None = None
    audio_tokens: list[int] | None = None
    video_tokens: list[int] | None = None
    spec_verify_ct: list[int] | None = None
    spec_accepted_tokens: list[int] | None = None
    placeholder_tokens_idx: list[list[int]] | None = None
    placeholder_tokens_val: list[list[Tensor]] | None = None
    time_stats: Wrapped | None = None
    customized_info: Wrapped | None = None


class TokenBatch(GeneratedBatch):
    """From the scheduler: token ids that are yet to become text."""

    decoded_texts: list[str] | None = None  # what a request that is new here has already got
    decode_ids: list[IntArray] | None = None
    read_offsets: list[int] | None = None
    skip_special_tokens: list[bool] | None = None
    spaces_between_special_tokens: list[bool] | None = None
    no_stop_trim: list[bool] | None = None
    routed_experts: list[Tensor | None] | None = None
    indexer_topk: list[Tensor | None] | None = None


class TextBatch(GeneratedBatch):
    """From a detokenizer: the text that each row adds to what was sent before."""

    output_strs: list[str] | None = None
    routed_experts: list[str | None] | None = None  # base64
    indexer_topk: list[str | None] | None = None


class AbortRequest(msgspec.Struct, tag=True, array_like=True):
    """One request is to end; goes to the worker that owns it."""

    rid: str
    http_worker_ipc: str | None = None


class Submitted(msgspec.Struct, tag=True, array_like=True):
    """To an HTTP worker: these requests are its own, and rows of them will come; it sends the same back."""

    rids: list[str]


class Generate(msgspec.Struct, tag=True, array_like=True):
    """From an HTTP worker to the scheduler: send it the tokens of this answer of the corpus, in so many steps."""

    rid: str
    http_worker_ipc: str
    seed: int
    choice: int
    tokens: int
    steps: int


class Ended(msgspec.Struct, tag=True, array_like=True):
    """From an HTTP worker: this request has got its last row, or was aborted."""

    rid: str


class FreezeGc(msgspec.Struct, tag=True, array_like=True):
    """What lives now will live on: exclude it from garbage collection. For every process on the way."""


class Shutdown(msgspec.Struct, tag=True, array_like=True):
    """End once everything before this has been handled. For every process on the way."""


AnyBatch = TokenBatch | TextBatch | EmbeddingBatch
Message = AnyBatch | AbortRequest | Submitted | Generate | Ended | FreezeGc | Shutdown
