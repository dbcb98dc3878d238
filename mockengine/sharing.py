"""What several worker processes on one port make of one engine's figures, and what they cannot do together. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mockengine.fanout.inbox import Place
from mockengine.faults import FaultError, Rule
from mockengine.service_time import Barrier, ServiceTime, ServiceTimeError

_ENVIRONMENT = "MOCKENGINE_WORKER"
_OF_THE_WHOLE_PROCESS = ("restart", "port_closed")


def check_faults(rules: Iterable[Rule], workers: int) -> None:
    """Raises FaultError for a fault that one of several workers can't inject for all."""
    for rule in rules:
        if workers > 1 and rule.kind in _OF_THE_WHOLE_PROCESS:
            raise FaultError(f"The fault {rule.kind} needs an engine of one process; leave out --workers and --fanout.")


def check_service_time(service_time: ServiceTime, workers: int) -> None:
    """Raises ServiceTimeError for a barrier, which workers can't count together."""
    if workers > 1 and isinstance(service_time, Barrier):
        raise ServiceTimeError("A barrier needs an engine of one process; leave out --workers and --fanout.")


@dataclass(frozen=True)
class Worker:
    """One of ``of`` workers. directory: of the workers' own sockets. port: the one they share.

    place: in the pipeline that is behind them, if there is one.
    """

    index: int
    of: int
    directory: str
    port: int
    place: Place | None = None

    def share(self, total: int) -> int:
        """Its part of a total that is divided among all."""
        return total * (self.index + 1) // self.of - total * self.index // self.of

    @property
    def socket(self) -> str:
        """Where this worker alone can be spoken to."""
        return str(Path(self.directory) / f"{self.index}.sock")

    @property
    def rows_address(self) -> str:
        """Where the rows of its requests come to."""
        return f"ipc://{self.directory}/rows{self.index}"

    @property
    def all_sockets(self) -> list[str]:
        return [Worker(index, self.of, self.directory, self.port).socket for index in range(self.of)]

    def environment(self) -> dict[str, str]:
        """The environment of the process that is to be this worker."""
        return {**os.environ, _ENVIRONMENT: msgspec.json.encode(self).decode()}


def this_worker() -> Worker | None:
    """Which worker this process is; None for an engine of one process."""
    words = os.environ.get(_ENVIRONMENT)
    return None if words is None else msgspec.json.decode(words, type=Worker)
