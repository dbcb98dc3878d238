"""The ledger: every future of one worker process, and the one way in which it ended."""

from __future__ import annotations

import enum
from array import array

from reports.schema import FutureCounts


class End(enum.IntEnum):
    """A future's state; all but UNBORN and OUTSTANDING are ends, and an end is final."""

    UNBORN = 0
    OUTSTANDING = 1
    DELIVERED = 2
    FAILED = 3
    LOST = 4
    CANCELLED = 5
    ABANDONED = 6


def share(total: int, workers: int, index: int) -> int:
    """Worker ``index``'s part of ``total``, so that the parts of all workers add up to it exactly."""
    return total // workers + (index < total % workers)


class Ledger:
    """Counts ``size`` futures, numbered from 0; three bytes each, and eight or so for the id of an accepted one.

    A second end of the same future, and a server's id that stands for two futures, are counted as doubled.
    """

    def __init__(self, size: int) -> None:
        self._ends = bytearray(size)
        self._polls = array("H", bytes(2 * size))
        self._id_hashes: set[int] = set()
        self._submitted = 0
        self._accepted = 0
        self._by_end = [0] * len(End)
        self._doubled = 0
        self._foreign = 0
        self._verified = 0

    @property
    def size(self) -> int:
        return len(self._ends)

    @property
    def submitted(self) -> int:
        return self._submitted

    @property
    def accepted_submits(self) -> int:
        """Ids that the server gave; a future that is submitted anew gets another."""
        return self._accepted

    @property
    def outstanding(self) -> int:
        return self._by_end[End.OUTSTANDING]

    def begin(self) -> int:
        """The number of the next future, now outstanding. Raises IndexError when all have begun."""
        number = self._submitted
        self._ends[number] = End.OUTSTANDING
        self._by_end[End.OUTSTANDING] += 1
        self._submitted += 1
        return number

    def accepted(self, request_id: str) -> None:
        """The server gave a future this id."""
        # 64 bits of hash: with 10**6 futures, a collision has odds of 3 in 10**8.
        identity = hash(request_id)
        self._accepted += 1
        if identity in self._id_hashes:
            self._doubled += 1
        self._id_hashes.add(identity)

    def polled(self, number: int) -> bool:
        """Count a poll of future ``number``; whether it is a re-poll."""
        polls = self._polls[number]
        if polls < 0xFFFF:  # a hot loop of polls must not end the run with an overflow
            self._polls[number] = polls + 1
        return polls > 0

    def polls_of(self, number: int) -> int:
        """Up to 65,535."""
        return self._polls[number]

    def verified(self) -> None:
        self._verified += 1

    def foreign(self) -> None:
        self._foreign += 1

    def end(self, number: int, end: End) -> None:
        """Future ``number`` has ended. A second end does not replace the first."""
        if self._ends[number] != End.OUTSTANDING:
            self._doubled += 1
            return
        self._ends[number] = end
        self._by_end[End.OUTSTANDING] -= 1
        self._by_end[end] += 1

    def still_outstanding(self) -> list[int]:
        """The numbers of those that have not ended."""
        return [number for number in range(self._submitted) if self._ends[number] == End.OUTSTANDING]

    def counts(self) -> FutureCounts:
        return FutureCounts(
            submitted=self._submitted,
            delivered=self._by_end[End.DELIVERED],
            failed=self._by_end[End.FAILED],
            lost=self._by_end[End.LOST],
            cancelled=self._by_end[End.CANCELLED],
            abandoned=self._by_end[End.ABANDONED],
            doubled=self._doubled,
            foreign=self._foreign,
            verified=self._verified,
        )
