"""An engine for someone's tests: a process of its own for the length of a ``with`` block."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

_READY = "mockengine ready on "
_PATIENCE_S = 30.0
_ASK_AGAIN_S = 0.02


class EngineError(Exception):
    """The engine did not start, or refused what it was told; the text is its own sentence."""


class RunningEngine:
    """A running engine. url: where it listens. pid: of its process, or of the parent of its workers."""

    def __init__(self, process: subprocess.Popen[str], url: str, errors: IO[str]) -> None:
        self.url = url
        self.pid = process.pid
        self._process = process
        self._errors = errors

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def has_ended(self) -> bool:
        """Whether the process is no more."""
        return self._process.poll() is not None

    def metrics(self) -> dict[str, float]:
        """Sample name -> value, summed over labels."""
        values: dict[str, float] = {}
        for line in self._ask("GET", "/metrics").splitlines():
            if not line.startswith("#"):
                name, value = re.split(r"[{ ]", line, maxsplit=1)[0], line.rpartition(" ")[2]
                values[name] = values.get(name, 0.0) + float(value)
        return values

    def set_faults(self, faults: Sequence[Mapping[str, object]]) -> None:
        """Put these faults in force, such as ``{"kind": "http_500", "first": 3}``, in place of all others.

        Raises EngineError for what is no fault.
        """
        self._ask("POST", "/admin/faults", {"faults": list(faults)})

    def injected(self) -> dict[str, int]:
        """How many faults of each kind have happened."""
        counts: dict[str, int] = json.loads(self._ask("GET", "/admin/faults"))["injected"]
        return counts

    def set_service_time(self, service_time: str) -> None:
        """Requests that get a slot from now on draw from this model. Raises EngineError."""
        self._ask("POST", "/admin/pace", {"service_time": service_time})

    def hold(self) -> None:
        """Keep requests that are done until ``release``."""
        self._ask("POST", "/admin/hold")

    def release(self) -> None:
        """Let go all that are held, in one burst."""
        self._ask("POST", "/admin/release")

    def held(self) -> int:
        """How many requests are done and held."""
        count: int = json.loads(self._ask("GET", "/admin/pace"))["waiting_at_the_gate"]
        return count

    def stop(self) -> str:
        """End it as SIGTERM does; what it said at its end."""
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.seek(0)
        return self._errors.read()

    def _ask(self, method: str, path: str, document: object = None) -> str:
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.url + path, body, method=method)
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
                    text: str = answer.read().decode()
                    return text
            except urllib.error.HTTPError as error:
                with error:
                    raise EngineError(json.loads(error.read())["error"]) from None
            except urllib.error.URLError:  # a fault may have closed its port, for a while
                if time.monotonic() > deadline_s or self._process.poll() is not None:
                    raise
                time.sleep(_ASK_AGAIN_S)


@contextmanager
def running(**options: Any) -> Iterator[RunningEngine]:
    """Run ``python -m mockengine`` with these options while the block lasts.

    Options are those of the command line with underscores, as in ``running(slots=4, service_time="fixed:0s",
    fault=["http_500:every=10"])``. Any free port is taken unless one is given. Raises EngineError when it does not
    start.
    """
    command = [sys.executable, "-m", "mockengine", *_arguments({"port": 0, **options})]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            if not ready.startswith(_READY):
                process.wait(_PATIENCE_S)
                errors.seek(0)
                raise EngineError(errors.read().strip())
            engine = RunningEngine(process, ready.removeprefix(_READY).strip(), errors)
            yield engine
            engine.stop()
        finally:
            process.kill()


def _arguments(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if name == "fault":
            for fault in [value] if isinstance(value, str) else value:
                yield from (option, fault)
        else:
            yield from (option, *map(str, value if isinstance(value, list | tuple) else [value]))
