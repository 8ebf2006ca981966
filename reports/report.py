"""Report: a study's records become a Document and the drawings of its pictures. Nothing is written here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.store.schema import RunRecord
from reports.document import Block, Document, Heading, Paragraph, RunList, RunRow, Verdict, evidence
from reports.figures.drawing import Drawing
from reports.figures.provenance import provenance as provenance_of
from reports.figures.provenance import version
from reports.sections.answer import answer
from reports.sections.benchmark import benchmark
from reports.sections.benchmark import summary as benchmark_summary
from reports.sections.checklist import checklist
from reports.sections.cost import cost
from reports.sections.drawn import Drawn, Piece
from reports.sections.failures import failures
from reports.sections.flow import flow
from reports.sections.learning import learning
from reports.sections.overall import overall
from reports.sections.provenance import provenance, references, validity
from reports.sections.question import question as asked
from reports.sections.results import results
from reports.sections.sensitivity import sensitivity
from reports.sections.summary import summary
from reports.sections.targets import targets
from reports.sections.tuning import tuning
from reports.table import StudyTable


@dataclass(frozen=True)
class Report:
    """A document and the drawings of its pictures."""

    document: Document
    drawings: tuple[Drawing, ...]


def build(study: StudyTable, question: str = "") -> Report:
    """The document of a study. question: in place of the study's own."""
    pieces = benchmark(study, question)
    pieces = [*pieces, *provenance(study), *references(study)] if pieces else _sections(study, question)
    blocks = [piece.picture if isinstance(piece, Drawn) else piece for piece in pieces]
    document = Document(
        title=f"Report: {study.name}",
        summary=benchmark_summary(study) or _summary(blocks),
        study=study.name,
        made_by=f"trainlab {version()}",
        blocks=(*blocks, *_appendix(study, blocks)),
    )
    made = provenance_of(study.name, study.runs)
    drawings = (
        replace(piece.drawing, alt=piece.picture.alt, provenance=made) for piece in pieces if isinstance(piece, Drawn)
    )
    return Report(document, tuple(drawings))


def _sections(study: StudyTable, question: str) -> list[Piece]:
    """In the order of reading."""
    verdicts = answer(study)
    return [
        *summary(study, verdicts),
        *asked(study, question or study.question),
        *verdicts,
        *results(study),
        *overall(study),
        *targets(study),
        *learning(study),
        *cost(study),
        *tuning(study),
        *sensitivity(study),
        *flow(study),
        *failures(study),
        *validity(study),
        *checklist(study),
        *provenance(study),
        *references(study),
    ]


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


def _summary(blocks: Sequence[Block]) -> str:
    return "; ".join(f"{block.subject}: {block.verdict}" for block in blocks if isinstance(block, Verdict))
