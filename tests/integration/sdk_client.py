"""The real tinker SDK as a client, in a process of its own: ``python sdk_client.py URL COUNT MAX_TOKENS``.

Prints, as JSON, each sample's tokens and logprobs as hexadecimal bytes, in the wire's number formats.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import tinker
from tinker import types


def main(url: str, count: int, max_tokens: int) -> None:
    service = tinker.ServiceClient(base_url=url, api_key="tml-test")
    client = service.create_sampling_client(base_model="mock")
    futures = [
        client.sample(
            prompt=types.ModelInput.from_ints([1, 2, 3]),
            num_samples=2,
            sampling_params=types.SamplingParams(max_tokens=max_tokens, seed=seed),
            include_prompt_logprobs=True,
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
            }
        )
    print(json.dumps(samples))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
