"""Sessions and sampling sessions: which model a sampling session samples from. No I/O."""

from __future__ import annotations

import itertools


class Sessions:
    """Ids carry the boot, so that those of an earlier boot are not taken for ours."""

    def __init__(self, boot: str) -> None:
        self._boot = boot
        self._numbers = itertools.count()
        self._sessions: set[str] = set()
        self._models: dict[str, str] = {}
        self._joins = itertools.count(1)

    def create(self) -> str:
        session_id = f"session-{self._boot}-{next(self._numbers)}"
        self._sessions.add(session_id)
        return session_id

    def exists(self, session_id: str) -> bool:
        return session_id in self._sessions

    def create_sampling(self, session_id: str, model: str) -> str:
        sampling_session_id = f"{session_id}-sampler-{next(self._numbers)}"
        self._models[sampling_session_id] = model
        return sampling_session_id

    def model_of(self, sampling_session_id: str) -> str | None:
        """The model that a sampling session samples from; None when there is no such session."""
        return self._models.get(sampling_session_id)

    def join(self) -> int:
        """A number for one more client of a sampling session, different from all others."""
        return next(self._joins)
