"""A report against its evidence: the store is read again, the document made again, and both are compared.

Nothing is believed of what the document says of itself but its study, question and stated metric: every number is
computed again, whether or not the fingerprints of its runs are what they were."""

from __future__ import annotations

from pathlib import Path

from algos.finding import InputError
from experiments.store.sources import Source
from reports.document import Document
from reports.judged import Stated
from reports.report import build
from reports.table import StudyTable, read
from reports.verifying.answering import AWAY
from reports.verifying.changes import Changes, changes, names
from reports.verifying.prints import Difference, basis, without_series

_MOST_BYTES = 200_000_000
#: Of `read` and `build`: what is wrong with where we look, and not with the evidence.
_OF_THE_PLACE = ("unknown-study", "broken-run", AWAY)


def load(path: Path) -> Document:
    """A report's data from its file. InputError for anything else."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError("this is too large for a report", "give the report.json of a report", source=str(path))
        return Document.from_json(path.read_text(encoding="utf-8"))
    except InputError as error:
        raise error.at(source=str(path)) from None
    except FileNotFoundError:
        raise InputError("there is no such file", "give the path of a report.json", source=str(path)) from None
    except OSError as error:
        raise InputError(
            f"it cannot be read ({error.strerror})", "give the path of a report.json", source=str(path)
        ) from None
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, or other parts than a document has
        why = " ".join(str(error).split())[:160]
        said = f"this is not a report's data ({why})"
        raise InputError(said, "give the report.json that `trainlab report` wrote", source=str(path)) from None


def verify(document: Document, source: Source) -> Changes:
    """What is not as the document says. InputError where the source does not have the study at all."""
    told = document.basis
    stated = Stated(told.metric, told.mode) if told else Stated()
    question = told.question if told else ""
    try:
        return changes(document, again(read(source, document.study, stated), question))
    except InputError as error:
        if error.finding.rule in _OF_THE_PLACE:
            raise
        return Changes(0, runs=_came_and_went(document, source), names=names(document), broken=str(error))


def again(study: StudyTable, question: str = "") -> Document:
    """The document that a table gives, with what it rests on."""
    document = build(study, question).document
    return document if document.basis else document.model_copy(update={"basis": basis(study, question)})


def _came_and_went(document: Document, source: Source) -> Difference:
    """Which runs came, went and were edited, where no table of them can be made that would say more."""
    now = [record for record in source.runs() if record.labels.study == document.study]
    if document.basis is not None:
        return without_series(document.basis.runs, now)
    before, ids = names(document), {record.run_id for record in now}
    gone = tuple(run for run in before if run not in ids)
    return Difference(gone, tuple(record.run_id for record in now if record.run_id not in before), {})
