"""One server as a process of its own, and a client of it made of the standard library."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from server_under_test.proto import SampleResponse

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


class Client:
    """One server, spoken to over a new connection for each call."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def call(self, path: str, document: object = None, method: str = "POST", **headers: str) -> tuple[int, str, bytes]:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        body = document if isinstance(document, bytes) else json.dumps(document)
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, None if document is None else body, names)
            answer = connection.getresponse()
            content = answer.read()
        return answer.status, answer.getheader("Content-Type") or "", content

    def post(self, name: str, document: object, accept: str = JSON) -> tuple[int, Any]:
        status, content_type, body = self.call(f"/api/v1/{name}", document, Accept=accept)
        if PROTOBUF in content_type:
            return status, SampleResponse.FromString(body)
        return status, json.loads(body) if body else None

    def metrics(self) -> dict[str, float]:
        _, _, text = self.call("/metrics", method="GET")
        return {
            sample.name + "".join(sample.labels.get(label, "") for label in ("end", "reason", "scope")): sample.value
            for family in text_string_to_metric_families(text.decode())
            for sample in family.samples
        }

    def submit(self, **changes: Any) -> str:
        status, answer = self.post("asample", sample_request(**changes))
        assert status == 200, answer
        request_id: str = answer["request_id"]
        return request_id

    def retrieve(self, request_id: str, accept: str = PROTOBUF) -> tuple[int, Any]:
        return self.post("retrieve_future", {"request_id": request_id, "allow_metadata_only": True}, accept)


def sample_request(**changes: Any) -> dict[str, Any]:
    plain = {
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [5, 6]}]},
        "sampling_params": {"max_tokens": 3, "seed": 9},
        "base_model": "m",
    }
    return {**plain, **changes}


@contextmanager
def server(engine_url: str, *args: str, **environment: str) -> Iterator[Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "server_under_test", "--port", str(port), "--engine", engine_url, *args]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment or None
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"server_under_test ready on http://127.0.0.1:{port}\n"
        try:
            yield Client(process, port)
        finally:
            process.kill()
