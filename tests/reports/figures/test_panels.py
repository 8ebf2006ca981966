"""Kinds: what they draw of a study, by hand-computed cases; and that none breaks on studies as they come."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text

from algos.finding import InputError
from reports.figures import legend
from reports.figures.ablation import Bar, ablation
from reports.figures.contours import Surface, contours
from reports.figures.critical_difference import critical_difference
from reports.figures.curves import Line, curves, cut
from reports.figures.drawing import beyond
from reports.figures.panel import Ask, Panel, Subject, kinds, panel
from reports.figures.panels.confusion import of_counts
from reports.figures.parallel import Trials, parallel
from reports.figures.pareto import Cloud, front
from reports.figures.points import Row, far, points
from reports.figures.sensitivity import Rates, envelope, good_range, middle_spread
from reports.figures.style import mark, style
from reports.figures.survival import Watched, survival
from reports.statistics.result import Estimate
from reports.table import read

OF_STUDIES = (
    "ablation", "contours", "critical_difference", "curves", "parallel", "pareto", "points", "profiles", "sensitivity",
    "slices", "survival",
)  # fmt: skip
LOOK = mark(0, 1)


def ask(kind: str, subject: Any) -> Ask:
    first = subject.table.arms[0] if kind == "contours" else ""
    return Ask(task="" if kind == "critical_difference" else "digits", arm=first)


def written(made: Panel, look: str = "icml") -> Figure:
    with style(look) as found:
        figure = made.drawing("x", found, "column", "s").figure()
        figure.draw_without_rendering()
    return figure


def test_a_kind_is_a_file() -> None:
    assert kinds() == sorted([*OF_STUDIES, "confusion"])


@pytest.mark.parametrize("look", ["icml", pytest.param("patent", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", OF_STUDIES)
@pytest.mark.parametrize(
    "study",
    [
        pytest.param({"names": [f"arm-{index} with cosine" for index in range(12)]}, marks=pytest.mark.slow),
        {"names": ["<script>", r"\input{x}", "a_b%&$#", "$x^{", "_hidden", "学习率", "x" * 300, "x" * 299 + "y"]},
        pytest.param({"names": ["a", "b"], "seeds": 1, "trials": 1}, marks=pytest.mark.slow),
        {"names": ["a", "b"], "lost": ("a", "b")},
        pytest.param({"names": ["a", "b", "c"], "accident": True}, marks=pytest.mark.slow),
    ],
    ids=["twelve", "hostile", "one point", "all diverged", "one diverged"],
)
def test_every_kind_of_every_study(kind: str, study: dict[str, Any], look: str, subject_of: Callable[..., Any]) -> None:
    """Warnings are errors here: no glyph is missing, no layout collapses, no label is left out."""
    subject = subject_of(tasks=2, **study)
    with style(look):
        made = panel(kind, subject, ask(kind, subject))
    figure = written(made, look)
    axis = figure.axes[0]
    box = axis.get_position()
    assert box.width > (0.2 if look == "icml" else 0.15)
    assert box.height > 0.1
    if made.looks and axis.get_legend():
        texts = axis.get_legend().get_texts()
        assert len({text.get_text() for text in texts}) == len(made.looks) + len(made.extra)
        lowest = axis.get_legend().get_window_extent().y0
        assert lowest >= axis.get_window_extent().y1 - 1, "the legend lies on the data"
    for text in (*axis.texts, axis.xaxis.label, axis.yaxis.label):
        if text.get_text():
            extent = text.get_window_extent()
            assert extent.x0 >= -1, (kind, text.get_text())
            assert extent.x1 <= figure.bbox.x1 + 1, (kind, text.get_text())
            assert extent.y0 >= -1, (kind, text.get_text())
            assert extent.y1 <= figure.bbox.y1 + 1, (kind, text.get_text())


@pytest.mark.parametrize("look", ["icml", "trainlab", "slide"])
@pytest.mark.parametrize("kind", ["curves", "pareto", "survival"])
def test_a_legend_of_many_arms_fits_the_width_of_a_page(kind: str, look: str, subject_of: Callable[..., Any]) -> None:
    """Of 12 names in 5 columns, matplotlib puts 3 into the first two and 2 into each of the others."""
    names = [f"arm-{index} with cosine" for index in range(12)]
    with style(look, "text") as found:
        made = panel(kind, subject_of(names, seeds=2, trials=0, hypers=1), Ask())
        drawing = made.drawing("x", found, "text", "s")
        with style(found, *drawing.size):
            figure = drawing.figure()
            figure.draw_without_rendering()
            assert beyond(figure) < 0.01
            assert figure.axes[0].get_position().width > 0.8


@pytest.mark.parametrize("kind", ["contours", "curves", "points", "survival", "pareto", "ablation", "slices"])
def test_several_tasks_want_one_said(kind: str, subject_of: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="--task digits or digits1"):
        panel(kind, subject_of(tasks=2), Ask())
    with pytest.raises(InputError, match="unknown task 'digts'; did you mean 'digits'"):
        panel(kind, subject_of(tasks=2), Ask(task="digts"))


@pytest.mark.parametrize(
    ("kind", "asked", "says"),
    [
        ("curves", {"by": "tme"}, "did you mean 'time'"),
        ("slices", {"by": "optimizer.lrr"}, "did you mean 'optimizer.lr'"),
        ("contours", {}, "say which: --arm sgd or adam or muon"),
        ("contours", {"arm": "sgd", "by": "optimizer.lr"}, "give two"),
        ("ablation", {"against": "sdg"}, "did you mean 'sgd'"),
        ("critical_difference", {}, "2 tasks, and 2 arms"),
        ("confusion", {}, "store no predictions"),
    ],
)
def test_what_cannot_be_drawn_says_what_to_do(
    kind: str, asked: dict[str, str], says: str, subject_of: Callable[..., Any]
) -> None:
    with pytest.raises(InputError, match=says):
        panel(kind, subject_of(), Ask(**asked))


@pytest.mark.parametrize("arm", ["", "sgd"])
def test_without_trials_there_is_nothing_to_slice(arm: str, subject_of: Callable[..., Any]) -> None:
    for kind in ("slices", "parallel", "sensitivity", "contours"):
        with pytest.raises(InputError, match="no arm was tuned"):
            panel(kind, subject_of(trials=0, hypers=1), Ask(arm=arm))


@pytest.mark.parametrize("kind", ["curves", "points", "slices", "survival", "pareto", "ablation", "profiles"])
def test_an_arm_that_there_is_not_is_said(kind: str, subject_of: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="unknown arm 'sdg'; did you mean 'sgd'"):
        panel(kind, subject_of(), Ask(arm="sdg"))


@pytest.mark.parametrize("kind", ["slices", "parallel", "sensitivity", "contours"])
def test_a_picture_of_tuning_shows_what_tuning_went_by(kind: str, subject_of: Callable[..., Any]) -> None:
    """A loss that is to be small, where the task is judged by an accuracy that is to be great."""
    subject = subject_of(("sgd", "adam"))
    for record in subject.source.of():
        told = {**record.file.facts["study"], "tuner": {"objectives": {"val/loss": "min"}}}
        subject.source.with_file([record], facts={**record.file.facts, "study": told})
    for record in subject.source.of(phase="tune"):
        subject.source.with_final(record, val__loss=1.0 + record.labels.number)
    made = panel(kind, Subject(read(subject.source, "sgd-or-adam"), subject.source), Ask(arm="sgd"))
    axes = written(made).axes
    said = [text.get_text() for axis in axes for text in axis.findobj(Text)]  # type: ignore[attr-defined]
    assert any("val/loss" in " ".join(text.split()) for text in said)
    assert not any("accuracy" in text for text in said)
    if kind in ("slices", "sensitivity"):
        assert axes[0].get_ylim()[1] - 12 > 1 - axes[0].get_ylim()[0], "the rows stand on the worse side, above"


def test_arms_that_were_tuned_by_different_things_share_no_axis(subject_of: Callable[..., Any]) -> None:
    subject = subject_of(("sgd", "adam"))
    for record in subject.source.of(arm="adam"):
        told = {**record.file.facts["study"], "tuner": {"objectives": {"val/loss": "min"}}}
        subject.source.with_file([record], facts={**record.file.facts, "study": told})
    with pytest.raises(InputError, match=r"different objectives \(val/loss, validation accuracy\); say one: --arm"):
        panel("slices", Subject(read(subject.source, "sgd-or-adam"), subject.source), Ask())


def test_a_trial_reaches_its_objective_past_what_it_had_not() -> None:
    """Two hyperparameters, of which the trial had the first: dotted from there to the objective."""
    with style("icml"):
        axis = Figure().add_subplot()
        arms = [Trials("a", LOOK, np.array([[1.0, np.nan], [2.0, 3.0]]), np.array([0.5, 0.9]))]
        parallel(axis, arms, hypers=("lr", "width"), log=(False, False), objective="accuracy", better="up")
        drawn = [(list(line.get_xdata()), line.get_linestyle()) for line in axis.get_lines() if len(line.get_xdata())]
    assert ([0, 2], ":") in drawn
    assert ([0, 1], "-") in drawn
    assert ([1, 2], "-") in drawn


@pytest.mark.parametrize("kind", ["ablation", "points", "survival"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 2.5e4, 1e7])
def test_labels_of_ticks_do_not_touch(kind: str, scale: float) -> None:
    with style("trainlab"):
        figure = Figure(figsize=(3.5, 1.5), dpi=72, layout="constrained")
        axis, values = figure.add_subplot(), scale * np.array([0.951, 0.957, 0.978])
        if kind == "ablation":
            ablation(
                axis, [Bar("a", LOOK, values, Estimate(values[1], None, None, 3))], x="x", reference="b", mode="max"
            )
        elif kind == "points":
            points(
                axis, [Row("a", LOOK, values, 0, None), Row("b", LOOK, values * 0.99, 0, None)], x="x", better="left"
            )
        else:
            survival(axis, [Watched("a", LOOK, values, np.ones(3, bool))], x="updates")
        figure.draw_without_rendering()
        low, high = axis.get_xlim()
        shown = [label for at, label in zip(axis.get_xticks(), axis.get_xticklabels()) if low <= at <= high]
        boxes = sorted((label.get_window_extent() for label in shown), key=lambda box: box.x0)
    assert len(boxes) >= 2
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def rows_of(**values: Sequence[float]) -> list[Row]:
    return [Row(name, LOOK, np.array(found, float), 0, None) for name, found in values.items()]


GOOD = (0.970, 0.972, 0.974, 0.976)


@pytest.mark.parametrize(
    ("rows", "better", "worst"),
    [
        (rows_of(a=GOOD, b=[v + 0.002 for v in GOOD], c=(0.1, 0.11, 0.1, 0.1)), "right", 0.970),
        (rows_of(a=GOOD, b=(*GOOD, 0.1)), "right", 0.970),
        (rows_of(a=GOOD, b=[v - 0.2 for v in GOOD]), "right", None),
        (rows_of(a=GOOD, b=GOOD), "right", None),
        (rows_of(a=GOOD, b=[v + 0.002 for v in GOOD], c=(9.0, 9.1, 9.0, 9.2)), "left", 0.978),
        (rows_of(a=GOOD, b=(0.1,), c=(0.2,), d=(0.3,)), "right", None),
        (rows_of(a=(), b=()), "right", None),
    ],
    ids=["an arm", "a seed", "two arms", "none", "a loss", "one good arm", "nothing"],
)
def test_what_failed_does_not_press_the_rest_together(rows: list[Row], better: str, worst: float | None) -> None:
    assert far(rows, better) == (None if worst is None else pytest.approx(worst))


def test_what_stands_at_the_edge_is_told_in_numbers() -> None:
    with style("icml"):
        axis = Figure(figsize=(3.5, 1.5)).add_subplot()
        points(axis, rows_of(a=GOOD, b=[v + 0.002 for v in GOOD], c=(0.1, 0.11, 0.1)), x="x", better="right")
        told = [text.get_text() for text in axis.texts]
        low, high = axis.get_xlim()
        drawn = [x for line in axis.get_lines()[:3] for x in line.get_xdata()]
    assert told == ["3 at 0.1 to 0.11"]
    assert sorted(drawn) == sorted([*GOOD, *(v + 0.002 for v in GOOD)])
    assert high - low < 0.02


def test_a_diverged_arm_takes_no_room_from_the_others() -> None:
    """All its words stand in its own row, where nothing else does."""
    with style("icml"):
        alone, both = (Figure(figsize=(3.5, 1.5)).add_subplot() for _ in range(2))
        points(alone, rows_of(a=GOOD), x="x", better="right")
        points(both, [*rows_of(a=GOOD), Row("b", LOOK, np.empty(0), 5, None)], x="x", better="right")
    assert both.get_xlim() == pytest.approx(alone.get_xlim())


def test_an_arm_a_million_times_worse_leaves_the_other_a_curve() -> None:
    x = np.arange(1.0, 101.0)
    with style("icml"):
        axis = Figure().add_subplot()
        lines = [Line(name, LOOK, [x], [level * (1 + 9 / x)], [False]) for name, level in (("a", 0.1), ("b", 1e5))]
        curves(axis, lines, x="updates", y="loss")
        assert axis.get_yscale() == "log"
        signed = Figure().add_subplot()
        curves(
            signed, [Line("a", LOOK, [x], [-1e5 + x], [False]), Line("b", LOOK, [x], [x], [False])], x="x", y="reward"
        )
        assert signed.get_yscale() == "linear"
        users = Figure().add_subplot()
        users.set(xscale="log", yscale="log")
        curves(users, [Line("a", LOOK, [x], [x - 50], [False])], x="x", y="y")
        assert users.get_ylim()[0] > 0, "a scale of the user's own, on which what is not positive has no place"


@pytest.mark.parametrize("kind", ["slices", "sensitivity"])
def test_no_objective_has_no_scale(kind: str, subject_of: Callable[..., Any]) -> None:
    made = panel(kind, subject_of(("a", "b"), lost=("a", "b")), Ask())
    axis = written(made).axes[0]
    assert list(axis.get_yticks()) == []
    assert any("no trial gave an objective" in " ".join(text.get_text().split()) for text in axis.texts)


def test_one_arm_that_fails_makes_not_every_rate_of_the_others_good() -> None:
    tent = 0.9 - np.array([0.2, 0.1, 0.0, 0.1, 0.2])
    assert middle_spread([tent], "up") == pytest.approx(0.1)
    assert middle_spread([tent, tent - 0.8, np.array([0.9, 0.9, 1e-9])], "up") == pytest.approx(0.1)
    assert middle_spread([1 - tent, np.array([1e6, 2e6, 5e6])], "down") == pytest.approx(0.1)
    assert middle_spread([np.array([np.nan, np.nan])], "up") == 0.0


def test_what_diverged_is_a_cross_at_its_cost(subject_of: Callable[..., Any]) -> None:
    made = panel("pareto", subject_of(("a", "b"), lost=("b",)), Ask(by="updates"))
    crosses = [line for line in written(made).axes[0].get_lines() if line.get_marker() == "x"]
    assert [list(line.get_xdata()) for line in crosses] == [[400.0] * 5]
    assert "crosses: 5 runs that diverged" in made.caption


def test_examples_are_read_where_the_table_has_none(subject_of: Callable[..., Any]) -> None:
    subject = subject_of(("sgd",), seeds=2)
    for record in subject.source.of(phase="final"):
        updates = subject.source.points[record.run_id, "count/gradients"]
        values = tuple(32.0 * update for update in updates.updates)
        subject.source.points[record.run_id, "count/examples"] = dataclasses.replace(
            updates, metric="count/examples", values=values
        )
    made = panel("curves", subject, Ask(by="examples"))
    assert [row[4] for row in made.rows[:2]] == [32.0 * row[3] for row in made.rows[:2]]  # type: ignore[operator]
    with pytest.raises(InputError, match="a table holds no examples"):
        panel("curves", dataclasses.replace(subject, source=None), Ask(by="examples"))


def test_a_clock_that_nobody_recorded_is_said(subject_of: Callable[..., Any]) -> None:
    subject = subject_of(("sgd", "adam"))
    for key in [key for key in subject.source.points if key[1] == "time/train_s"]:
        del subject.source.points[key]
    bare = dataclasses.replace(subject, table=read(subject.source, "sgd-or-adam"))
    for kind in ("curves", "survival", "pareto"):
        with pytest.raises(InputError, match="did not record seconds of training"):
            panel(kind, bare, Ask(by="time"))


def test_survival_counts_a_diverged_run_to_the_end(subject_of: Callable[..., Any]) -> None:
    made = panel("survival", subject_of(("a", "b"), lost=("b",)), Ask())
    lost = [row for row in made.rows if row[0] == "b"]
    assert all(row[3] == 400.0 and row[4] == 0 and row[5] == 1 for row in lost)
    assert "b: 0 of 5 reached it" in made.alt


def test_kaplan_meier_steps_and_a_stroke_for_each_censored_run() -> None:
    """Reached at 10, 20, 30; two watched to 40: 0.8, 0.6, 0.4, with the strokes at 40."""
    with style("icml"):
        axis = Figure().add_subplot()
        times, reached = np.array([10.0, 20, 30, 40, 40]), np.array([True, True, True, False, False])
        survival(axis, [Watched("a", LOOK, times, reached)], x="updates")
    steps, strokes = axis.get_lines()
    assert np.asarray(steps.get_ydata()) == pytest.approx([1, 0.8, 0.6, 0.4, 0.4])
    assert np.asarray(steps.get_xdata()) == pytest.approx([0, 10, 20, 30, 40])
    assert (list(strokes.get_xdata()), list(strokes.get_ydata())) == ([40.0], [pytest.approx(0.4)])


@given(
    st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 1)), min_size=1, max_size=12),
    st.sampled_from([1.0, -1.0]),
)
def test_the_front_is_what_nobody_beats(points: list[tuple[float, float]], sign: float) -> None:
    cost, value = zip(*points)
    found = front(cost, value, sign)
    beaten = lambda i: any(  # noqa: E731
        c <= cost[i] and sign * v >= sign * value[i] and (c < cost[i] or sign * v > sign * value[i])
        for c, v in zip(cost, value)
    )
    assert found
    assert not any(beaten(i) for i in found)
    assert all(beaten(i) or points[i] in [points[j] for j in found] for i in range(len(points)))


def test_a_diverged_run_is_the_worst_of_a_median() -> None:
    """0.9, 0.8 and one diverged: the median is 0.8; with two diverged there is none."""
    cloud = Cloud("a", LOOK, np.array([1.0, 2.0]), np.array([0.9, 0.8]), diverged=1)
    assert cloud.middle(1.0) == (1.5, 0.8)
    assert cloud.middle(-1.0) == (1.5, 0.9)
    assert math.isnan(dataclasses.replace(cloud, diverged=2).middle(1.0)[0])


def test_ablation_is_seed_by_seed(subject_of: Callable[..., Any]) -> None:
    subject = subject_of(("full", "less"))
    full, less = (subject.table.cells["digits", arm].outcomes().values for arm in ("full", "less"))
    made = panel("ablation", subject, Ask())
    assert [row[2] for row in made.rows] == pytest.approx(list(less - full))
    turned = panel("ablation", subject, Ask(against="less"))
    assert [row[2] for row in turned.rows] == pytest.approx(list(full - less))


def test_a_bar_stands_on_zero_and_says_n() -> None:
    with style("icml"):
        figure = Figure(figsize=(3.25, 2))
        axis = figure.add_subplot()
        values = np.array([-0.02, -0.03, -0.01])
        bars = [
            Bar("no decay", LOOK, values, Estimate(-0.02, -0.045, 0.005, 3)),
            Bar("diverged", LOOK, values[:1], None, diverged=2),
        ]
        ablation(axis, bars, x="test accuracy", reference="full", mode="max")
    (bar,) = axis.patches
    assert (bar.get_x(), bar.get_width()) == (0, -0.02)
    assert [text.get_text() for text in axis.get_yticklabels()] == ["no decay\nn = 3", "diverged\nn = 1, 2 diverged"]
    assert any("95 % t interval" in text.get_text() for text in axis.texts)
    assert axis.get_xlim()[0] < 0 < axis.get_xlim()[1]


def test_the_good_range_of_a_tent() -> None:
    """Objective 1 at 0.1, 0 at 0.01 and 1: within 0.5 of the best from 10^-1.5 to 10^-0.5."""
    x, y = np.array([0.01, 0.1, 1.0]), np.array([0.0, 1.0, 0.0])
    assert good_range(x, y, "up", 0.5) == pytest.approx((10**-1.5, 10**-0.5))
    assert good_range(x, -y, "down", 0.5) == pytest.approx((10**-1.5, 10**-0.5))
    assert good_range(x[:1], y[:1], "up", 0.5) == pytest.approx((0.01, 0.01))
    assert good_range(x[:0], y[:0], "up", 0.5) is None


def test_an_envelope_keeps_the_best_of_each_tenth() -> None:
    rate = np.geomspace(0.001, 1, 40)
    score = np.where(np.arange(40) % 2 == 0, 1.0, 0.0)
    x, y = envelope(Rates("a", LOOK, rate, score, alone=False), "up")
    assert len(x) == 10
    assert (y == 1.0).all()
    everything, _ = envelope(Rates("a", LOOK, rate, np.where(score > 0, score, np.nan)), "up")
    assert len(everything) == 20


def test_a_profile_by_hand(subject_of: Callable[..., Any]) -> None:
    """All problems are solved by somebody at ratio 1, and a diverged arm solves none."""
    made = panel("profiles", subject_of(("a", "b"), lost=("b",)), Ask())
    assert {row[4] for row in made.rows if row[2] == "a"} == {1.0}
    assert {row[4] for row in made.rows if row[2] == "b"} == {None}
    scores = panel("profiles", subject_of(("a", "b"), accident=True), Ask(by="score"))
    assert "a: 4 runs, 1 diverged" in scores.alt


def test_demsars_example_is_drawn_with_its_bars() -> None:
    """Demsar 2006, section 3.2.4: ranks 3.143, 2.000, 2.893, 1.964 over 14 data sets; the critical difference of
    Nemenyi's test at 0.10 is 1.12, and C4.5 differs from C4.5+m and C4.5+m+cf."""
    with style("icml"):
        figure = Figure(figsize=(3.25, 2))
        axis = figure.add_subplot()
        names = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]
        critical_difference(axis, names, [3.143, 2.0, 2.893, 1.964], [(3, 1, 2), (2, 0)], 1.12, "14 data sets")
    thick = [line for line in axis.get_lines() if line.get_linewidth() > 2]
    spans = [sorted(np.asarray(line.get_xdata())) for line in thick]
    assert spans == [pytest.approx([1.934, 2.923]), pytest.approx([2.863, 3.173])]
    assert any("critical difference 1.12" in text.get_text() for text in axis.texts)


def test_ranks_count_a_diverged_arm_last(subject_of: Callable[..., Any]) -> None:
    made = panel("critical_difference", subject_of(("good", "bad"), tasks=3, lost=("good",)), Ask())
    assert {row[3] for row in made.rows if row[0] and row[1] == "good"} == {2.0}


def test_a_surface_says_nothing_outside_of_its_trials() -> None:
    with style("icml"):
        figure = Figure(figsize=(3.25, 2))
        axis = figure.add_subplot()
        x, y = (grid.ravel() for grid in np.meshgrid(np.geomspace(0.01, 1, 4), [16.0, 32, 64]))
        surface = Surface(x, y, np.log(x) + y, 3, (True, False))
        contours(axis, surface, x="lr", y="width", objective="loss")
        figure.draw_without_rendering()
    filled = axis.collections[0].get_paths()
    points = np.concatenate([path.vertices for path in filled if len(path.vertices)])
    assert points[:, 0].min() >= 0.01 - 1e-9
    assert points[:, 0].max() <= 1 + 1e-9
    assert len(figure.axes) == 2, "a colour bar says what the colours are"


def test_trials_on_one_line_span_no_surface() -> None:
    with style("icml"):
        axis = Figure(figsize=(3.25, 2)).add_subplot()
        x = np.geomspace(0.01, 1, 8)
        contours(axis, Surface(x, x, x, None, (True, True)), x="lr", y="wd", objective="loss")
    assert not axis.collections


def test_runs_that_were_evaluated_once_are_points() -> None:
    with style("icml"):
        axis = Figure(figsize=(3.25, 2)).add_subplot()
        once = [np.array([100.0])] * 3
        curves(axis, [Line("a", LOOK, once, [np.array([v]) for v in (1.0, 2, 3)], [False] * 3)], x="x", y="y")
        mean = next(line for line in axis.get_lines() if line.get_label() == "a")
    assert mean.get_marker() == LOOK.marker


def test_nothing_to_see_is_said() -> None:
    with style("icml"):
        axis = Figure(figsize=(3.25, 2)).add_subplot()
        nothing = np.empty(0)
        curves(axis, [Line("a", LOOK, [nothing] * 2, [nothing] * 2, [True] * 2)], x="x", y="y")
    assert "no run was evaluated" in axis.texts[0].get_text().replace("\n", " ")


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([[1, 2]], "a square"),
        ([1, 2], "a square"),
        ([], "a square"),
        ([[1.5, 0], [0, 1]], "whole numbers"),
        ([[-1, 0], [0, 1]], "whole numbers"),
        ([[float("nan"), 0], [0, 1]], "whole numbers"),
        ("abc", "a square"),
    ],
)
def test_what_is_no_confusion_matrix(counts: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        of_counts(counts)


def test_a_confusion_matrix_has_every_count() -> None:
    made = of_counts([[5, 1], [0, 7]], ["cat", "dog"])
    assert made.rows == (("cat", "cat", 5), ("cat", "dog", 1), ("dog", "cat", 0), ("dog", "dog", 7))
    assert "12 of 13 right" in made.alt
    axis = written(made).axes[0]
    assert sorted(text.get_text() for text in axis.texts) == ["1", "5", "7"]
    with pytest.raises(InputError, match="one a class"):
        of_counts([[5, 1], [0, 7]], ["cat"])


def test_a_legend_takes_as_many_columns_as_fit() -> None:
    with style("icml"):
        assert legend.fitting(["a", "b", "c"], 3.25) == 3
        assert legend.fitting(["x" * 28] * 3, 3.25) == 1
        assert legend.height(["a", "b", "c"], 3.25) < legend.height(["x" * 28] * 3, 3.25)


def test_pairs_are_by_signed_ranks_unless_nemenyi_is_asked_for(subject_of: Callable[..., Any]) -> None:
    """Three arms that rank alike on every of 12 tasks: signed ranks tell all apart, Nemenyi's test the outer two alone,
    as its critical difference is 0.96 ranks there: all but neighbours."""
    subject = subject_of(("low", "middle", "high"), tasks=12, trials=1)
    by_default, holm, nemenyi = (
        panel("critical_difference", subject, Ask(pairs=pairs)) for pairs in ("", "holm", "nemenyi")
    )
    assert by_default.caption == holm.caption
    assert "signed ranks over tasks" in holm.caption
    assert "critical difference 0.96" in nemenyi.caption
    drawn = {
        name: " ".join(t.get_text() for t in written(made).findobj(Text))
        for name, made in (("h", holm), ("n", nemenyi))
    }
    assert "critical difference" not in drawn["h"]
    assert "critical difference 0.96" in drawn["n"]
    with pytest.raises(InputError, match="did you mean 'nemenyi'"):
        panel("critical_difference", subject, Ask(pairs="nemeny"))


def test_tasks_too_few_for_signed_ranks_are_told(subject_of: Callable[..., Any]) -> None:
    """3 pairs, each with p of 2^(1 - n) at the least: 6 tasks give 3/32, 7 give 3/64."""
    for tasks, told in (
        (6, ("signed ranks over 6 tasks cannot show that arms differ; take 7 tasks or more",)),
        (7, ()),
    ):
        subject = subject_of(("low", "middle", "high"), tasks=tasks, trials=1)
        assert panel("critical_difference", subject, Ask()).notes == told


def test_a_cut_axis_is_told_in_the_caption(subject_of: Callable[..., Any]) -> None:
    assert "early values beyond the y axis are not shown" in panel("curves", subject_of(), Ask()).caption
    x = np.arange(5.0)
    flat = Line("a", LOOK, [x], [np.array([1.0, 2.0, 1.0, 2.0, 1.0])], [False])
    falling = Line("a", LOOK, [x], [np.array([9.0, 2.0, 1.0, 2.0, 1.0])], [False])
    assert [cut([flat], None), cut([falling], None), cut([flat], 3.0), cut([], None)] == [False, True, False, False]


@pytest.mark.parametrize(("kind", "by"), [("slices", "lr"), ("sensitivity", "lr"), ("contours", "lr,width")])
def test_a_hyperparameter_is_meant_by_its_last_word(kind: str, by: str, subject_of: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"did you mean 'optimizer\.lr'"):
        panel(kind, subject_of(), Ask(by=by, arm="sgd"))


@pytest.mark.parametrize("kind", ["curves", "survival", "pareto", "profiles"])
def test_imported_epochs_are_called_epochs(kind: str, subject_of: Callable[..., Any]) -> None:
    subject = subject_of()
    for record in subject.source.of():
        facts = {**record.file.facts, "recorded": "imported", "source": {"kind": "csv", "steps": "epochs"}}
        subject.source.with_file([record], facts=facts)
    made = panel(kind, Subject(read(subject.source, "sgd-or-adam"), subject.source), Ask(by="updates"))
    axis = Figure().subplots()
    made.draw(axis)
    assert "epochs" in axis.get_xlabel()
    assert "updates" not in f"{made.alt} {made.caption} {axis.get_xlabel()}"
