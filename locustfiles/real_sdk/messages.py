"""What a load process and its SDK process say to each other: JSON, a line each, bytes in base64."""

from __future__ import annotations

import msgspec


class Ask(msgspec.Struct, frozen=True):
    """To the SDK's process: one sample of prompt_tokens and max_tokens, for future ``number``."""

    number: int
    seed: int
    prompt_tokens: int
    max_tokens: int


class Answer(msgspec.Struct, frozen=True):
    """What came of it: the SDK's sample as a SampleResponse in protobuf; or None, and the class and text of its error.

    The first answer has the number READY: the SDK has a session and can be asked.
    """

    number: int
    result: bytes | None = None
    error_class: str = ""
    detail: str = ""


READY = -1

ask_decoder = msgspec.json.Decoder(Ask)
answer_decoder = msgspec.json.Decoder(Answer)


def line_of(message: Ask | Answer) -> bytes:
    return msgspec.json.encode(message) + b"\n"
