"""The pipeline's processes, started and ended together."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import zmq

from mockengine.fanout.batches import Message, Shutdown
from mockengine.fanout.detokenizer import MAX_STATES
from mockengine.fanout.faults import other_transport
from mockengine.fanout.sockets import Sockets
from mockengine.fanout.stages import Account, Common, DetokenizerStage, HttpWorker, Router, run_stage
from mockengine.fanout.transport import TransportName, transport_named

_ENDS_WITHIN_S = 30.0
_POLL_MS = 20


StageMaker = Callable[..., object]  # is given a Common


class PipelineError(Exception):
    """A process failed or does not answer; the text is a sentence."""


class Pipeline:
    """A ``with`` block in which the processes run; this one is the scheduler, or starts one, and sends to ``entry``.

    detokenizers: how many; with more than one there is a router. workers: how many HTTP workers to start, or the
    addresses of those that are there. scheduler: of a process that is to be it, and its address. Must be made in the
    main thread, whose SIGQUIT handler it replaces meanwhile. fault: one of ``faults``.
    """

    def __init__(
        self,
        *,
        transport: TransportName,
        splitter: str,
        detokenizers: int = 1,
        workers: int | Sequence[str] = 4,
        max_states: int = MAX_STATES,
        scheduler: tuple[str, StageMaker] | None = None,
        is_traced: bool = False,
        fault: str | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fanout-")
        self._context = multiprocessing.get_context("spawn")
        self._sockets = Sockets()
        self._transport = transport_named(transport)
        self._splitter = splitter
        self._processes: dict[str, tuple[str, multiprocessing.process.BaseProcess, Connection]] = {}
        self._scheduler, self._is_traced, self._fault = scheduler, is_traced, fault
        self._detokenizers, self._max_states = detokenizers, max_states
        self._own_workers = workers if isinstance(workers, int) else 0
        self.entry = self.address("entry")
        self.observer = self.address("observer")
        self.workers = (
            [self.address(f"worker{n}") for n in range(workers)] if isinstance(workers, int) else list(workers)
        )
        self.is_failed = False

    def address(self, name: str) -> str:
        """An address in the folder of this pipeline."""
        return f"ipc://{Path(self._folder.name, name)}"

    def __enter__(self) -> Self:
        self._previous = signal.signal(signal.SIGQUIT, self._note_failure)
        self._inbox = self._sockets.receiver(self.observer)
        for number, address in enumerate(self.workers[: self._own_workers]):
            self._start(f"worker {number}", address, partial(_http_worker, observer=self.observer))
        if self._scheduler is not None:
            address, make_scheduler = self._scheduler
            self._start("scheduler", address, partial(make_scheduler, entry=self.entry))
        detokenizers = [self.address(f"detokenizer{n}") for n in range(self._detokenizers)]
        if len(detokenizers) > 1:
            self._start("router", self.entry, partial(Router, detokenizers=detokenizers))
        else:
            detokenizers = [self.entry]
        only_worker = self.workers[0] if len(self.workers) == 1 else None
        make = partial(DetokenizerStage, only_worker=only_worker, max_states=self._max_states)
        for number, address in enumerate(detokenizers):
            self._start(f"detokenizer {number}", address, make)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for _, process, _ in self._processes.values():
            process.kill()
            process.join()
        self._sockets.__exit__(kind, error, at)
        self._folder.cleanup()
        signal.signal(signal.SIGQUIT, self._previous)

    def send(self, address: str, message: Message) -> None:
        self._sockets.send(address, self._transport.encode(message))

    def receive(self, within_s: float = _ENDS_WITHIN_S) -> Message:
        """What an HTTP worker tells. Raises PipelineError when a process failed, or nothing comes in time."""
        deadline = time.monotonic() + within_s
        while not self._inbox.poll(_POLL_MS, zmq.POLLIN):
            if self.is_failed:
                raise PipelineError("A process of the pipeline failed; what it printed says why.")
            if time.monotonic() > deadline:
                raise PipelineError(f"The HTTP workers told nothing for {within_s:.0f} s; the pipeline has stopped.")
        return self._transport.decode(self._inbox.recv())

    def shut_down(self) -> list[Account]:
        """End all processes in the order in which data passes them, and give their accounts.

        Rows that an HTTP worker has not yet received may be lost: wait for what is expected first. Raises
        PipelineError.
        """
        self.send(self.entry if self._scheduler is None else self._scheduler[0], Shutdown())
        names = [name for name in self._processes if not name.startswith("worker")]
        accounts = [self._account(name) for name in names]
        for name, (address, _, _) in self._processes.items():
            if name.startswith("worker"):
                self.send(address, Shutdown())
                accounts.append(self._account(name))
        return accounts

    def exit_code(self, name: str) -> int | None:
        """Of a process that has ended, which is waited for."""
        process = self._processes[name][1]
        process.join(_ENDS_WITHIN_S)
        return process.exitcode

    def dead(self) -> str | None:
        """The name of a process that has ended by itself."""
        return next((name for name, (_, process, _) in self._processes.items() if not process.is_alive()), None)

    def _account(self, name: str) -> Account:
        _, process, connection = self._processes[name]
        try:
            if connection.poll(_ENDS_WITHIN_S):
                account: Account = connection.recv()
                process.join()
                return account
        except EOFError:
            pass
        raise PipelineError(f"The {name} left no account; what it printed says why.")

    def _start(self, name: str, address: str, make: StageMaker) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        speaks_other = self._fault == "other_transport" and name.startswith("detokenizer")
        common = Common(
            name=name,
            address=address,
            transport=other_transport(self._transport.name) if speaks_other else self._transport.name,
            splitter=self._splitter,
            account=theirs,
            fault=self._fault,
            is_traced=self._is_traced,
        )
        process = self._context.Process(target=run_stage, args=(common, make), name=name)
        process.start()
        theirs.close()
        self._processes[name] = (address, process, ours)

    def _note_failure(self, signum: int, frame: FrameType | None) -> None:
        self.is_failed = True


def _http_worker(common: Common, observer: str) -> HttpWorker:
    return HttpWorker(observer)
