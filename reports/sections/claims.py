"""Claims: the sentences of one claim, that one arm is better than another on one clock; with its uncertainty, or why
nothing is shown."""

from __future__ import annotations

from collections.abc import Sequence

from reports.clocks import SAME, Reading, everybody, opposed
from reports.comparison import ALPHA, MINIMUM_SEEDS, Pair
from reports.document import Parts, Term
from reports.judged import TaskFacts
from reports.sections import numbers
from reports.sections.numbers import POWER, About

#: So many pairs are spelt out under a verdict, nearest rank first; the table of pairs has them all.
SPELT = 3
_NONE = "no difference is shown: "


def led(reading: Reading) -> list[Pair]:
    """The leader's pairs, in order of rank, seen from it."""
    best = reading.ranking[0]
    pairs = {frozenset((pair.first, pair.second)): pair for pair in reading.pairs}
    found = [pairs.get(frozenset((best, other))) for other in reading.ranking[1:]]
    return [pair.seen_from(best) for pair in found if pair is not None]


def lead(reading: Reading) -> Parts:
    """Who is first: "a leads", or "a and b are level"."""
    level = [pair.second for pair in led(reading) if pair.n and not pair.lead]
    said = " leads" if not level else " are level"
    return (*numbers.names([reading.ranking[0], *level]), said)


def by_clock(read: Sequence[Reading]) -> Parts:
    """What each clock shows of the arm that leads on it, clocks that show the same together: "per update no difference
    is shown; per second of training a is better than b"."""
    clocks: dict[tuple[str, ...], list[Reading]] = {}
    for reading in read:
        if reading.ranking:
            clocks.setdefault((reading.ranking[0], *reading.beaten) if reading.beaten else (), []).append(reading)
    told: list[Parts] = []
    for found, of in clocks.items():
        per = f"{' and '.join(f'per {reading.one}' for reading in of)} "
        shown: Parts = (_nothing(of[0]),)
        if found:
            shown = (Term(term=found[0]), " is better than ", *numbers.names(found[1:]))
        against = [doubt for reading in of for doubt in reading.doubts] if found else []
        told.append((per, *shown, *((f", but {'; '.join(against)}",) if against else ())))
    return numbers.joined(told, last="; ")


def _nothing(reading: Reading) -> str:
    """What is said of a clock on which the leader is better than nobody."""
    if not any(pair.ruling in ("better", "worse", "not shown") for pair in led(reading)):
        return "nothing can be told"
    return "no difference is shown" if len(reading.ranking) == 2 else "no arm is shown to be best"


def sentence(task: TaskFacts, reading: Reading, brief: bool = False) -> Parts:
    """What one clock shows of the arm that leads on it, after a colon. brief: without how each interval was made, which
    a sentence before said."""
    mine = led(reading)
    wins = [pair for pair in mine if pair.ruling == "better"]
    rest = [pair for pair in mine if pair.ruling != "better"]
    if not wins:
        return (*_unshown(reading), ". ", *_each(task, reading, rest, brief))
    return (*won(wins), *_margins(task, reading, wins, brief), *_each(task, reading, rest, brief))


def won(wins: Sequence[Pair]) -> Parts:
    """Whom the leader is better than."""
    return (Term(term=wins[0].first), " is better than ", *numbers.names(pair.second for pair in wins))


def margins(task: TaskFacts, reading: Reading, wins: Sequence[Pair]) -> list[Parts]:
    """By how much it is better: a sentence a pair, of the nearest SPELT."""
    told = [("Over ", Term(term=pair.second), ": ", *_margin(task, reading, pair, False), ".") for pair in wins[:SPELT]]
    return [*told, *_further(wins)]


def margin(task: TaskFacts, reading: Reading, pair: Pair) -> Parts:
    """By how much the only arm that there is to be better than is beaten, after its name."""
    return (": ", *_margin(task, reading, pair, False), ".")


def open_ones(task: TaskFacts, reading: Reading, rest: Sequence[Pair]) -> list[Parts]:
    """What there is on each of the arms that it is not shown to be better than: a sentence a pair."""
    told = [("Against ", Term(term=pair.second), *_seen(task, reading, pair), ".") for pair in rest[:SPELT]]
    return [*told, *_further(rest)]


def not_won(reading: Reading, group: Sequence[Pair], word: str, wins: bool) -> Parts:
    """Whom the leader is not shown to be better than. word: of the verdict that they have in common; wins: whether it
    is better than others."""
    others = numbers.names(pair.second for pair in group)
    if word == "worse":
        return (Term(term=group[0].first), " is worse than ", *others, ".")
    if not any(pair.lead for pair in group if pair.n):
        return (*(() if wins else ("No arm is shown to be best: ",)), *lead(reading), ".")
    told = "no difference is shown" if word == "no difference shown" else "nothing can be told"
    if wins:
        return ("Against ", *others, f" {told}.")
    return ("No arm is shown to be best: ", *lead(reading), f", but {told} against ", *others, ".")


def _unshown(reading: Reading) -> Parts:
    level = [pair for pair in led(reading) if pair.n and not pair.lead]
    how = "" if level else ", which may be chance"
    return ("no arm is shown to be best (", *lead(reading), f"{how})")


def _margins(task: TaskFacts, reading: Reading, wins: Sequence[Pair], brief: bool) -> Parts:
    """The margins in a sentence that names the arms before."""
    if len(wins) == 1:
        return (": ", *_margin(task, reading, wins[0], brief), ". ")
    told = [("over ", Term(term=p.second), " ", *_margin(task, reading, p, brief)) for p in wins[:SPELT]]
    return (": ", *numbers.joined(told, last="; "), _more(wins))


def _each(task: TaskFacts, reading: Reading, rest: Sequence[Pair], brief: bool) -> Parts:
    """In one sentence why nothing is shown of some arms."""
    told = [(Term(term=pair.second), " ", *_open(task, reading, pair, brief)) for pair in rest[:SPELT]]
    return ("Against ", *numbers.joined(told, last="; against "), _more(rest)) if told else ()


def _further(pairs: Sequence[Pair]) -> list[Parts]:
    more = len(pairs) - SPELT
    return [(f"{more} more {'stand' if more > 1 else 'stands'} in the table of pairs.",)] if more > 0 else []


def _more(pairs: Sequence[Pair]) -> str:
    """The end of a sentence that spells out some of the pairs."""
    more = len(pairs) - SPELT
    return f"; {more} more in the table of pairs. " if more > 0 else ". "


def _margin(task: TaskFacts, reading: Reading, pair: Pair, brief: bool) -> Parts:
    """By how much the pair's first is better."""
    about = About.of(task, reading)
    if pair.estimate is None:
        return (*_by_rank(about, pair, reading), " (", numbers.p_value(about, pair), ")")
    return _measured(task, reading, pair, brief)


def _measured(task: TaskFacts, reading: Reading, pair: Pair, brief: bool) -> Parts:
    """The difference, how its interval was made, and its p-value."""
    about = About.of(task, reading)
    how: Parts = () if brief else (*_how(about, pair), ", ")
    return (*_difference(task, reading, pair), " (", *how, numbers.p_value(about, pair), ")")


def _difference(task: TaskFacts, reading: Reading, pair: Pair) -> Parts:
    """Which way and by how much its first is off the second: a leader by most pairs may trail in one."""
    about, ahead = About.of(task, reading), pair.lead >= 0
    if not pair.lead:
        return (f"{_words(task, reading)} is the same on average, off by ", numbers.difference(about, pair))
    turned = pair if ahead else pair.seen_from(pair.second)
    way = "higher" if ahead == (task.mode == "max") else "lower"
    return (f"{_words(task, reading)} is {way} by ", numbers.difference(about, turned))


def _open(task: TaskFacts, reading: Reading, pair: Pair, brief: bool) -> Parts:
    """Why nothing is shown of a pair."""
    about = About.of(task, reading)
    if pair.ruling == "too few seeds":
        return (f"no test is made with fewer than {MINIMUM_SEEDS} seeds", *_few(reading, pair))
    if pair.ruling == "no spread":
        return _no_spread(task, reading, pair)
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
        difference: Parts = (
            () if pair.estimate is None else (" by ", numbers.difference(about, pair.seen_from(pair.second)))
        )
        return ("it is worse", *difference)
    if pair.estimate is None:
        return (_NONE, *_by_rank(about, pair, reading), " (", numbers.p_value(about, pair), ")")
    among = f", which is not enough among {pair.comparisons} comparisons" if pair.p <= ALPHA else ""
    return (_NONE, *_measured(task, reading, pair, brief), among, *_to_find(about, pair))


def _seen(task: TaskFacts, reading: Reading, pair: Pair) -> Parts:
    """The same under a verdict that says already that no difference is shown."""
    first, *rest = _open(task, reading, pair, False)
    return (": ", *rest) if first == _NONE else (" ", first, *rest)


def _to_find(about: About, pair: Pair) -> Parts:
    """What it would take to show a difference as large as the one seen."""
    if not pair.lead:
        return ()
    more = numbers.more_seeds(about, pair)
    much = "" if more.value is None else "about "
    seeds = "seed" if more.value == 1 else "seeds"
    each = "" if pair.test == "paired t" else " of each"
    return (
        f"; were it truly that large, {much}",
        more,
        f" more {seeds}{each} would show it with a chance of {100 * POWER:.0f} %",
    )


def _no_spread(task: TaskFacts, reading: Reading, pair: Pair) -> Parts:
    """Values that do not vary: the same difference at every seed, or values that are each other's."""
    if not pair.lead:
        return ("nothing differs: their values are the same, seed by seed" if pair.test == "paired t" else
                "nothing differs: all their values are the same",)  # fmt: skip
    found = _difference(task, reading, pair)
    return (*found, " without any spread over seeds, so no interval and no test can be given")


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
    ahead: Parts = ()
    if pair.lead * (pair.better - 0.5) < 0:  # the test weighs seeds by how far they are apart, the chance does not
        one = pair.first if pair.lead > 0 else pair.second
        ahead = (" ", Term(term=one), f" is ahead by {pair.test}, though")
    return (
        *numbers.joined(told),
        "; with those as the worst,",
        *ahead,
        " the chance that a run of ",
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


def same_on(task: TaskFacts, read: list[Reading]) -> list[Parts]:
    """How the other clocks bear out what the first one shows: a note each."""
    first = read[0]
    notes: list[Parts] = []
    same = [r for r in read[1:] if not r.lacking and r.budget is None]
    if first.doubts:
        notes.append(doubtful(first))
    if first.budget is None and (said := used_the_same(first, same)):
        notes.append((said,))
    for reading in (r for r in read[1:] if not r.lacking and r.budget is not None):
        notes.append((*_compared_at(task, reading), *_borne_out(task, first, reading), *doubtful(reading)))
    return [*notes, *(_lacking(r) for r in read[1:] if r.lacking)]


def _borne_out(task: TaskFacts, first: Reading, reading: Reading) -> Parts:
    """What a cut says of the arm that leads at the end."""
    best = first.ranking[0]
    ends, cut = _of(first, best), _of(reading, best)
    if reading.ranking[:1] == first.ranking[:1] and ends == cut:
        return (", the same is found. ",)
    if opposed(first, reading, by_split=True):
        cause = (
            "Validation shows the same at the end of training, where the test split shows otherwise: the difference is "
            "between the two splits, not between the clocks. "
        )
        return (", by validation: ", *sentence(task, reading, brief=True), cause)
    lost = [not cut.get(other) for other, ruling in ends.items() if ruling]
    told = ", this is not shown: " if lost and all(lost) else ", not all of this is shown: " if any(lost) else ": "
    return (told, *sentence(task, reading, brief=True))


def _of(reading: Reading, arm: str) -> dict[str, str]:
    """What a reading shows of `arm` against each other arm: better, worse or ""."""
    mine = [pair.seen_from(arm) for pair in reading.pairs if arm in (pair.first, pair.second)]
    return {pair.second: pair.ruling if pair.shown else "" for pair in mine}


def each_clock(task: TaskFacts, read: list[Reading]) -> list[Parts]:
    """A note a clock; clocks on which arms spent the same share it."""
    notes: list[Parts] = []
    ends = [r for r in read if not r.lacking and r.budget is None]
    if ends:
        notes.append((f"Per {' and per '.join(r.one for r in ends)}: ", *sentence(task, ends[0])))
    for reading in read:
        if reading.lacking:
            notes.append(_lacking(reading))
        elif reading.budget is not None:
            brief = bool(ends) or reading is not read[0]
            notes.append((*_compared_at(task, reading), ": ", *sentence(task, reading, brief), *doubtful(reading)))
    return notes


def cut_first(task: TaskFacts, first: Reading) -> Parts:
    """Where the first clock compares arms, if not at their ends: before its first verdict."""
    if first.budget is None:
        return ()
    said, *rest = _compared_at(task, first)
    return (f"Budgets were not equal. {said}", *rest, ": ")


def _compared_at(task: TaskFacts, reading: Reading) -> Parts:
    about = About.of(task, reading)
    return (f"Per {reading.one}, compared at ", numbers.cut(about, reading, reading.many))


def _lacking(reading: Reading) -> Parts:
    return (f"Per {reading.one} it cannot be told: {reading.lacking}.",)


def doubtful(reading: Reading) -> Parts:
    """Why what is said of a clock may be due to the machine; () where nothing is known against it."""
    if not reading.doubts:
        return ()
    return (f"This may be the machine's doing: {'; '.join(reading.doubts)}.",)


def used_the_same(first: Reading, same: Sequence[Reading]) -> str:
    """That arms used the same of some clocks; "" where that is not known of two arms."""
    who = next((told for reading in same if (told := everybody(reading))), "")
    if not who:
        return ""
    clocks = " and ".join(reading.many for reading in same)
    but = "; what diverged used less" if any(outcomes.diverged for outcomes in first.outcomes.values()) else ""
    return f"{who} used the same {clocks}, to within {100 * SAME:g} % by the medians of the arms{but}."


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
        *lead(reading),
        ".",
    )


def _words(task: TaskFacts, reading: Reading) -> str:
    return f"{task.split if reading.budget is None else 'validation'} {task.words}"
