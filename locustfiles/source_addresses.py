"""Local addresses for connections to the target: several where one address's ports would run out.

Pure, but for the number of ports.

A connection is told from others by both its ends, so that an address has its ports anew for each port of a target.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Sequence
from pathlib import Path

# Of an address's ports: some are other programs', and one that was closed rests for a minute.
USABLE_SHARE = 0.9


class SourceAddressesError(Exception):
    """There are not enough ports; the text is a sentence."""


def ephemeral_ports() -> int | None:
    """Ports that connections from one address can have; None where the system does not say."""
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    except OSError:
        return None
    return int(high) - int(low) + 1


def parse_source_addresses(text: str) -> list[str]:
    """Addresses with commas between them. Raises ValueError."""
    return [str(ipaddress.ip_address(part.strip())) for part in text.split(",")] if text else []


def source_addresses(given: Sequence[str], target_host: str, connections: int, ports: int | None) -> list[str]:
    """Addresses to bind connections to, in turn; none to leave it to the system.

    given: those that the user wants used. ports: of each address; None when that is not known. Where the target is on
    this machine, all of 127.0.0.0/8 can be used without being asked for. Raises SourceAddressesError.
    """
    usable = None if ports is None else int(ports * USABLE_SHARE)
    if given or usable is None or connections <= usable:
        if given and usable is not None and connections > usable * len(given):
            raise SourceAddressesError(
                f"Up to {connections} connections need more local ports than the {usable} of each of the {len(given)} "
                "source addresses. Give more of them, lower --outstanding, or widen net.ipv4.ip_local_port_range."
            )
        return list(given)
    if not _is_loopback(target_host):
        raise SourceAddressesError(
            f"Up to {connections} connections need more local ports than the {usable} of one address. Give several "
            "addresses of this machine with --source-addresses, lower --outstanding, or widen "
            "net.ipv4.ip_local_port_range."
        )
    return [str(ipaddress.IPv4Address("127.0.0.1") + n) for n in range(math.ceil(connections / usable))]


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.IPv4Address(host).is_loopback
    except ValueError:  # a name
        return False
