"""Everything that runs beside the load in one run: started in order, watched, stopped in reverse order."""

from __future__ import annotations

import urllib.request

from locustfiles.processes import Process, ProcessError, check_of, mistake_found
from locustfiles.settings import SWEEP_INTERVAL_S, EngineSettings, ServerSettings, Settings
from reports.run_folder import RunFolder
from reports.schema import InjectedFault
from reports.scrape import injected_faults

ENGINE = "mock engine"
SERVER = "server under test"
OBSERVER = "observer"

ADMIN_TIMEOUT_S = 30.0


def check_options(settings: Settings) -> None:
    """Let the programs that a run starts look beforehand at what only they understand. Raises ProcessError."""
    if settings.engine is None or settings.server is None:
        return
    checks = [(ENGINE, check_of("mockengine", _engine_args(settings.engine)))]
    if settings.server.extra_args:
        checks.append((SERVER, check_of("server_under_test", _server_args(settings.server, settings.engine))))
    for name, check in checks:
        if (mistake := mistake_found(check)) is not None:
            raise ProcessError(f"The {name} refuses its options: {mistake}")


class Stack:
    """Engine and server (unless the target is another's) and the observer of one run.

    Raises ProcessError when one of them does not start; those already started are stopped first.
    """

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        self._folder = folder
        self._processes: list[Process] = []
        self._engine = settings.engine
        try:
            if settings.engine is not None and settings.server is not None:
                self._start(ENGINE, "mockengine", _engine_args(settings.engine), "mockengine ready")
                args = _server_args(settings.server, settings.engine)
                if settings.hold_engine:
                    _tell(settings.engine, "hold")
                self._start(SERVER, "server_under_test", args, "server_under_test ready")
            if settings.observe != "none":
                self._start_observer(settings)
        except BaseException:  # also that of a start which is broken off
            self.stop()
            raise

    def _start_observer(self, settings: Settings) -> None:
        target = settings.observe if settings.observe != "auto" else f"pid:{self._named(SERVER).pid}"
        args = ["observe", "--target", target, "--out", str(self._folder.resources_csv)]
        args += ["--target-metrics", f"{settings.target_url}/metrics"]
        if settings.speaks_tinker:
            args += ["--canary", f"{settings.target_url}/api/v1/healthz"]
        if settings.engine is not None:
            args += ["--engine-pid", str(self._named(ENGINE).pid)]
        if settings.engine_metrics is not None:
            args += ["--engine-metrics", settings.engine_metrics]
        process = self._spawn(OBSERVER, "reports", args)
        # The first sample is the target at rest, so the load waits for it.
        process.wait_until(lambda _: bool(self._folder.resources()))

    def _start(self, name: str, module: str, args: list[str], ready_line: str) -> None:
        self._spawn(name, module, args).wait_until(lambda log: ready_line in log)

    def _spawn(self, name: str, module: str, args: list[str]) -> Process:
        process = Process(name, module, args, self._folder.logs / f"{name.replace(' ', '-')}.log")
        self._processes.append(process)
        return process

    def release_engine(self) -> None:
        """The engine, held from its start, answers what has waited and all that comes. Raises ProcessError."""
        if self._engine is not None:
            _tell(self._engine, "release")

    def injected_faults(self) -> list[InjectedFault] | None:
        """What the engine has injected so far; None when it is not ours, or has died."""
        return None if self._engine is None else injected_faults(f"{self._engine.url}/metrics")

    def _named(self, name: str) -> Process:
        return next(process for process in self._processes if process.name == name)

    def obituary(self) -> str | None:
        """A sentence about a process that has ended; None while all run."""
        ended = next((process for process in self._processes if process.exit_code() is not None), None)
        return None if ended is None else ended.obituary()

    def stop(self) -> None:
        """The observer first, so that its last sample still finds the others."""
        while self._processes:
            self._processes.pop().stop()


def _tell(engine: EngineSettings, what: str) -> None:
    """``hold`` its answers from now on, or ``release`` them. Raises ProcessError."""
    request = urllib.request.Request(f"{engine.url}/admin/{what}", method="POST")
    try:
        urllib.request.urlopen(request, timeout=ADMIN_TIMEOUT_S).close()
    except OSError as error:
        raise ProcessError(f"The engine could not be told to {what} its answers: {error}.") from error


def _engine_args(engine: EngineSettings) -> list[str]:
    return [
        *("--port", str(engine.port)),
        *("--slots", str(engine.slots)),
        *("--service-time", engine.service_time),
        *("--body-profile", engine.body_profile),
        *("--corpus-seed", str(engine.corpus_seed)),
        *engine.extra_args,
    ]


def _server_args(server: ServerSettings, engine: EngineSettings) -> list[str]:
    return [
        *("--port", str(server.port)),
        *("--engine", engine.url),
        *("--engine-connections", str(engine.slots)),
        *("--poll-hold", f"{server.poll_hold_s}s"),
        *("--retrieved-ttl", f"{server.retrieved_ttl_s}s"),
        *("--completed-ttl", f"{server.completed_ttl_s}s"),
        *("--sweep-interval", f"{SWEEP_INTERVAL_S}s"),
        *("--shutdown-deadline", "0s"),  # the load has drained before it stops the server
        *server.extra_args,
    ]
