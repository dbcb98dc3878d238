"""``python -m locustfiles.bench.plain_client URL OUTSTANDING``: what one would write with aiohttp, for comparison.

It submits, polls, and compares each result with the corpus, as the load does; it counts and measures nothing. It runs
until it is killed.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

import aiohttp

from locustfiles.bench import MAX_TOKENS, PROFILE, PROMPT_TOKENS
from locustfiles.lengths import JobLengths
from locustfiles.preflight import raise_open_files_limit
from locustfiles.protocols import tinker
from locustfiles.submitting import SUBMITS_AT_ONCE
from locustfiles.verification import CorpusVerifier
from mockengine.corpus import Corpus

POLL_TIMEOUT = aiohttp.ClientTimeout(total=90.0)


async def follow_futures(url: str, outstanding: int) -> None:
    verifier = CorpusVerifier(Corpus(PROFILE))
    seeds = itertools.count()
    submits = asyncio.Semaphore(SUBMITS_AT_ONCE)
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:

        async def post(path: str, body: bytes, more: dict[str, str]) -> bytes:
            async with session.post(path, data=body, headers=more, timeout=POLL_TIMEOUT) as reply:
                reply.raise_for_status()
                return await reply.read()

        async def follow() -> None:
            while True:
                seed = next(seeds)
                body = tinker.asample_body("t", seed, JobLengths(PROMPT_TOKENS, MAX_TOKENS), seed)
                async with submits:
                    accepted = await post(tinker.ASAMPLE, body, tinker.ASAMPLE_HEADERS)
                poll = tinker.retrieve_body(tinker.accepted_in(accepted).request_id, allow_metadata_only=True)
                result = await post(tinker.RETRIEVE_FUTURE, poll, tinker.retrieve_headers(0, 0.0))
                flaw = verifier.flaw(seed, MAX_TOKENS, result)
                if flaw is not None:
                    raise RuntimeError(f"seed {seed}: {flaw.text}")

        await post(tinker.CREATE_SESSION, tinker.create_session_body("plain"), {})
        await asyncio.gather(*(follow() for _ in range(outstanding)))


if __name__ == "__main__":
    raise_open_files_limit()
    asyncio.run(follow_futures(sys.argv[1], int(sys.argv[2])))
