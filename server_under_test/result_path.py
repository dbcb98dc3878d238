"""What is kept of an engine's answer, and how it becomes what a client is served."""

from __future__ import annotations

from typing import Literal, Protocol

from server_under_test.decode import Wanted, sample_response
from server_under_test.http_answer import Body
from server_under_test.results_json import sample_response_json

PathName = Literal["proto-once", "json-reencode"]


class ResultPath(Protocol):
    def keep(self, body: Body, wanted: Wanted) -> bytes:
        """What is kept of the engine's body, which itself is not. Raises BadBodyError."""

    async def protobuf(self, kept: bytes) -> bytes:
        """The serialized SampleResponse that is served."""

    async def json(self, kept: bytes) -> bytes:
        """The JSON that clients from before it are served."""


class ProtoOnce:
    """Encoded to protobuf once, when it comes, and served as it is."""

    def keep(self, body: Body, wanted: Wanted) -> bytes:
        return sample_response(body, wanted)

    async def protobuf(self, kept: bytes) -> bytes:
        return kept

    async def json(self, kept: bytes) -> bytes:
        return sample_response_json(kept)
