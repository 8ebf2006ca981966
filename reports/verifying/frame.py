"""Frame: what a document shows besides its numbers and sentences: its title, the order of its parts, the heads and
units of its tables, what its numbers are said to rest on, and its list of runs. Nobody's edit of these goes unseen
because the numbers are as they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.document import Document, Evidence, Findings, Heading, Paragraph, Picture, RunList, Table, evidence
from reports.verifying.places import sentences, text
from reports.verifying.prints import adds_up


@dataclass(frozen=True)
class Framed:
    """Something of the frame that is not what it was. place, old, new: in words; the place alone where it says all."""

    place: str
    old: str = ""
    new: str = ""


def reframed(old: Document, new: Document) -> Iterator[Framed]:
    """What of the frame differs between a document as it was written and as it is made again: of what both have. What
    came or went with its numbers and sentences is told as those."""
    if old.title != new.title:
        yield Framed("the title", old.title, new.title)
    if old.summary != new.summary:
        yield Framed("the summary in one line", old.summary, new.summary)
    before, after = dict(_shapes(old)), dict(_shapes(new))
    for place in before:
        if place in after and before[place] != after[place]:
            yield Framed(place, before[place], after[place])
    order = _order(_told(old), _told(new))
    if order:
        yield Framed(f"{order}: what stands there is in another order")


def unfounded(document: Document) -> Iterator[Framed]:
    """Where a document contradicts itself on what it rests on: its evidence is not that of its numbers, its list of
    runs not that of its basis, a fingerprint not that of its parts."""
    told = [block.model_dump(mode="json") for block in document.blocks if isinstance(block, Evidence)]
    true = evidence(document.blocks).model_dump(mode="json")
    if told and told != [true]:
        yield Framed("The runs behind every number: they are not those that the numbers name")
    if document.basis is None:
        return
    runs = [each.run_id for each in document.basis.runs]
    listed = [row.run_id for block in document.blocks if isinstance(block, RunList) for row in block.runs]
    for run in _once((Counter(listed) - Counter(runs)).elements()):
        yield Framed(f"All runs: run {run} is listed, and is none of those that the report was made from")
    for run in _once((Counter(runs) - Counter(listed)).elements()):
        yield Framed(f"All runs: run {run}, of those that the report was made from, is not listed")
    for each in document.basis.runs:
        if not adds_up(each):
            yield Framed(f"the fingerprints of run {each.run_id} do not add up")


def mislaid(old: Document, new: Document) -> Iterator[Framed]:
    """Pictures that are said to show other runs than they do: where nothing has happened to any run."""
    shows = [{b.name: b.runs for b in each.blocks if isinstance(b, Picture)} for each in (old, new)]
    for name, runs in shows[0].items():
        if name in shows[1] and shows[1][name] != runs:
            yield Framed(f"the runs of picture {name}", f"{len(runs)} runs", f"other {len(shows[1][name])} runs")


def _once(words: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _shapes(document: Document) -> Iterator[tuple[str, str]]:
    """(place, what is neither number nor sentence there)."""
    heading = "the beginning"
    for block in document.blocks:
        if isinstance(block, Heading):
            heading = block.text
        elif isinstance(block, Table):
            place = f"{heading}, {text(block.caption)}"
            yield from ((f"{place}, the unit of {each.head}", each.unit) for each in block.columns)
        elif isinstance(block, Paragraph):
            yield f"{heading}, the weight of “{text(block.parts)}”", block.role
        elif isinstance(block, Findings):
            yield from ((f"{heading}, the level of {each}", each.level) for each in block.findings)


def _told(document: Document) -> list[tuple[str, str]]:
    """(heading, text with its place) of everything that is read, in the order of reading."""
    found = []
    for sentence in sentences(document):
        place = ", ".join(sentence.words)
        found.append((sentence.words[0], f"{place}\0{text(sentence.parts)}"))
    return found


def _order(old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]) -> str:
    """The heading under which things that both have stand in another order; "" where there is none."""
    both = Counter(old) & Counter(new)
    kept = [[each for each in told if both[each] == 1] for told in (old, new)]
    return next((a[0] for a, b in zip(*kept) if a != b), "")
