"""Many tasks: what two of them cannot show and eight of them do, and what a diverged run does to a rank."""

from __future__ import annotations

from typing import Any

import pytest

from reports.document import Paragraph, Parts, Picture, Table, Term
from reports.report import build
from reports.sections.overall import overall, overall_sentence
from reports.sections.summary import summary
from reports.several import several
from reports.table import read

NAME = "sgd-or-adam"
ARMS = {"a": {"level": 0.93}, "b": {"level": 0.96}, "c": {"level": 0.945}}


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def of(made: Any, digits: Any, count: int, arms: Any = None, **more: Any) -> Any:
    tasks = {f"task{index}": digits for index in range(count)}
    return read(made(arms or ARMS, tasks=tasks, seeds=3, trials=0, **more), NAME)


def rows(study: Any) -> list[list[str]]:
    (table,) = [piece for piece in overall(study) if isinstance(piece, Table)]
    return [[words(cell) for cell in row] for row in table.rows]


def test_one_task_has_no_overall(made: Any, digits: Any) -> None:
    assert overall(of(made, digits, 1)) == []
    assert overall_sentence(of(made, digits, 1)) == ()


def test_two_tasks_cannot_show_anything_over_tasks(made: Any, digits: Any) -> None:
    """Signed ranks of 2 tasks: p = 0.5 at best; Friedman of 3 arms: exp(-2) = 0.135."""
    text = words(overall_sentence(of(made, digits, 2)))
    assert text.startswith("Over 2 tasks b has the best mean rank, 1; the test of all arms cannot reach significance")
    assert "No arm is shown to be best over tasks" in text
    pair = words(overall_sentence(of(made, digits, 2, {"a": {"level": 0.93}, "b": {"level": 0.96}})))
    assert "signed ranks over 2 tasks cannot reach significance" in pair


def test_eight_tasks_of_one_order_do(made: Any, digits: Any) -> None:
    """Friedman of 8 tasks, all of one order of 3 arms: chi-squared 16, p = exp(-8) < 0.001; signed ranks 2 / 2^8 each,
    0.0234 after Holm among three."""
    study = of(made, digits, 8)
    text = words(overall_sentence(study))
    assert "that all arms rank alike is refuted (Friedman, p < 0.001)" in text
    assert "It is better than a and c over tasks" in text
    assert [row[:2] for row in rows(study)] == [["b", "1"], ["c", "2"], ["a", "3"]]
    assert {row[-1] for row in rows(study)[1:]} == {"p = 0.023"}


def test_a_diverged_run_is_the_worst_on_its_task(made: Any, digits: Any) -> None:
    memory = made(ARMS, tasks={"one": digits, "two": digits}, seeds=3, trials=0)
    for record in memory.of(task="one", arm="b")[:2]:
        memory.diverge(record)
    found = several(read(memory, NAME))
    assert found is not None
    assert found.middle[0, 1] == float("-inf"), "two of three diverged, so the median did"
    assert found.scores is not None
    assert list(found.scores["b"][:2, 0]) == [0.0, 0.0], "what a diverged run is worth"


def test_tasks_without_a_scale_in_common_have_no_interquartile_mean(made: Any, digits: Any) -> None:
    blank = {**digits, "target": None}
    study = read(made(ARMS, tasks={"one": digits, "two": blank}, seeds=3, trials=0), NAME)
    found = several(study)
    assert found is not None
    assert found.scores is None
    assert len(rows(study)[0]) == 4
    assert [p.picture.name for p in overall(study) if hasattr(p, "picture")] == ["overall-ranks"]


def test_only_tasks_and_arms_that_all_have_are_taken_together(made: Any, digits: Any) -> None:
    memory = made(ARMS, tasks={"one": digits, "two": digits, "three": digits}, seeds=3, trials=0)
    memory.records = [r for r in memory.records if (r.labels.task, r.labels.arm) != ("three", "c")]
    found = several(read(memory, NAME))
    assert found is not None
    assert found.arms == ("a", "b")


def placed(made: Any, digits: Any, levels: Any) -> Any:
    """A study of as many tasks as there are levels {arm: its value}."""
    tasks = {f"task{index:02}": digits for index in range(len(levels))}
    memory = made({arm: {"level": 0.9} for arm in levels[0]}, tasks=tasks, seeds=3, trials=0, noise=1e-6)
    for record in memory.of(phase="final"):
        memory.with_final(record, test__accuracy=levels[int(record.labels.task[-2:])][record.labels.arm])
    return memory


def test_signed_ranks_that_oppose_the_mean_rank_are_no_proof_of_it(made: Any, digits: Any) -> None:
    """On 6 of 20 tasks A is before B by 0.002, three others between; on 14 B is before A by 0.05. Mean ranks 1.7 and
    (14 + 6 x 5) / 20 = 2.2, so A leads; of the signed ranks 1 to 20 B has all from 7 on, 189 of 210."""
    near = {"A": 0.900, "C": 0.8995, "D": 0.899, "E": 0.8985, "B": 0.898}
    far = {"B": 0.95, "A": 0.90, "C": 0.80, "D": 0.79, "E": 0.78}
    study = read(placed(made, digits, [near] * 6 + [far] * 14), NAME)
    text = words(overall_sentence(study))
    assert "A has the best mean rank, 1.7" in text
    assert "It is better than C, D and E over tasks" in text
    assert "by them, after Holm, B is better than A" in text
    assert text.endswith("No arm is shown to be best over tasks.")
    assert rows(study)[1][:2] == ["B", "2.2"]
    assert rows(study)[1][-1].endswith("the first row is worse")


def test_ranks_and_p_values_are_of_one_measure(made: Any, digits: Any) -> None:
    """On 4 of 8 tasks one of five runs of b diverged, the rest are better than a's: by medians, which ranks are of, b
    leads on all 8, p = 2 / 2^8; by mean scores, with diverged runs as 0, on 4 alone."""
    tasks = {f"task{index}": digits for index in range(8)}
    memory = made({"a": {"level": 0.90}, "b": {"level": 0.93}}, tasks=tasks, seeds=5, trials=0)
    for task in list(tasks)[:4]:
        memory.diverge(memory.of(task=task, arm="b")[0])
    text = words(overall_sentence(read(memory, NAME)))
    assert (
        text == "Over 8 tasks b has the best mean rank, 1. It is better than a over tasks (signed ranks, after Holm)."
    )


def test_arms_that_share_the_best_mean_rank_are_both_named(made: Any, digits: Any) -> None:
    text = words(overall_sentence(read(placed(made, digits, [{"a": 0.9, "b": 0.8}, {"a": 0.8, "b": 0.9}]), NAME)))
    assert text.startswith("Over 2 tasks a and b share the best mean rank, 1.5")


def test_who_is_left_out_is_named(made: Any, digits: Any) -> None:
    """c is the best on seven of eight tasks, and was not run on one; of a ninth task a alone has runs."""
    levels = [{"a": 0.95, "b": 0.90, "c": 0.97}] * 9
    memory = placed(made, digits, levels)
    memory.records = [r for r in memory.records if (r.labels.task, r.labels.arm) != ("task07", "c")]
    memory.records = [r for r in memory.records if r.labels.task != "task08" or r.labels.arm == "a"]
    study = read(memory, NAME)
    text = words(overall_sentence(study))
    assert text.startswith("Over 8 tasks a has the best mean rank")
    assert "c is left out: it has no outcome on task07." in text
    assert "The task task08 is left out: fewer than two arms have outcomes there." in text
    assert text in [words(block.parts) for block in summary(study, []) if isinstance(block, Paragraph)]


def test_no_two_arms_on_all_tasks_is_said(made: Any, digits: Any) -> None:
    memory = placed(made, digits, [{"a": 0.95, "b": 0.90, "c": 0.97}] * 2)
    gone = {("task00", "b"), ("task01", "c")}
    memory.records = [r for r in memory.records if (r.labels.task, r.labels.arm) not in gone]
    study = read(memory, NAME)
    text = words(overall_sentence(study))
    assert text.startswith("Over 2 tasks nothing is shown: fewer than two arms have outcomes on all of them.")
    assert "b is left out: it has no outcome on task00." in text
    assert len(overall(study)) == 2


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_pictures_have_their_data_and_words(made: Any, digits: Any, mode: str) -> None:
    facts = {**digits, "mode": mode, **({"metric": "loss", "worst": 2.0, "target": 0.5} if mode == "min" else {})}
    report = build(read(made(ARMS, tasks={"one": facts, "two": facts}, seeds=3, trials=0), NAME))
    names = {block.name: block for block in report.document.blocks if isinstance(block, Picture)}
    assert {"overall-ranks", "overall-profile"} <= set(names)
    best = "b" if mode == "max" else "a"
    assert f"{best} 1.00" in names["overall-ranks"].alt
    drawings = {drawing.name: drawing for drawing in report.drawings}
    assert {row[0] for row in drawings["overall-profile"].rows} == {"a", "b", "c"}


def test_ties_are_counted_in_what_signed_ranks_can_reach(made: Any, digits: Any) -> None:
    """Eight tasks reach 2 / 2^8; of these three are ties, and five others no less than 2 / 2^5 = 0.0625."""
    levels = [{"a": 0.9, "b": 0.9}] * 3 + [{"a": 0.9, "b": 0.93 + 0.001 * i} for i in range(5)]
    text = words(overall_sentence(read(placed(made, digits, levels), NAME)))
    assert text.endswith("No arm is shown to be best over tasks: signed ranks over 8 tasks cannot reach significance.")
    levels[0] = {"a": 0.9, "b": 0.89}
    text = words(overall_sentence(read(placed(made, digits, levels), NAME)))
    assert text.endswith("No arm is shown to be best over tasks.")
