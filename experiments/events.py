"""Events as lines of JSON, from one process to another. Torch-free."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from experiments import progress
from experiments.progress import Event
from experiments.store.schema import Labels


def to_json(event: Event) -> str:
    """An event as one line of JSON; `from_json` reads it back.

    >>> print(to_json(progress.StudyPlanned("demo", due=3, done=0)))
    {"event": "StudyPlanned", "study": "demo", "due": 3, "done": 0}
    """
    return json.dumps({"event": type(event).__name__, **asdict(event)})


def from_json(line: str) -> Event:
    data: dict[str, Any] = json.loads(line)
    kind = getattr(progress, data.pop("event"))
    if "labels" in data:
        data["labels"] = Labels(**data["labels"])
    event: Event = kind(**data)
    return event
