"""Ids of sessions and sampling sessions, which say all that is known of them. No I/O.

A sampling session is a model and nothing else, and its id carries it: so sessions take no memory, there is nothing to
expire, and a server that was started again serves the clients of the one before it.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re

_SESSION = re.compile(r"session-[0-9a-f]+-\d+")
_SAMPLING_SESSION = re.compile(r"sampling-[0-9a-f]+-\d+-([A-Za-z0-9_-]+)")
MAX_MODEL_BYTES = 512


class Sessions:
    """Gives out ids. They carry the boot, so that those of two boots differ."""

    def __init__(self, boot: str) -> None:
        self._boot = boot
        self._numbers = itertools.count()
        self._joins = itertools.count(1)

    def create(self) -> str:
        return f"session-{self._boot}-{next(self._numbers)}"

    def exists(self, session_id: str) -> bool:
        """Whether it is an id that this server or an earlier one may have given out."""
        return _SESSION.fullmatch(session_id) is not None

    def create_sampling(self, model: str) -> str:
        """A new sampling session. Raises ValueError for a name of more than MAX_MODEL_BYTES."""
        name = model.encode()
        if len(name) > MAX_MODEL_BYTES:
            raise ValueError(f"the name of a model has at most {MAX_MODEL_BYTES} bytes")
        encoded = base64.urlsafe_b64encode(name).decode().rstrip("=")
        return f"sampling-{self._boot}-{next(self._numbers)}-{encoded}"

    def model_of(self, sampling_session_id: str) -> str | None:
        """The model that a sampling session samples from; None when there is no such session."""
        match = _SAMPLING_SESSION.fullmatch(sampling_session_id)
        if match is None:
            return None
        try:
            return base64.urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None

    def began_before(self, sampling_session_id: str) -> bool:
        """Whether an earlier boot gave out this sampling session."""
        return not sampling_session_id.startswith(f"sampling-{self._boot}-")

    def join(self) -> int:
        """A number for one more client of a sampling session, different from all others."""
        return next(self._joins)
