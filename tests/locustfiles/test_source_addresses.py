"""Which local addresses connections come from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.source_addresses import SourceAddressesError, parse_source_addresses, source_addresses


@given(st.integers(1, 200_000), st.integers(100, 60_000))
def test_here_there_are_as_few_addresses_as_have_the_ports(connections: int, ports: int) -> None:
    addresses = source_addresses([], "127.0.0.1", connections, ports)
    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith("127.0.") for address in addresses)
    usable = int(ports * 0.9)
    if not addresses:
        assert connections <= usable
    else:
        assert (len(addresses) - 1) * usable < connections <= len(addresses) * usable


@pytest.mark.parametrize("host", ["10.0.0.7", "target.example", "127.example"])
def test_elsewhere_they_have_to_be_given(host: str) -> None:
    assert source_addresses([], host, 90, 100) == []
    assert source_addresses([], host, 10_000, None) == []
    assert source_addresses(["10.0.0.8", "10.0.0.9"], host, 180, 100) == ["10.0.0.8", "10.0.0.9"]
    with pytest.raises(
        SourceAddressesError, match=r"Up to 91 connections .* the 90 of one address.*--source-addresses"
    ):
        source_addresses([], host, 91, 100)
    with pytest.raises(
        SourceAddressesError, match=r"Up to 181 connections .* the 90 of each of the 2 source addresses"
    ):
        source_addresses(["10.0.0.8", "10.0.0.9"], host, 181, 100)


def test_what_is_typed() -> None:
    assert parse_source_addresses("") == []
    assert parse_source_addresses("10.0.0.8, 10.0.0.9") == ["10.0.0.8", "10.0.0.9"]
    with pytest.raises(ValueError, match=r"eth0"):
        parse_source_addresses("10.0.0.8,eth0")
