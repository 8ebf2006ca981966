"""Contours of one arm's tuning over two hyperparameters. by: "FIRST,SECOND", else the first two tuned."""

from __future__ import annotations

import math

import numpy as np

from algos.finding import InputError
from reports.figures.contours import Surface, contours
from reports.figures.panel import Ask, Panel, Subject, lacking
from reports.figures.tuned import arms, is_log, judged, no_such, objectives, values


def panel(subject: Subject, ask: Ask) -> Panel:
    task = subject.task(ask.task)
    found = [one for one in arms(subject, task, ask) if len(one.hypers) >= 2]
    if not found:
        raise lacking(f"no arm tuned two hyperparameters on task '{task.name}'", "take slices, or study one that does")
    if len(found) > 1:
        names = " or ".join(one.cell.arm for one in found)
        raise InputError(f"{len(found)} arms tuned two hyperparameters", f"say which: --arm {names}", place="arm")
    one = found[0]
    pair = [word.strip() for word in ask.by.split(",")] if ask.by else list(one.hypers[:2])
    for hyper in pair:
        if hyper not in one.hypers:
            raise no_such(hyper, one.hypers)
    if len(set(pair)) != 2:
        raise InputError(f"contours by '{ask.by}'", "give two, as in --by optimizer.lr,model.width", place="by")
    whole = [r for r in one.trials if all(one.value(r, hyper) is not None for hyper in pair)]
    x, y = (values(one, whole, hyper) for hyper in pair)
    scores = objectives(one, whole)
    winner = next((place for place, r in enumerate(whole) if r is one.winner), None)
    surface = Surface(x, y, scores, winner, (is_log([one], pair[0]), is_log([one], pair[1])))
    objective, _ = judged([one], task)
    best = f"; chosen at {x[winner]:.3g}, {y[winner]:.3g}" if winner is not None else ""
    lost = int(np.isnan(scores).sum())
    return Panel(
        kind="contours",
        title=f"{one.cell.arm} on {task.name}",
        draw=lambda axis: contours(axis, surface, x=pair[0], y=pair[1], objective=objective),
        header=("arm", "trial", "run_id", "status", *pair, "objective"),
        rows=tuple(
            (
                one.cell.arm,
                r.labels.number,
                r.run_id,
                r.status,
                float(a),
                float(b),
                float(v) if math.isfinite(v) else None,
            )
            for r, a, b, v in zip(whole, x, y, scores)
        ),
        alt=f"Objective of {one.cell.arm} on {task.name} over {pair[0]} and {pair[1]}: {len(whole)} trials{best}.",
        caption=f"{one.cell.arm} on {task.name}: points are trials, the surface is linear between them; ring: chosen"
        + (f"; crosses: the {lost} trials without objective." if lost else "."),
        runs=tuple(whole),
    )
