"""What every endpoint answers with: JSON, and errors with a sentence."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from aiohttp import web


class RefusedError(Exception):
    """A request that is answered with an error; the text is the sentence."""

    def __init__(self, status: int, sentence: str, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after_s = retry_after_s

    def answer(self) -> web.Response:
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        return web.Response(
            body=orjson.dumps({"detail": str(self)}),
            status=self.status,
            content_type="application/json",
            headers=headers,
        )


def json_answer(document: Mapping[str, object], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json")
