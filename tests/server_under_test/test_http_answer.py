"""Reading an HTTP answer however its bytes are cut up, against the standard library's reader."""

from __future__ import annotations

import http.client
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_under_test.http_answer import BUFFER_BYTES, MAX_BODY_BYTES, AnswerReader, BadAnswerError, Buffers


def feed(reader: AnswerReader, data: bytes, cuts: list[int]) -> int:
    """Hand ``data`` over in pieces; how many of its bytes were taken before the answer was complete."""
    taken = 0
    for cut in [*(min(cut, len(data)) for cut in cuts), len(data)]:
        while taken < cut and not reader.complete:
            room = reader.room()
            piece = data[taken : min(cut, taken + len(room))]
            room[: len(piece)] = piece
            reader.received(len(piece))
            taken += len(piece)
    return taken


def body_of(reader: AnswerReader) -> bytes:
    return bytes(reader.body.whole())


class _Socket:
    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def makefile(self, *_: Any) -> io.BytesIO:
        return self._file


def standard(data: bytes) -> tuple[int, str, bytes]:
    response = http.client.HTTPResponse(_Socket(data))  # type: ignore[arg-type]
    response.begin()
    return response.status, response.headers.get("Content-Type", ""), response.read()


bodies = st.one_of(st.binary(max_size=300), st.just(b"\r\n\r\n"), st.just(b"x" * (BUFFER_BYTES + 5)))


@given(bodies, st.sampled_from([200, 404, 503]), st.booleans(), st.lists(st.integers(0, 400), max_size=8))
def test_bodies_of_known_length(body: bytes, status: int, close: bool, cuts: list[int]) -> None:
    head = f"HTTP/1.1 {status} Reason\r\ncontent-TYPE: a/b; c=d\r\nContent-Length: {len(body)}\r\n"
    data = (head + ("Connection: close\r\n" if close else "") + "\r\n").encode() + body
    reader = AnswerReader(Buffers())
    assert feed(reader, data, sorted(cuts)) == len(data)
    assert reader.complete
    assert (reader.status, reader.content_type, body_of(reader)) == standard(data)
    assert reader.keep_alive is not close


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=5), st.lists(st.integers(0, 300), max_size=8))
def test_chunked_bodies(chunks: list[bytes], cuts: list[int]) -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    data += b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    reader = AnswerReader(Buffers())
    assert feed(reader, data, sorted(cuts)) == len(data)
    assert reader.complete
    assert body_of(reader) == b"".join(chunks) == standard(data)[2]
    assert reader.keep_alive


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_a_body_without_length_ends_with_the_connection(body: bytes, cuts: list[int]) -> None:
    data = b"HTTP/1.1 200 OK\r\n\r\n" + body
    reader = AnswerReader(Buffers())
    feed(reader, data, sorted(cuts))
    assert not reader.complete
    reader.closed()
    assert reader.complete
    assert not reader.keep_alive
    assert body_of(reader) == body == standard(data)[2]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1234",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
    ],
)
def test_an_answer_that_breaks_off_is_never_complete(data: bytes) -> None:
    reader = AnswerReader(Buffers())
    feed(reader, data, [])
    reader.closed()
    assert not reader.complete
    assert reader.begun == bool(data)


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("length", ["", "Content-Length: 5\r\n"])
def test_an_answer_that_has_no_body_by_its_status_ends_with_its_head(status: int, length: str) -> None:
    reader = AnswerReader(Buffers())
    data = f"HTTP/1.1 {status} None\r\n{length}\r\n".encode()
    assert feed(reader, data, []) == len(data)
    assert reader.complete
    assert (reader.status, body_of(reader), reader.keep_alive) == (status, b"", True)


@given(st.lists(st.sampled_from([100, 102, 103]), max_size=3), st.lists(st.integers(0, 400), max_size=8))
def test_interim_answers_are_skipped(interim: list[int], cuts: list[int]) -> None:
    data = b"".join(b"HTTP/1.1 %d Wait\r\nLink: </x>\r\n\r\n" % status for status in interim)
    data += b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nlate"
    reader = AnswerReader(Buffers())
    assert feed(reader, data, sorted(cuts)) == len(data)
    assert reader.complete
    assert (reader.status, body_of(reader), reader.retry_after, reader.keep_alive) == (429, b"late", "7", True)


def test_more_than_was_announced_makes_the_connection_unusable() -> None:
    reader = AnswerReader(Buffers())
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP"
    reader.room()[: len(data)] = data
    reader.received(len(data))
    assert reader.complete
    assert body_of(reader) == b"ok"
    assert not reader.keep_alive


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1),
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % 10**30,
    ],
)
def test_what_is_no_http_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(BadAnswerError):
        feed(AnswerReader(Buffers()), data, [])


def test_an_answer_that_announces_too_much_is_refused_with_both_numbers() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1)
    with pytest.raises(
        BadAnswerError, match=f"^It announces {MAX_BODY_BYTES + 1} bytes, and at most {MAX_BODY_BYTES} "
    ):
        feed(AnswerReader(Buffers()), head, [])


def test_memory_is_used_again_and_large_bodies_get_more_of_it() -> None:
    buffers = Buffers()
    body = b"x" * (2 * BUFFER_BYTES)
    data = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    memory = set()
    for _ in range(3):
        reader = AnswerReader(buffers)
        feed(reader, data, [10])
        assert body_of(reader) == body
        memory.add(id(reader.body.buffer))
        reader.release()
    assert len(memory) == 1


def test_memory_that_is_too_small_is_not_kept_beside_what_takes_its_place() -> None:
    buffers = Buffers()
    taken = []
    for size in (1, 2, 3):
        taken.append(buffers.take(size * BUFFER_BYTES))
        buffers.give_back(taken[-1])
    assert buffers.take() is taken[-1]
    other = buffers.take()
    assert not any(other is buffer for buffer in taken)


def test_memory_that_is_kept_for_later_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server_under_test.http_answer.SPARE_BYTES", 4 * BUFFER_BYTES)
    buffers = Buffers()
    large, small = buffers.take(3 * BUFFER_BYTES), [buffers.take() for _ in range(2)]
    for buffer in (large, *small):
        buffers.give_back(buffer)
    assert [id(buffers.take()) for _ in small] == [id(buffer) for buffer in reversed(small)]
    assert buffers.take() is not large  # the oldest went first
