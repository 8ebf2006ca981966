"""Until: a time to stop at, as people say it, and the wait for it by the wall clock. Torch-free."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from algos.finding import InputError
from experiments.stopping import Stop

#: The clock is looked at so often: a laptop that slept past the time stops when it wakes.
LOOK_S = 1.0
_CURE = "give a clock time (07:00), how long (90m, 2h, 1h30m, 45s, 1d) or a date and time (2026-12-01T07:00)"
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_LONG = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_UNITS_S = (86400, 3600, 60, 1)


@dataclass(frozen=True)
class Until:
    """at: seconds since 1970. said: when that is, as the local clock shows it. given: as it was asked for."""

    at: float
    said: str
    given: str


def parse(text: str, now: float | None = None, zone: tzinfo | None = None) -> Until:
    """The time that a text means. now: seconds since 1970. zone: the local one by default.

    A clock time is the next such one, so one that is past today is tomorrow's; where the clock is set back it comes
    twice, and where it is set forward the missing hour is the one after it.

    >>> from datetime import timezone
    >>> parse("07:00", now=0.0, zone=timezone.utc).said, parse("00:00", now=0.0, zone=timezone.utc).said
    ('07:00 today', '00:00 tomorrow')
    >>> parse("1h30m", now=0.0, zone=timezone.utc).at
    5400.0
    """
    given, now = text.strip(), time.time() if now is None else now
    at = _from_clock(given, now, zone) or _from_length(given, now) or _from_date(given, zone)
    if at is None:
        raise InputError(f"'{text}' is no time to stop at", _CURE, place="until", rule="until")
    if at <= now:
        raise InputError(f"'{text}' is over ({_said(at, now, zone)})", "give a later time", place="until", rule="until")
    return Until(at, _said(at, now, zone), given)


def _from_clock(text: str, now: float, zone: tzinfo | None) -> float | None:
    if not (found := _CLOCK.fullmatch(text)):
        return None
    hour, minute, second = (int(part or 0) for part in found.groups())
    if hour > 23 or minute > 59 or second > 59:
        return None
    today = _local(now, zone)
    days = [today.replace(tzinfo=None, fold=0) + timedelta(days=days) for days in range(3)]
    wanted = [day.replace(hour=hour, minute=minute, second=second, microsecond=0) for day in days]
    return min(at for day in wanted for at in _moments(day, zone) if at > now)


def _moments(wall: datetime, zone: tzinfo | None) -> list[float]:
    """When the local clock shows a time: once, twice where it is set back, and where it is skipped what it would be."""
    both = [wall.replace(fold=fold, tzinfo=zone).timestamp() for fold in (0, 1)]
    shown = [at for at in both if _local(at, zone).replace(tzinfo=None, fold=0) == wall]
    return shown or both[:1]


def _from_length(text: str, now: float) -> float | None:
    found = _LONG.fullmatch(text)
    if not text or not found:
        return None
    try:
        seconds = sum(float(part or 0) * unit for part, unit in zip(found.groups(), _UNITS_S))
        datetime.fromtimestamp(now + seconds)
    except (OverflowError, ValueError, OSError):
        return None
    return now + seconds


def _from_date(text: str, zone: tzinfo | None) -> float | None:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()
    except (OverflowError, ValueError, OSError):
        return None


def _said(at: float, now: float, zone: tzinfo | None) -> str:
    local, today = _local(at, zone), _local(now, zone).date()
    clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    days = (local.date() - today).days
    return f"{clock} { ({0: 'today', 1: 'tomorrow'}.get(days) or f'on {local:%Y-%m-%d}') }"


def _local(at: float, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(at, zone)


@contextmanager
def stopping_at(
    until: Until | None,
    stop: Stop,
    tell: Callable[[str], None] | None = None,
    clock: Callable[[], float] = time.time,
) -> Iterator[None]:
    """Within it the stop is requested when the time has come, as planned. tell: told then, in another thread."""
    if until is None:
        yield
        return
    ended = threading.Event()

    def wait() -> None:
        while (left := until.at - clock()) > 0:
            if ended.wait(min(left, LOOK_S)):
                return
        if not stop.requested and tell is not None:
            tell(f"it is {until.said.split()[0]}: stopping after this update")
        stop.request(f"until {until.given}", planned=True)

    waiter = threading.Thread(target=wait, name="until", daemon=True)
    waiter.start()
    try:
        yield
    finally:
        ended.set()
        waiter.join()
