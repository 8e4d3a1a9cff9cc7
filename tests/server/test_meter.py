"""What the server may have in hand at once."""

from __future__ import annotations

import pytest

from holdfast.errors import ServerBusy
from holdfast.server.limits import Limits
from holdfast.server.meter import Meter


def test_one_connection_too_many_is_refused_and_not_counted() -> None:
    meter = Meter(Limits(connections=2))
    meter.connect()
    meter.connect()
    with pytest.raises(ServerBusy, match="2 connections"):
        meter.connect()
    assert (meter.connections, meter.connected, meter.refused) == (2, 2, 1)


def test_a_connection_that_ends_makes_room_for_another() -> None:
    meter = Meter(Limits(connections=1))
    for _ in range(3):
        meter.connect()
        meter.disconnect()
    assert (meter.connections, meter.connected) == (0, 3)


def test_bytes_past_the_limit_are_refused_and_not_counted() -> None:
    meter = Meter(Limits(in_flight_bytes=100))
    with meter.holding(60):
        with pytest.raises(ServerBusy, match="60 bytes in hand"), meter.holding(41):
            pass
        assert meter.in_flight == 60
        with meter.holding(40):
            assert meter.in_flight == 100
    assert meter.in_flight == 0


def test_bytes_are_given_back_when_the_work_fails() -> None:
    meter = Meter(Limits())
    with pytest.raises(RuntimeError), meter.holding(10):
        raise RuntimeError
    assert meter.in_flight == 0
