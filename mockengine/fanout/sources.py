"""Which code ran, as hashes: two arms are only worth comparing when they differ in the splitter and in nothing else."""

from __future__ import annotations

import hashlib
import inspect

from mockengine.fanout import batches, delivery, detokenizer, slicing, sockets, splitting, timing, transport
from mockengine.fanout.splitting import SPLITTERS

_SHARED = (batches, delivery, detokenizer, slicing, sockets, splitting, timing, transport)


def splitter_sha256(name: str) -> str:
    """Of the source of the splitter's class."""
    return _sha256(inspect.getsource(type(SPLITTERS[name])))


def shared_sha256() -> str:
    """Of the sources that all splitters use."""
    return _sha256("".join(inspect.getsource(module) for module in _SHARED))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
