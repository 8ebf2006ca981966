"""A time to stop at: as people say it, over midnight and where the clock is moved, and the wait for it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from algos.finding import InputError
from experiments import until
from experiments.stopping import Stop
from experiments.until import Until, parse, stopping_at

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, fold: int = 0) -> float:
    """Seconds since 1970 of a time in Berlin."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


@pytest.mark.parametrize(
    ("now", "given", "then", "said"),
    [
        ("2026-11-30T22:00", "07:00", "2026-12-01T07:00", "07:00 tomorrow"),
        ("2026-11-30T06:00", "07:00", "2026-11-30T07:00", "07:00 today"),
        ("2026-11-30T07:00", "07:00", "2026-12-01T07:00", "07:00 tomorrow"),
        ("2026-12-31T23:59:59", "0:00", "2027-01-01T00:00", "00:00 tomorrow"),
        ("2026-11-30T22:00", "22:00:30", "2026-11-30T22:00:30", "22:00:30 today"),
        ("2026-11-30T22:00", "2h30m", "2026-12-01T00:30", "00:30 tomorrow"),
        ("2026-11-30T22:00", "90m", "2026-11-30T23:30", "23:30 today"),
        ("2026-11-30T22:00", "1.5d", "2026-12-02T10:00", "10:00 on 2026-12-02"),
        ("2026-11-30T22:00", "2026-12-03T07:15", "2026-12-03T07:15", "07:15 on 2026-12-03"),
        ("2026-11-30T22:00", "2026-12-03 07:15", "2026-12-03T07:15", "07:15 on 2026-12-03"),
        ("2026-11-30T22:00", "2026-12-01T06:00+00:00", "2026-12-01T07:00", "07:00 tomorrow"),
        # the clock goes from 02:00 to 03:00: the night is an hour shorter, and 02:30 is half an hour after 02:00
        ("2026-03-28T22:00", "07:00", "2026-03-29T07:00", "07:00 tomorrow"),
        ("2026-03-28T22:00", "02:30", "2026-03-29T03:30", "03:30 tomorrow"),
        # the clock goes from 03:00 back to 02:00
        ("2026-10-24T22:00", "07:00", "2026-10-25T07:00", "07:00 tomorrow"),
    ],
)
def test_what_is_said_is_the_next_such_time(now: str, given: str, then: str, said: str) -> None:
    found = parse(given, at(now), BERLIN)
    assert (found.at, found.said) == (at(then), said)


def test_the_night_the_clock_moves_is_an_hour_shorter_or_longer() -> None:
    for day, hours in (("2026-03-28", 8), ("2026-10-24", 10), ("2026-11-30", 9)):
        now = at(f"{day}T22:00")
        assert parse("07:00", now, BERLIN).at - now == 3600 * hours


def test_an_hour_that_comes_twice_is_the_next_of_them() -> None:
    first, second = at("2026-10-25T02:30", fold=0), at("2026-10-25T02:30", fold=1)
    assert second - first == 3600
    assert parse("02:30", at("2026-10-25T01:00"), BERLIN).at == first
    assert parse("02:30", first + 600, BERLIN).at == second


@pytest.mark.parametrize("given", ["7pm", "", "  ", "25:00", "07:60", "soon", "2", "-2h", "2h 30m", "1e9d", "nan"])
def test_what_is_no_time_is_one_line(given: str) -> None:
    with pytest.raises(InputError, match=r"until: '.*' is no time to stop at; give a clock time \(07:00\)") as caught:
        parse(given, at("2026-11-30T22:00"), BERLIN)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", ["2026-11-30T21:00", "0m", "2020-01-01"])
def test_a_time_that_is_over_is_one_line(given: str) -> None:
    with pytest.raises(InputError, match=r"is over .*; give a later time"):
        parse(given, at("2026-11-30T22:00"), BERLIN)


def test_the_stop_is_asked_for_as_planned_when_the_clock_says_so() -> None:
    now, stop, told = [100.0], Stop(), []
    ticks = threading.Event()

    def clock() -> float:
        ticks.set()
        return now[0]

    with stopping_at(Until(5000.0, "07:00 today", "07:00"), stop, told.append, clock):
        assert ticks.wait(60)
        assert not stop.requested
        now[0] = 5000.0  # a laptop that slept: the clock jumps, and no hour was waited for
        deadline = time.monotonic() + 60
        while not stop.requested and time.monotonic() < deadline:
            time.sleep(0.01)
    assert (stop.requested, stop.planned, stop.reason) == (True, True, "until 07:00")
    assert told == ["it is 07:00: stopping after this update"]


def test_a_sweep_that_is_over_before_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(until, "LOOK_S", 600.0)
    stop, began = Stop(), time.monotonic()
    with stopping_at(parse("9h", zone=UTC), stop):
        pass
    assert time.monotonic() - began < 300
    assert not stop.requested


def test_ctrl_c_after_the_time_is_an_interruption() -> None:
    stop = Stop()
    stop.request("until 07:00", planned=True)
    assert stop.planned
    stop.request("Ctrl-C")
    assert (stop.planned, stop.reason) == (False, "until 07:00")


def test_an_outer_stop_stops_the_inner_one_and_not_the_other_way_round() -> None:
    outer = Stop()
    inner, other = Stop(outer), Stop(outer)
    inner.request("taken over")
    assert (inner.requested, other.requested, outer.requested) == (True, False, False)
    outer.request("until 07:00", planned=True)
    assert (other.requested, other.planned, other.reason) == (True, True, "until 07:00")
    assert inner.reason == "taken over"
