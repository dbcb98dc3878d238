"""Which protocol ``--protocol`` means."""

from __future__ import annotations

import importlib
import os
import sys

from locustfiles.protocols.interface import Protocol
from locustfiles.protocols.operations import Operations
from locustfiles.protocols.respond_async import RespondAsync

SDK_PROTOCOLS = ("tinker", "tinker-sessions")  # what SdkClient speaks, and the server under test
PROTOCOLS: dict[str, type[Protocol]] = {"respond-async": RespondAsync, "operations": Operations}
NAMES = (*SDK_PROTOCOLS, *PROTOCOLS, "MODULE:CLASS")


class ProtocolError(Exception):
    """There is no such protocol; the text is a sentence for the user."""


def protocol_named(name: str) -> Protocol | None:
    """A protocol by its name, or by ``MODULE:CLASS`` of a module that can be imported from the current directory.

    None for what SdkClient speaks. Raises ProtocolError.
    """
    if name in SDK_PROTOCOLS:
        return None
    return PROTOCOLS[name]() if name in PROTOCOLS else _imported(name)


def _imported(name: str) -> Protocol:
    module_name, colon, class_name = name.partition(":")
    if not colon or not module_name or not class_name:
        raise ProtocolError(f"--protocol should be one of {', '.join(NAMES)}, found '{name}'.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module_name), class_name)
        protocol = found()
    except Exception as error:  # the module is the user's: it may fail in any way
        raise ProtocolError(f"--protocol {name} can't be used: {type(error).__name__}: {error}.") from error
    if not isinstance(protocol, Protocol):
        raise ProtocolError(
            f"--protocol {name} is no protocol: derive the class from locustfiles.protocols.interface.Protocol."
        )
    return protocol
