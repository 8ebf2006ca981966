"""Threats, provenance and references: what limits the answer, where the runs were made, what they built on."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from experiments.store.module_files import versions
from experiments.store.queries import flatten
from reports.document import Block, Column, Findings, Heading, Paragraph, Parts, Table, Verbatim
from reports.sections import numbers
from reports.table import StudyTable
from reports.threats.checks import CHECKS, threats
from reports.threats.environment import packages
from reports.threats.unmade import unmade

#: Shown otherwise, or nobody's business outside: names of hosts, and folders.
_KEPT_BACK = ("packages", "host", "command", "environment")


def validity(study: StudyTable) -> list[Block]:
    empty = f"None of the {len(CHECKS)} checks found anything in the data that there is."
    said = f"Found in the data by {len(CHECKS)} checks; what is not listed was looked for and not found"
    lacking = unmade(study)
    said += f", except what could not be looked for, for lack of data: {'; '.join(lacking)}." if lacking else "."
    return [
        Heading(level=2, text="Threats to validity", anchor="threats"),
        Paragraph(parts=(said,)),
        Findings(findings=tuple(threats(study)), empty=empty),
    ]


def provenance(study: StudyTable) -> list[Block]:
    """Every fact of the environment with the runs it holds for."""
    values: dict[str, dict[str, list[str]]] = {}
    for record in study.runs:
        shown = {key: value for key, value in record.file.provenance.items() if key not in _KEPT_BACK}
        told: dict[str, Any] = {_words(key): value for key, value in flatten(shown).items()}
        told["packages"] = ", ".join(f"{name} {version}" for name, version in sorted(packages(record).items()))
        told[f"data of {record.labels.task} (sha256)"] = record.task.get("digest", "")
        told |= {f"file {version.name} (sha256)": version.sha256 for version in versions(record)}
        for key, value in told.items():
            text = _text(value)
            if text:
                values.setdefault(key, {}).setdefault(text, []).append(record.run_id)
    rows: list[tuple[Parts, ...]] = [
        ((key,), (text,), (numbers.value(len(ids), "", "count", ids, of=f"{key} = {text}"),))
        for key, found in values.items()
        for text, ids in found.items()
    ]
    blocks: list[Block] = [Heading(level=2, text="Provenance", anchor="provenance")]
    blocks.append(Paragraph(parts=(_dates(study),)))
    columns = (Column(head="What"), Column(head="Value"), Column(head="Runs", number=True))
    blocks.append(
        Table(caption=("Where, with what and on what the runs were made.",), columns=columns, rows=tuple(rows))
    )
    return blocks


def references(study: StudyTable) -> list[Block]:
    """BibTeX of every entry and task that a run used, each once."""
    cites: dict[str, None] = {}
    for record in study.runs:
        entries: dict[str, Any] = dict(record.file.facts.get("entries") or {})
        for cite in (record.task.get("cite", ""), *(entry.get("cite", "") for entry in entries.values())):
            cites.update(dict.fromkeys(_entries(str(cite))))
    if not cites:
        return []
    text = "\n\n".join(sorted(cites, key=_key))
    return [Heading(level=2, text="References", anchor="references"), Verbatim(text=text, language="bibtex")]


def _entries(cite: str) -> list[str]:
    """A BibTeX text, one string an entry."""
    return [" ".join(part.split()) for part in re.split(r"(?m)^(?=@)", cite.strip()) if part.strip()]


def _key(cite: str) -> str:
    match = re.search(r"\{\s*([^,]+)", cite)
    return match[1].lower() if match else cite


def _dates(study: StudyTable) -> str:
    told = [r for r in study.runs if dict(r.file.facts.get("source") or {}).get("times", "told") == "told"]
    starts = [r.started for r in told if r.started]
    ends = [r.ended for r in told if r.ended]
    if not starts or not ends:
        return f"{len(study.runs)} runs."
    return f"{len(study.runs)} runs, from {_day(min(starts))} to {_day(max(ends))} (UTC)."


def _day(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == "" or value == {} or value == []:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


#: What a run tells of the folder that it was started in, and of trainlab's own checkout.
_CODE = {"commit": "commit", "dirty": "uncommitted changes", "diff_sha256": "diff (sha256)"}


def _words(key: str) -> str:
    owner, _, last = key.rpartition(".")
    if owner in ("", "trainlab") and last in _CODE:
        return f"{owner or 'folder'}: {_CODE[last]}"
    return key.replace(".", ": ", 1).replace("_", " ")
