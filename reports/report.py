"""Report: a study's records become a Document and the drawings of its pictures. Nothing is written here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

from experiments.store.schema import RunRecord
from reports.document import Block, Document, Heading, Paragraph, RunList, RunRow, Verdict, evidence
from reports.figures.drawing import Drawing
from reports.sections.answer import answer
from reports.sections.drawn import Drawn, Piece
from reports.sections.flow import flow
from reports.sections.learning import learning
from reports.sections.provenance import provenance, references, validity
from reports.sections.question import question as asked
from reports.sections.results import results
from reports.sections.tuning import tuning
from reports.table import StudyTable


@dataclass(frozen=True)
class Report:
    """A document and the drawings of its pictures."""

    document: Document
    drawings: tuple[Drawing, ...]


def build(study: StudyTable, question: str = "") -> Report:
    """The document of a study. question: in place of the study's own."""
    verdicts = answer(study)
    pieces: list[Piece] = [
        *asked(study, question or study.question),
        *verdicts,
        *results(study),
        *learning(study),
        *tuning(study),
        *flow(study),
        *validity(study),
        *provenance(study),
        *references(study),
    ]
    blocks = [piece.picture if isinstance(piece, Drawn) else piece for piece in pieces]
    document = Document(
        title=f"Report: {study.name}",
        summary=_summary(verdicts),
        study=study.name,
        made_by=f"trainlab {_version()}",
        blocks=(*blocks, *_appendix(study, blocks)),
    )
    return Report(document, tuple(piece.drawing for piece in pieces if isinstance(piece, Drawn)))


def _appendix(study: StudyTable, blocks: Sequence[Block]) -> list[Block]:
    said = "Each number in this report links to the set of runs that it rests on, and each set to its runs."
    return [
        Heading(level=2, text="The runs behind every number", anchor="evidence"),
        Paragraph(parts=(said,)),
        evidence(blocks),
        Heading(level=2, text="All runs", anchor="runs"),
        RunList(runs=tuple(map(_row, study.runs))),
    ]


def _row(record: RunRecord) -> RunRow:
    labels, objective = record.labels, record.final.get("objective", math.nan)
    return RunRow(
        run_id=record.run_id,
        name=record.file.name,
        task=labels.task,
        arm=labels.arm,
        phase=labels.phase,
        number=labels.number,
        seed=labels.seed,
        status=record.status,
        objective=objective if math.isfinite(objective) else None,
        digest=record.file.digest,
    )


def _summary(verdicts: Sequence[Block]) -> str:
    return "; ".join(f"{block.subject}: {block.verdict}" for block in verdicts if isinstance(block, Verdict))


def _version() -> str:
    try:
        return metadata.version("trainlab")
    except metadata.PackageNotFoundError:
        return "unknown"
