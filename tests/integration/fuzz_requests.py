"""Requests as nobody should send them, as raw bytes: made from valid ones, by a random generator and nothing else."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import zstandard
from hypothesis import strategies as st

PREFIX = "/api/v1/"
GETS = ("/api/v1/healthz", "/api/v1/get_server_capabilities", "/metrics")
_BOMB = zstandard.compress(bytes(65 * 2**20))
_LARGE = 300_000  # characters of a string or of a number, and levels of nesting
_ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 256, 257, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400),
    *(1.5, -0.0, 1e308, 5e-324, float("nan"), float("inf"), "", "x", "\0", "\ud800", "é\U0001f600", "1", "null"),
    *([], {}, [[]], [{}], [None], {"": None}, [1, "a"], ["a", 1], [1.5], [2**70], [True]),
)
_ODD_HEADERS = (
    *("Content-Type: text/html", "Content-Type: \xff\xfe", "Content-Type: application/json; charset=\xe9", "Accept: "),
    *("Accept: application/x-protobuf", "Accept: application/x-protobuf;q=0", "Accept: \x80\x81", "X-API-Key: \xff"),
    *("Expect: 100-continue", "Expect: nonsense", "Upgrade: websocket\r\nConnection: Upgrade", "Upgrade: h2c"),
    *("X-Tinker-Request-Iteration: -1", "X: " + "y" * 9_000, "\r\n".join(f"X{n}: y" for n in range(150)), ": x", "X"),
    *(" folded: line", "Cookie: " + "a=b;" * 500, 'Cookie: a="\\', "Range: bytes=5-1", "If-Modified-Since: never"),
    *("Host: [::1", "Host: \xff", "Host: a\r\nHost: b", "X-Forwarded-For: \0", "Connection: close", "Connection: \xff"),
)
_ODD_CODINGS = ("gzip", "deflate", "br", "ZSTD", "zstd, zstd", "identity, zstd", "", "\xff", "\xed\xa0\x80", "x" * 5000)
_ODD_METHODS = ("GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "post", "PRI", "FOO", "X" * 300)
_ODD_PATHS = (
    *("/", "//", "/api/v1", "/api/v1/", "/api/v1/asample/", "/api/v2/asample", "/api/v1/asample?x=%ff", "/%", "/%00"),
    *("/api/v1/../v1/asample", "/api/v1/%61sample", "*", "x", "http://[::1/", "http://a:99999/", "/\xff", "/#", "?"),
    *("/" + "a" * 9_000, "/" + "%2e" * 500, "/api/v1/asample;x", "//[", "http://", "/{x}", "/api/v1/\ud7ff"),
)


@dataclass
class Known:
    """Ids that a server has given out, latest last."""

    session_ids: list[str] = field(default_factory=lambda: ["session-00-0"])
    sampling_session_ids: list[str] = field(default_factory=lambda: ["sampling-00-0-bW9jaw"])
    request_ids: list[str] = field(default_factory=lambda: ["0123456789abcdef-0"])
    seq_id: int = 0


@dataclass(frozen=True)
class Request:
    """raw: what to send. framed: whether a server must see where it ends, and answer. method, path: as sent."""

    raw: bytes
    framed: bool
    method: str
    path: str


def hypothesis_values(seed: int, count: int) -> list[Any]:
    """JSON values as hypothesis thinks them up, with lone surrogates, huge numbers, NaN and infinity among them."""
    text = st.text(st.characters(exclude_categories=()), max_size=40)
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | text
    values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=12)
    found: list[Any] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(values)
    def collect(value: Any) -> None:
        found.append(value)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is called in no test
        collect()
    return found


class RequestMaker:
    """An endless supply of requests; the same seed, values and known ids make the same ones."""

    def __init__(self, seed: object, values: list[Any], known: Known) -> None:
        self._random = random.Random(str(seed))
        self._values = values
        self._known = known
        self._documents: dict[str, Callable[[], Any]] = {
            "client/config": lambda: {"sdk_version": "0.38.0"},
            "client/dynamic_config": lambda: {"sdk_version": "0.38.0"},
            "create_session": lambda: {"tags": [], "user_metadata": None, "type": "create_session"},
            "session_heartbeat": lambda: {"session_id": self._one_of(known.session_ids)},
            "create_sampling_session": self._create_sampling_session,
            "join_sampling_session": lambda: {"sampling_session_id": self._one_of(known.sampling_session_ids)},
            "telemetry": lambda: {"events": [], "session_id": self._one_of(known.session_ids)},
            "asample": self._sample,
            "retrieve_future": self._retrieve,
            "retrieve_futures": self._retrieve_session,
            "cancel_future": lambda: {"request_id": self._one_of(known.request_ids)},
        }
        # Those that do the work come more often.
        self._endpoints = [
            *self._documents,
            *(["asample"] * 8),
            *(["retrieve_future"] * 8),
            *(["retrieve_futures"] * 3),
        ]
        self._kinds: list[tuple[int, Callable[[str, Any], Request]]] = [
            (30, lambda name, document: self._post(name, self._text(document))),
            (10, lambda name, _: self._post(name, self._text(self._value()))),
            (22, lambda name, document: self._post(name, self._text(self._with_an_odd_value(document)))),
            (14, lambda name, document: self._post(name, self._mutated(self._text(document)))),
            (4, lambda name, document: self._post(name, self._large(document))),
            (9, self._coded),
            (5, self._with_an_odd_header),
            (4, self._elsewhere),
            (2, self._unframed),
        ]

    def next(self) -> Request:
        if self._random.random() < 0.02:
            return self._request("GET", self._random.choice(GETS), b"")
        name = self._random.choice(self._endpoints)
        weights, kinds = zip(*self._kinds, strict=True)
        return self._random.choices(kinds, weights)[0](name, self._documents[name]())

    # Valid documents

    def _one_of(self, ids: list[str]) -> str:
        """Mostly a recent one, which is still there."""
        return ids[-1 - min(int(self._random.expovariate(0.2)), len(ids) - 1)]

    def _create_sampling_session(self) -> dict[str, Any]:
        return {"session_id": self._one_of(self._known.session_ids), "sampling_session_seq_id": 0, "base_model": "mock"}

    def _sample(self) -> dict[str, Any]:
        pick = self._random.choice
        document: dict[str, Any] = {
            "num_samples": pick((1, 1, 2, 8)),
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3] * pick((1, 1, 30))}]},
            "sampling_params": {
                "max_tokens": pick((1, 16, 100)),
                **pick(({}, {"seed": self._random.getrandbits(20)}, {"stop": pick((["a"], [1], "a"))})),
                **pick(({}, {"temperature": 0.5, "top_k": -1, "top_p": 0.9})),
            },
            "prompt_logprobs": pick((None, False, True)),
            "topk_prompt_logprobs": pick((0, 0, 3)),
            "topk_sample_logprobs": pick((0, 0, 3)),
        }
        if self._random.random() < 0.5:
            return {**document, "base_model": "mock"}
        self._known.seq_id += pick((0, 1, 1, 10**9))
        return {
            **document,
            "sampling_session_id": self._one_of(self._known.sampling_session_ids),
            "seq_id": self._known.seq_id,
        }

    def _retrieve(self) -> dict[str, Any]:
        return {"request_id": self._one_of(self._known.request_ids), "allow_metadata_only": self._random.random() < 0.5}

    def _retrieve_session(self) -> dict[str, Any]:
        target = {"type": "sampling_session", "sampling_session_id": self._one_of(self._known.sampling_session_ids)}
        return {
            "target": {**target, "cloned_sampler_id": self._random.choice((0, 0, 1))},
            "prev_cursor": self._random.choice((0, 0, 2**50)),
            **self._random.choice(({}, {"timeout": 0}, {"timeout": 0.01})),
            "retrieved_request_ids": self._random.sample(self._known.request_ids[-5:], 1),
        }

    # What is done to them

    def _value(self) -> Any:
        return self._random.choice(self._random.choice((self._values, _ODD_VALUES)))

    def _text(self, document: Any) -> bytes:
        ascii_only = self._random.random() < 0.7
        return json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    def _with_an_odd_value(self, document: Any) -> Any:
        """One node of the tree replaced or dropped, or one more beside it."""
        document = json.loads(json.dumps(document))
        node = document
        while isinstance(node, dict | list) and node:
            key = self._random.choice(list(node)) if isinstance(node, dict) else self._random.randrange(len(node))
            if not isinstance(node[key], dict | list) or not node[key] or self._random.random() < 0.3:
                break
            node = node[key]
        else:
            return self._value()
        change = self._random.random()
        if change < 0.1:
            del node[key]
        elif change < 0.2 and isinstance(node, dict):
            node[str(self._value())] = node[key]
        else:
            node[key] = self._value()
        return document

    def _mutated(self, data: bytes) -> bytes:
        """Bytes flipped, cut off, cut out, doubled or put in, once to three times."""
        found = bytearray(data)
        for _ in range(self._random.randint(1, 3)):
            start, end = sorted(self._random.choices(range(len(found) + 1), k=2))
            match self._random.randrange(6):
                case 0 if found:
                    found[self._random.randrange(len(found))] ^= 1 << self._random.randrange(8)
                case 1:
                    del found[start:]
                case 2:
                    del found[start : min(end, start + 8)]
                case 3:
                    found[start:start] = found[start:end]
                case 4:
                    found[start:start] = self._random.randbytes(self._random.randint(1, 8))
                case _:
                    found[start:start] = self._random.choice(
                        (b"\0", b"\xff", b"\xed\xa0\x80", b"9" * 30, b"-", b'"', b"]")
                    )
        return bytes(found)

    def _large(self, document: Any) -> bytes:
        """Much of one thing in place of one value."""
        marker = "a place for it"
        size = int(_LARGE ** self._random.uniform(0.5, 1))
        much = self._random.choice(
            (
                b'"' + b"x" * size + b'"',
                b'"' + "é".encode() * size + b'"',
                b"9" * size,
                b"0." + b"1" * size,
                b"1e" + b"9" * min(size, 1000),
                b"[" * size + b"]" * size,
                b"[" * size,
                b'{"a":' * size + b"1" + b"}" * size,
                b"[" + b"1," * size + b"1]",
                b" " * size + b"1",
            )
        )
        node = document
        while isinstance(node, dict | list) and node:
            key = self._random.choice(list(node)) if isinstance(node, dict) else 0
            if not isinstance(node[key], dict | list) or not node[key] or self._random.random() < 0.3:
                node[key] = marker
                break
            node = node[key]
        return json.dumps(document).encode().replace(json.dumps(marker).encode(), much, 1)

    def _coded(self, name: str, document: Any) -> Request:
        text = self._text(document)
        packed = zstandard.compress(text)
        body, coding = self._random.choice(
            (
                (packed, "zstd"),
                (packed * 2, "zstd"),
                (self._mutated(packed), "zstd"),
                (packed[: len(packed) // 2], "zstd"),
                (zstandard.compress(self._mutated(text)), "zstd"),
                (text, "zstd"),
                (b"", "zstd"),
                (text, self._random.choice(_ODD_CODINGS)),
                (packed, self._random.choice(_ODD_CODINGS)),
                (zstandard.compress(packed), "zstd"),
                (b"\x28\xb5\x2f\xfd" + self._random.randbytes(20), "zstd"),
            )
        )
        if self._random.random() < 0.01:
            body = _BOMB
        return self._post(name, body, f"Content-Encoding: {coding}")

    def _with_an_odd_header(self, name: str, document: Any) -> Request:
        header = self._random.choice(_ODD_HEADERS)
        if self._random.random() < 0.2:
            header = "X: " + self._random.randbytes(10).decode("latin-1")
        return self._post(name, self._text(document), header)

    def _elsewhere(self, name: str, document: Any) -> Request:
        method, path = "POST", PREFIX + name
        if self._random.random() < 0.5:
            method = self._random.choice(_ODD_METHODS)
        else:
            path = self._random.choice(_ODD_PATHS)
        return self._request(method, path, self._text(document))

    def _unframed(self, name: str, document: Any) -> Request:
        """Where it ends is nowhere said, or said wrongly, or it is changed anywhere."""
        text = self._text(document)
        whole = self._post(name, text).raw
        head = f"POST {PREFIX}{name} HTTP/1.1\r\nHost: x\r\n".encode()
        chunked = head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)
        raw = self._random.choice(
            (
                self._mutated(whole),
                self._mutated(chunked),
                chunked,
                whole.replace(b"Content-Length: ", self._random.choice((b"Content-Length: 9", b"Content-Length: -"))),
                whole.replace(b"Content-Length:", b"Content-Length: 1\r\nContent-Length:"),
                whole.replace(b"\r\nContent-Length:", b"\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length:"),
                whole.replace(
                    b"HTTP/1.1", self._random.choice((b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"", b"HTTP/1.1x"))
                ),
                whole * 3,
                whole[: self._random.randrange(len(whole))],
                self._random.randbytes(200),
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + self._random.randbytes(200),  # a TLS hello
            )
        )
        return Request(raw, False, "POST", PREFIX + name)

    def _post(self, name: str, body: bytes, header: str = "Content-Type: application/json") -> Request:
        return self._request("POST", PREFIX + name, body, header)

    def _request(self, method: str, path: str, body: bytes, header: str = "Accept: application/json") -> Request:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode("latin-1", "replace")
        return Request(head + b"Content-Length: %d\r\n\r\n" % len(body) + body, True, method, path)
