"""``python -m locustfiles.real_sdk URL MODEL``: the SDK, asked for samples on standard input until that ends."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import Future
from functools import partial
from typing import BinaryIO

import msgspec
import numpy as np
import tinker
from tinker import types

from locustfiles.processes import die_with_parent
from locustfiles.protocols.completions import STOP_REASONS, prompt
from locustfiles.real_sdk.messages import READY, Answer, Ask, ask_decoder, line_of
from server_under_test.proto import SampledSequence, SampleResponse


class _Answers:
    """Where the answers go, a line each, from any thread."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._lock = threading.Lock()

    def say(self, answer: Answer) -> None:
        with self._lock:
            self._output.write(line_of(answer))
            self._output.flush()

    def ended(self, number: int, future: Future[types.SampleResponse]) -> None:
        error = future.exception()
        if error is None:
            self.say(Answer(number, result=_as_protobuf(future.result())))
        else:
            self.say(Answer(number, error_class=type(error).__name__, detail=str(error)))


def main(url: str, model: str) -> None:
    answers = _Answers(_own_standard_output())
    api_key = os.environ.get("TINKER_API_KEY", "tml-repoll")
    client = tinker.ServiceClient(base_url=url, api_key=api_key).create_sampling_client(base_model=model)
    answers.say(Answer(READY))
    for line in sys.stdin.buffer:
        ask = ask_decoder.decode(line)
        _sample(client, ask).add_done_callback(partial(answers.ended, ask.number))


def _sample(client: tinker.SamplingClient, ask: Ask) -> Future[types.SampleResponse]:
    """With the parameters that the load's own clients send."""
    return client.sample(
        prompt=types.ModelInput.from_ints(msgspec.json.decode(prompt(ask.prompt_tokens), type=list[int])),
        num_samples=1,
        sampling_params=types.SamplingParams(max_tokens=ask.max_tokens, seed=ask.seed, temperature=1.0),
    ).future()


def _as_protobuf(response: types.SampleResponse) -> bytes:
    """What the SDK has made of a result, in the form in which results are verified."""
    sequences = []
    for sample in response.sequences:
        tokens = np.array(sample.tokens, "<i4").tobytes()
        sequence = SampledSequence(stop_reason=STOP_REASONS[sample.stop_reason], tokens=tokens)
        if sample.logprobs is not None:
            sequence.logprobs = np.array(sample.logprobs, "<f4").tobytes()
        sequences.append(sequence)
    return SampleResponse(sequences=sequences).SerializeToString()


def _own_standard_output() -> BinaryIO:
    """Standard output for the answers alone: what else is printed goes where errors go."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return output


if __name__ == "__main__":
    die_with_parent()
    main(*sys.argv[1:])
    # A daemon thread in the SDK's transport, which is not Python's, may abort the interpreter as it ends: seen in 5 of
    # 60 runs of version 0.38, closed or not. So it is not brought to its end.
    os._exit(0)
