"""The summary: the answer in a sentence a task, and the cautions that weigh most."""

from __future__ import annotations

import math
from collections.abc import Sequence

from algos.finding import Finding
from reports.clocks import Reading, agree, readings, stopped
from reports.comparison import ALPHA, MINIMUM_SEEDS, Pair
from reports.document import Block, Findings, Heading, Paragraph, Part, Parts, Term, Verdict
from reports.judged import TaskFacts
from reports.sections import claims, numbers
from reports.sections.numbers import About
from reports.sections.overall import overall_sentence
from reports.statistics.multiple import holm
from reports.table import StudyTable
from reports.threats.checks import threats

#: So many cautions stand at the top; all of them stand under Threats.
WORST = 3
#: More tasks than this are not told one by one.
_TASKS = 4


def summary(study: StudyTable, verdicts: Sequence[Block]) -> list[Block]:
    """verdicts: the answer's blocks, for what stands in one word there."""
    blocks: list[Block] = [Heading(level=2, text="Summary", anchor="summary")]
    together = overall_sentence(study)
    if together:
        blocks.append(Paragraph(parts=together, role="lead"))
    tasks = list(study.tasks.values())
    for task in tasks[:_TASKS]:
        role = "text" if together else "lead"
        blocks.append(Paragraph(parts=_sentence(study, task), role=role))  # type: ignore[arg-type]
    if len(tasks) > _TASKS:
        blocks.append(Paragraph(parts=(_counted(verdicts, len(tasks) - _TASKS),)))
    chance = _by_chance(study)
    if chance:
        blocks.append(Paragraph(parts=(chance,)))
    found = threats(study)
    weighty = [finding for finding in found if finding.level in ("error", "caution")]
    if weighty:
        shown = _first(weighty)
        more = f" (all {len(found)} threats stand under Threats to validity)" if len(found) > len(shown) else ""
        blocks.append(Paragraph(parts=(f"What weighs most against believing this{more}:",)))
        blocks.append(Findings(findings=tuple(shown)))
    else:
        blocks.append(Paragraph(parts=("No check of validity found anything that could change the answer.",)))
    return blocks


def _first(findings: Sequence[Finding]) -> list[Finding]:
    """The worst, one of a kind."""
    kinds: dict[str, Finding] = {}
    for finding in findings:
        kinds.setdefault(finding.rule, finding)
    return list(kinds.values())[:WORST]


def _sentence(study: StudyTable, task: TaskFacts) -> Parts:
    """What a task shows, short."""
    read, cells = readings(study, task.name), study.of(task.name)
    first, on = read[0], (f"On {task.name} ",)
    if not any(cell.ended for cell in cells):
        return (*on, "nothing can be told yet: no final run has an outcome.")
    if stopped(cells) or first.lacking:
        return (*on, "it cannot be told which arm is better; the answer says why.")
    if len(first.ranking) < 2:
        return (*on, "there is one arm with outcomes, and nothing to compare it with.")
    if not agree(read):
        return (*on, "there is no single answer, it depends on the clock: ", *claims.by_clock(read), ".")
    pairs = claims.led(first)
    wins = [pair for pair in pairs if pair.ruling == "better"]
    rest = [pair for pair in pairs if pair.ruling != "better"]
    if not wins:
        few = all(pair.ruling == "too few seeds" for pair in pairs)
        why: Parts = (": too few seeds. ",) if few else (". ",)
        leads = (*claims.lead(first), ".")
        return (*on, "no arm is shown to be better than all others", *why, *leads, *(() if few else _few(first, rest)))
    parts: list[Part] = [*on, Term(term=first.ranking[0]), " is better than ", *numbers.names(p.second for p in wins)]
    nearest = next((pair for pair in wins if pair.estimate is not None), None)
    if nearest is not None:
        about = About.of(task, first)
        over: Parts = () if len(wins) == 1 else ("over ", Term(term=nearest.second), " ")
        way = "higher" if task.mode == "max" else "lower"
        split = task.split if first.budget is None else "validation"
        parts += [": ", *over, f"{split} {task.words} is {way} by ", numbers.difference(about, nearest)]
    tested = [pair.second for pair in rest if pair.ruling != "too few seeds"]
    if tested:
        parts += [". It is not shown to be better than ", *numbers.names(tested)]
    machine: Parts = (" ", *claims.doubtful(first)) if first.doubts else ()
    return (*parts, ".", *machine, *_few(first, rest))


def _few(reading: Reading, rest: Sequence[Pair]) -> Parts:
    """The arms of which nothing can be told for want of seeds, with what they have."""
    few = [pair for pair in rest if pair.ruling == "too few seeds"]
    arms = [pair.second for pair in few]
    if not few:
        return ()
    if reading.outcomes[reading.ranking[0]].n < MINIMUM_SEEDS:
        arms = [reading.ranking[0], *arms]
    told: list[Parts] = [(Term(term=arm), f" ({reading.outcomes[arm].n})") for arm in arms]
    return (" Too few seeds to tell: ", *numbers.joined(told), ".")


def _counted(verdicts: Sequence[Block], more: int) -> str:
    counts: dict[str, int] = {}
    for block in verdicts:
        if isinstance(block, Verdict):
            counts[block.verdict] = counts.get(block.verdict, 0) + 1
    told = ", ".join(f"{word}: {n}" for word, n in counts.items())
    return f"{more} more tasks stand under Answer; of all claims, {told}."


def _by_chance(study: StudyTable) -> str:
    """On how many tasks chance alone would show a difference, beside on how many there is one; "" where there is none,
    or one task alone was tested. The p-values of a task are one family, on all clocks, and tasks are not corrected
    for each other."""
    families = [[pair for reading in readings(study, name) for pair in reading.pairs] for name in study.tasks]
    tested = [pairs for pairs in families if any(pair.comparisons for pair in pairs)]
    shown = sum(any(pair.shown for pair in pairs) for pairs in tested)
    if len(tested) < 2 or not shown:
        return ""
    return (
        f"Some arm is shown to differ from another on {shown} of {len(tested)} tasks. The correction for many "
        f"comparisons is within each task: with all arms alike, chance alone would show that on up to "
        f"{ALPHA * len(tested):.3g} of {len(tested)} tasks on average ({100 * ALPHA:g} % on each). Corrected over all "
        f"tasks together, it is shown on {_over_all(tested) or 'none'}."
    )


def _over_all(families: Sequence[Sequence[Pair]]) -> int:
    """On how many tasks a pair is shown where the comparisons of all tasks are one family."""
    pairs = [(place, pair) for place, pairs in enumerate(families) for pair in pairs if not math.isnan(pair.p)]
    adjusted = holm([pair.p for _, pair in pairs])
    return len({place for (place, pair), p in zip(pairs, adjusted) if p <= ALPHA and pair.lead})
