"""Kinds: what they draw of a study, by hand-computed cases; and that none breaks on studies as they come."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from algos.finding import InputError
from reports.figures import legend
from reports.figures.ablation import Bar, ablation
from reports.figures.contours import Surface, contours
from reports.figures.critical_difference import critical_difference
from reports.figures.curves import Line, curves
from reports.figures.panel import Ask, Panel, kinds, panel
from reports.figures.panels.confusion import of_counts
from reports.figures.pareto import Cloud, front
from reports.figures.sensitivity import Rates, envelope, good_range
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
        ("critical_difference", {}, "2 tasks and 2 arms"),
        ("confusion", {}, "store no predictions"),
    ],
)
def test_what_cannot_be_drawn_says_what_to_do(
    kind: str, asked: dict[str, str], says: str, subject_of: Callable[..., Any]
) -> None:
    with pytest.raises(InputError, match=says):
        panel(kind, subject_of(), Ask(**asked))


def test_without_trials_there_is_nothing_to_slice(subject_of: Callable[..., Any]) -> None:
    for kind in ("slices", "parallel", "sensitivity", "contours"):
        with pytest.raises(InputError, match="no arm was tuned"):
            panel(kind, subject_of(trials=0, hypers=1), Ask())


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
