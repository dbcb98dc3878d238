"""The real tinker SDK, of any version, as a client: ``python sdk_client.py URL COUNT MAX_TOKENS [TOPK [POLLING]]``.

Prints, as JSON, each sample's tokens and logprobs as hexadecimal bytes, in the wire's number formats, and with TOPK the
likeliest tokens, where the SDK has them. POLLING ``futures``: poll each future, though the server offers sessions.
"""

from __future__ import annotations

import inspect
import json
import os
import sys

import numpy as np
import tinker
from tinker import types

PROMPT = [1, 2, 3]


def main(url: str, count: int, max_tokens: int, topk: int = 0, polling: str = "as offered") -> None:
    if polling == "futures" and hasattr(types, "ClientConfigResponse"):
        # What the server offers is data; all that the SDK makes of it is left as it is.
        types.ClientConfigResponse.sample_use_retrieve_futures = property(lambda _: False)
    service = tinker.ServiceClient(base_url=url, api_key="tml-test")
    client = service.create_sampling_client(base_model="mock")
    known = inspect.signature(tinker.SamplingClient.sample).parameters
    topks = {name: topk for name in ("topk_prompt_logprobs", "topk_sample_logprobs") if topk and name in known}
    futures = [
        client.sample(
            prompt=types.ModelInput.from_ints(PROMPT),
            num_samples=2,
            sampling_params=types.SamplingParams(max_tokens=max_tokens, seed=seed),
            include_prompt_logprobs=True,
            **topks,
        )
        for seed in range(count)
    ]
    samples = []
    for future in futures:
        result = future.result(timeout=60)
        samples.append(
            {
                "prompt_logprobs": result.prompt_logprobs,
                "sequences": [
                    [
                        np.array(sequence.tokens, "<i4").tobytes().hex(),
                        np.array(sequence.logprobs, "<f4").tobytes().hex(),
                        sequence.stop_reason,
                    ]
                    for sequence in result.sequences
                ],
                "topk_prompt_logprobs": result.topk_prompt_logprobs,
                "topk_sample_logprobs": [getattr(sequence, "topk_logprobs", None) for sequence in result.sequences],
                "asked": sorted(topks),
            }
        )
    print(json.dumps(samples))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *map(int, sys.argv[4:5]), *sys.argv[5:6])
    sys.stdout.flush()
    # A daemon thread in the SDK's transport, which is not Python's, may abort the interpreter as it ends: seen in 5 of
    # 60 runs of version 0.38, closed or not, after all results had been printed. So it is not brought to its end.
    os._exit(0)
