"""Claims: the sentences of one claim, that one arm is better than another on one clock; with its uncertainty, or why
nothing is shown."""

from __future__ import annotations

from collections.abc import Sequence

from reports.clocks import NAMES, SAME, Reading, everybody, opposed
from reports.comparison import ALPHA, MINIMUM_SEEDS, Pair
from reports.document import Part, Parts, Term
from reports.judged import TaskFacts
from reports.sections import numbers
from reports.sections.numbers import About

#: So many pairs are spelt out in a verdict, nearest rank first; the table of pairs has them all.
SPELT = 3


def led(reading: Reading) -> list[Pair]:
    """The leader's pairs, in order of rank, seen from it."""
    best = reading.ranking[0]
    pairs = {frozenset((pair.first, pair.second)): pair for pair in reading.pairs}
    found = [pairs.get(frozenset((best, other))) for other in reading.ranking[1:]]
    return [pair.seen_from(best) for pair in found if pair is not None]


def sentence(task: TaskFacts, reading: Reading, brief: bool = False) -> Parts:
    """What one clock shows of the arm that leads on it, after a colon. brief: without how each interval was made, which
    a sentence before said."""
    mine = led(reading)
    wins = [pair for pair in mine if pair.ruling == "better"]
    rest = [pair for pair in mine if pair.ruling != "better"]
    parts: Parts = won(task, reading, wins, brief) if wins else ()
    if rest and not wins:
        parts = ("no arm is shown to be best: ", Term(term=reading.ranking[0]), " leads, but ")
    return (*parts, *left_open(task, reading, rest, "Against " if wins else "against ", brief))


def won(task: TaskFacts, reading: Reading, wins: Sequence[Pair], brief: bool = False) -> Parts:
    """The arms that the leader is better than, and by how much."""
    parts: list[Part] = [Term(term=wins[0].first), " is better than ", *numbers.names(p.second for p in wins), ": "]
    measured = next((pair for pair in wins if pair.estimate is not None), None)
    parts += numbers.joined([_margin(task, reading, pair, pair is measured, brief) for pair in wins[:SPELT]], last="; ")
    return (*parts, _further(wins))


def left_open(task: TaskFacts, reading: Reading, rest: Sequence[Pair], opening: str, brief: bool = False) -> Parts:
    """The arms that it is not shown to be better than, and why."""
    parts: list[Part] = []
    for index, pair in enumerate(rest[:SPELT]):
        start = opening if index == 0 else "; against "
        parts += [start, Term(term=pair.second), " ", *_open(task, reading, pair, brief)]
    return (*parts, _further(rest)) if rest else ()


def _further(pairs: Sequence[Pair]) -> str:
    """The end of a sentence that spells out some of the pairs."""
    more = len(pairs) - SPELT
    return f"; {more} more in the table of pairs. " if more > 0 else ". "


def _margin(task: TaskFacts, reading: Reading, pair: Pair, first: bool, brief: bool) -> Parts:
    """By how much the pair's first is better."""
    about = About.of(task, reading)
    if pair.estimate is None:
        return (*_by_rank(about, pair, reading), ", ", numbers.p_value(about, pair))
    what = f"{_words(task, reading)} is {_way(task)} by " if first else "by "
    against: Parts = () if first and len(reading.pairs) == 1 else (" against ", Term(term=pair.second))
    return (
        what,
        numbers.difference(about, pair),
        *against,
        " (",
        *(() if brief else (*_how(about, pair), ", ")),
        numbers.p_value(about, pair),
        ")",
    )


def _open(task: TaskFacts, reading: Reading, pair: Pair, brief: bool) -> Parts:
    """Why nothing is shown of a pair."""
    about = About.of(task, reading)
    if pair.ruling == "too few seeds":
        return (f"no test is made with fewer than {MINIMUM_SEEDS} seeds", *_few(reading, pair))
    if pair.ruling == "no spread":
        return ("the differences have no spread at all, so no interval can be given",)
    if pair.ruling == "cannot reach":
        among = f", among {pair.comparisons} comparisons" if pair.comparisons > 1 else ""
        return (
            f"the test cannot reach significance with n = {pair.n} (its smallest possible p is ",
            numbers.smallest_p(about, pair),
            f"{among}; it takes at least ",
            numbers.least(about, pair),
            " seeds of each): ",
            *_by_rank(about, pair, reading),
        )
    if pair.ruling == "worse":
        measured: Parts = (
            () if pair.estimate is None else (" by ", numbers.difference(about, pair.seen_from(pair.second)))
        )
        return ("it is worse", *measured)
    if pair.estimate is None:
        return ("no difference is shown: ", *_by_rank(about, pair, reading), ", ", numbers.p_value(about, pair))
    more = numbers.more_seeds(about, pair)
    return (
        f"no difference is shown: {_words(task, reading)} is {_way(task)} by ",
        numbers.difference(about, pair),
        " (",
        *(() if brief else (*_how(about, pair), ", ")),
        numbers.p_value(about, pair),
        ")",
        f", which is not enough among {pair.comparisons} comparisons" if pair.p <= ALPHA else "",
        f"; if the difference is as large as that, it needs {'' if more.value is None else 'about '}",
        more,
        " more seeds",
    )


def _few(reading: Reading, pair: Pair) -> Parts:
    """How many the other arm has where it is the one that lacks them, and whether those look better all the same."""
    n = reading.outcomes[pair.second].n
    if n >= MINIMUM_SEEDS or reading.outcomes[pair.first].n < MINIMUM_SEEDS:
        return ()
    looks = f", though so far its {'run looks' if n == 1 else 'runs look'} better" if pair.lead < 0 else ""
    return (f" (it has {n}{looks})",)


def _by_rank(about: About, pair: Pair, reading: Reading) -> Parts:
    told = []
    for arm, n in zip((pair.first, pair.second), pair.diverged):
        outcomes = reading.outcomes[arm]
        if n:
            where = {"task": about.task.name, "arm": arm}
            lost = numbers.value(n, "", "count", outcomes.run_ids, of="diverged", **where)
            told.append((lost, f" of {outcomes.n} runs of ", Term(term=arm), " diverged"))
    return (
        *numbers.joined(told),
        "; with those as the worst, the chance that a run of ",
        Term(term=pair.first),
        " is the better one is ",
        numbers.chance(about, pair),
    )


def _how(about: About, pair: Pair) -> Parts:
    seeds = numbers.value(pair.n, "", "count", pair.runs, of="seeds compared", **about.pair(pair))
    if pair.test != "paired t":
        return ("95 % t interval, at least ", seeds, " seeds each, not paired")
    left = f", {pair.unmatched} runs of other seeds left out" if pair.unmatched else ""
    return ("95 % t interval, ", seeds, f" seeds paired{left}")


def same_on(task: TaskFacts, read: list[Reading]) -> Parts:
    """How the other clocks bear out what the first one shows."""
    first = read[0]
    parts: list[Part] = []
    same = [r for r in read[1:] if not r.lacking and r.budget is None]
    if same and first.budget is None:
        clocks = " and ".join(NAMES[r.clock][1] for r in same)
        parts.append(f"{everybody(first)} used the same {clocks}, to within {100 * SAME:g} %. ")
    for reading in (r for r in read[1:] if not r.lacking and r.budget is not None):
        parts += [*_compared_at(task, reading), *_borne_out(task, first, reading)]
    return (*parts, *(part for r in read[1:] if r.lacking for part in _lacking(r)))


def _borne_out(task: TaskFacts, first: Reading, reading: Reading) -> Parts:
    """What a cut says of the arm that leads at the end."""
    best = first.ranking[0]
    ends, cut = _of(first, best), _of(reading, best)
    if reading.ranking[:1] == first.ranking[:1] and ends == cut:
        return (", the same is found. ",)
    if opposed(first, reading, by_split=True):
        said = ", the opposite is found; validation says so at the end too, so the split is the cause, not the clock: "
        return (said, *sentence(task, reading, brief=True))
    lost = [not cut.get(other) for other, ruling in ends.items() if ruling]
    told = ", this is not shown: " if lost and all(lost) else ", not all of this is shown: " if any(lost) else ": "
    return (told, *sentence(task, reading, brief=True))


def _of(reading: Reading, arm: str) -> dict[str, str]:
    """What a reading shows of `arm` against each other arm: better, worse or ""."""
    mine = [pair.seen_from(arm) for pair in reading.pairs if arm in (pair.first, pair.second)]
    return {pair.second: pair.ruling if pair.shown else "" for pair in mine}


def each_clock(task: TaskFacts, read: list[Reading]) -> Parts:
    """One sentence a clock; clocks on which arms spent the same share it."""
    parts: list[Part] = ["No single answer. "]
    ends = [r for r in read if not r.lacking and r.budget is None]
    if ends:
        parts += [f"Per {' and per '.join(NAMES[r.clock][0] for r in ends)}: ", *sentence(task, ends[0])]
    for reading in read:
        if reading.lacking:
            parts += _lacking(reading)
        elif reading.budget is not None:
            brief = bool(ends) or reading is not read[0]
            parts += [*_compared_at(task, reading), ": ", *sentence(task, reading, brief)]
    return tuple(parts)


def cut_first(task: TaskFacts, first: Reading) -> Parts:
    """Where the first clock compares arms, if not at their ends."""
    if first.budget is None:
        return ()
    said, *rest = _compared_at(task, first)
    return (f"Budgets were not equal. {said}", *rest, ": ")


def _compared_at(task: TaskFacts, reading: Reading) -> Parts:
    about = About.of(task, reading)
    return (f"Per {NAMES[reading.clock][0]}, compared at ", numbers.cut(about, reading, NAMES[reading.clock][1]))


def per(reading: Reading) -> str:
    """A clock in a sentence: "per update"."""
    return f"per {NAMES[reading.clock][0]}"


def _lacking(reading: Reading) -> Parts:
    return (f"Per {NAMES[reading.clock][0]} it cannot be told: {reading.lacking}. ",)


def alone(task: TaskFacts, reading: Reading) -> Parts:
    """One arm, described and not compared."""
    arm = reading.ranking[0]
    outcomes = reading.outcomes[arm]
    if outcomes.diverged:
        said = f" alone has outcomes, with nothing to compare it with; {outcomes.diverged} of {outcomes.n} diverged."
        return (Term(term=arm), said)
    metric = About.of(task, reading).metric
    return (
        Term(term=arm),
        f" alone has outcomes, so there is nothing to compare it with. Its {task.split} {task.words} is ",
        numbers.mean(task, arm, outcomes, metric, interval=outcomes.n >= MINIMUM_SEEDS),
        f" over {outcomes.n} {'seed' if outcomes.n == 1 else 'seeds'}.",
    )


def too_few(reading: Reading) -> Parts:
    n = min(pair.n for pair in reading.pairs)
    return (
        f"Not shown: {n} {'seed' if n == 1 else 'seeds'} of an arm allow no interval and no test; ",
        f"run at least {MINIMUM_SEEDS}. So far ",
        Term(term=reading.ranking[0]),
        " leads.",
    )


def _way(task: TaskFacts) -> str:
    return "higher" if task.mode == "max" else "lower"


def _words(task: TaskFacts, reading: Reading) -> str:
    return f"{task.split if reading.budget is None else 'validation'} {task.words}"
