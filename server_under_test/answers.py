"""What every endpoint answers with: JSON, and errors with a sentence."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from aiohttp import web

MAX_SENTENCE = 500  # characters; sentences quote what the client sent, which may be megabytes


class RefusedError(Exception):
    """A request that is answered with an error; the text is the sentence."""

    def __init__(self, status: int, sentence: str, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after_s = retry_after_s

    def answer(self) -> web.Response:
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        return web.Response(
            body=orjson.dumps({"detail": _printable(str(self))}),
            status=self.status,
            content_type="application/json",
            headers=headers,
        )


def _printable(sentence: str) -> str:
    """Without the middle when it is long, and without the lone surrogates that stand for bytes of odd headers."""
    if len(sentence) > MAX_SENTENCE:
        half = MAX_SENTENCE // 2
        sentence = f"{sentence[:half]} ... {sentence[-half:]}"
    return sentence.encode("utf-8", "backslashreplace").decode()


def json_answer(document: Mapping[str, object], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json")
