"""The one error that this package raises for a user's trouble, and where foreign errors become it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec


class RunFolderError(Exception):
    """A run folder, or a file of one, cannot be made, read or written; the message is a sentence for the user."""


@contextmanager
def explained(failure: str) -> Iterator[None]:
    """Turn what the system or the decoder says within the block into a RunFolderError that begins with ``failure``."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"{failure}: {(error.strerror or str(error)).lower()}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{failure}: {error}.") from error
