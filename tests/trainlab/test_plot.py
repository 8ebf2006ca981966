"""tl.plot, tl.style and `trainlab figure`, as their users have them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import trainlab as tl
from algos.finding import InputError
from trainlab.cli import main

matplotlib.use("Agg")
KINDS = ("curves", "points", "slices", "parallel", "sensitivity", "survival", "pareto", "ablation", "profiles")
STUDY = {
    "name": "tiny",
    "tasks": ["digits"],
    "seeds": 2,
    "budget": {"updates": 60},
    "arms": {"sgd": {"optimizer": "sgd"}, "adamw": {"optimizer": "adamw"}},
    "tune": {"trials": 3},
}


@pytest.fixture(scope="module")
def study(place: Path) -> str:
    tl.sweep(STUDY)
    return "tiny"


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_draws_on_the_axis_given_and_returns_it(study: str, kind: str) -> None:
    axis = Figure().add_subplot()
    assert getattr(tl.plot, kind)(study, ax=axis) is axis
    assert len(tl.plot.data(axis)) > 0
    assert tl.plot.alt(axis)
    assert tl.plot.caption(axis).endswith(".")


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_is_no_mathematics_where_the_users_matplotlib_reads_it(study: str, kind: str) -> None:
    """Outside of our styles too."""
    table = tl.plot.load(study)
    names = {"sgd": "$x^{", "adamw": r"a\$b_c$"}
    cells = {(task, names[arm]): replace(cell, arm=names[arm]) for (task, arm), cell in table.cells.items()}
    hostile = replace(table, arms=tuple(names.values()), cells=cells)
    assert matplotlib.rcParams["text.parse_math"]
    figure = Figure()
    axis = getattr(tl.plot, kind)(hostile, ax=figure.add_subplot())
    figure.draw_without_rendering()
    shown = {text.get_text().strip() for text in axis.findobj(Text) if text.get_text()}
    assert any(name in text for name in names.values() for text in shown)
    assert axis.set_title("$x^2$").get_parse_math(), "the user's own text stays his"


def test_a_name_a_handle_and_a_table_are_one_study(study: str) -> None:
    shown = [
        tl.plot.data(tl.plot.points(given, ax=Figure().add_subplot()))
        for given in (study, tl.study(study), tl.plot.load(study))
    ]
    assert shown[0].equals(shown[1])
    assert shown[0].equals(shown[2])
    assert set(shown[0]["arm"]) == set(STUDY["arms"])  # type: ignore[call-overload]


def test_without_an_axis_it_is_the_current_one(study: str) -> None:
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 2)
    assert tl.plot.points(study) is axes[1]


def test_with_an_axis_pyplot_is_not_loaded(study: str) -> None:
    code = (
        "import sys, trainlab as tl\nfrom matplotlib.figure import Figure\n"
        "with tl.style('icml'):\n    tl.plot.curves('tiny', ax=Figure().add_subplot())\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_panels_compose_in_one_figure(study: str, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt
    from pypdf import PdfReader

    with tl.style("icml", width="text", height=2.5):
        figure, axes = plt.subplots(1, 2)
        tl.plot.curves(study, by="time", ax=axes[0])
        tl.plot.points(study, ax=axes[1])
    files = tl.plot.save(figure, tmp_path / "pair", formats=("pdf", "png"))
    names = [path.name for path in files]
    assert names == ["pair.pdf", "pair.png", "pair-1-curves.csv", "pair-2-points.csv"]
    page = PdfReader(files[0])
    assert float(page.pages[0].mediabox.width) == pytest.approx(6.75 * 72)
    assert float(page.pages[0].mediabox.height) == pytest.approx(2.5 * 72)
    assert "study tiny" in str(page.metadata)
    assert b"/Type3" not in files[0].read_bytes()
    before = files[0].read_bytes()
    assert tl.plot.save(figure, tmp_path / "pair.pdf")[0].read_bytes() == before, "saved twice, the same bytes"


def test_another_series_of_the_runs(study: str) -> None:
    axis = tl.plot.curves(study, metric="train/loss", ax=Figure().add_subplot())
    assert axis.get_ylabel() == "train/loss"
    assert set(tl.plot.data(axis)["updates"]) >= {60}
    with pytest.raises(InputError, match='add mode="max" or mode="min"'):
        tl.plot.curves(study, metric="train/lr", ax=axis)
    with pytest.raises(InputError, match="unknown metric 'train/los'; did you mean 'train/loss'"):
        tl.plot.curves(study, metric="train/los", ax=axis)


def test_examples_are_the_batches_seen(study: str) -> None:
    data = tl.plot.data(tl.plot.curves(study, by="examples", ax=Figure().add_subplot()))
    run = tl.runs(f"study={study} phase=final")[0]
    last = data[(data["run_id"] == run.run_id) & (data["updates"] == 60)]
    assert float(last["examples"].iloc[0]) == run.metrics["count/examples"]


def test_a_confusion_matrix_of_a_run_agrees_with_its_accuracy(study: str) -> None:
    run = next(run for run in tl.runs(f"study={study} phase=final") if run.status == "completed")
    axis = tl.plot.confusion(run, ax=Figure().add_subplot())
    data = tl.plot.data(axis)
    right = data[data["true"] == data["predicted"]]["count"].sum()
    assert data["count"].sum() == 297
    assert right / 297 == pytest.approx(run.metrics["val/accuracy"], abs=1e-9)
    given = tl.plot.confusion(np.eye(3, dtype=int), ["a", "$b$", "_c"], ax=Figure().add_subplot())
    assert [text.get_text().strip() for text in given.get_xticklabels()] == ["a", "$b$", "_c"]


def test_ones_own_style_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("like: icml\nsize: 8\nwidths: {column: 84mm}\n")
    with tl.style(file) as look:
        assert look.size == 8
        assert matplotlib.rcParams["figure.figsize"][0] == pytest.approx(84 / 25.4)
    file.write_text("like: icml\nsise: 8\n")
    with pytest.raises(InputError, match=r"mine.yaml: line 2, column 1.*did you mean 'size'"), tl.style(file):
        pass
    with pytest.raises(InputError, match="unknown style 'icmll'"), tl.style("icmll"):
        pass


def test_a_style_is_refused_where_it_is_asked_for() -> None:
    with pytest.raises(InputError, match="did you mean 'icml'"):
        tl.style("icmll")
    with pytest.raises(InputError, match=r"icml has column \(3.25 in\)"):
        tl.style("icml", width="wide")


def test_a_misspelt_figure_says_which_there_are() -> None:
    with pytest.raises(AttributeError, match=r"unknown figure 'curve'; did you mean 'curves'\? \(valid: ablation, "):
        tl.plot.curve  # noqa: B018
    assert not hasattr(tl.plot, "__wrapped__")


def test_a_cure_is_told_as_it_is_written_in_python(study: str) -> None:
    table = tl.plot.load(study)
    two = replace(table, tasks={**table.tasks, "other one": table.tasks["digits"]})
    with pytest.raises(InputError, match='say which: task="digits" or task="other one"'):
        tl.plot.curves(two)


def test_what_is_no_study_is_said(study: str) -> None:
    with pytest.raises(InputError, match="unknown study 'tniy'; did you mean 'tiny'"):
        tl.plot.curves("tniy")
    with pytest.raises(InputError, match="int is no study"):
        tl.plot.curves(3)  # type: ignore[arg-type]
    axis = Figure().add_subplot()
    with pytest.raises(InputError, match=r"nothing of tl\.plot"):
        tl.plot.data(axis)


def test_the_command_writes_a_figure_and_its_data(study: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    arguments = ["figure", "curves", study, "--by", "time", "--style", "icml", "--format", "pdf,svg,png", "-o"]
    assert main([*arguments, str(tmp_path)]) == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"curves-tiny-time.{kind}" for kind in ("csv", "pdf", "png", "svg")]
    said = capsys.readouterr()
    assert said.out.splitlines()[-1].startswith("digits: validation accuracy by seconds of training")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main([*arguments, str(tmp_path)]) == 0
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cruves", "tiny"], "did you mean 'curves'"),
        (["curves", "tniy"], "did you mean 'tiny'"),
        (["curves", "tiny", "--style", "icmll"], "did you mean 'icml'"),
        (["curves", "tiny", "--style", "none.yaml"], "none.yaml"),
        (["curves", "tiny", "--width", "wide"], "icml has column (3.25 in), text (6.75 in)"),
        (["curves", "tiny", "--format", "pdf,eps"], "unknown format 'eps'"),
        (["curves", "tiny", "--width", "3"], "a width of 3 has no unit"),
        (["curves", "tiny", "--height", "-2in"], "a height of -2 in"),
        (["curves", "tiny", "--format", ","], "no format is given"),
        (["curves", "tiny", "--arm", "sgdd"], "did you mean 'sgd'"),
        (["curves", "tiny", "--against", "sgd"], "curves has no use for --against sgd"),
        (["points", "tiny", "--by", "time"], "points has no use for --by time"),
        (["curves", "tiny", "--mode", "max"], "give both"),
        (["curves", "tiny", "--mode", "maxx"], "give both"),
        (["curves", "tiny", "--metric", "train/los"], "did you mean 'train/loss'"),
        (["curves", "tiny", "--metric", "train/los", "--mode", "min"], "did you mean 'train/loss'"),
        (["curves", "tniy", "--metric", "strange"], "did you mean 'tiny'"),
        (["points", "tiny", "--pairs", "holm"], "points has no use for --pairs holm"),
        (["slices", "tiny", "--by", "lr"], "did you mean 'optimizer.lr'"),
        (["curves", "tiny", "--task", "digts"], "did you mean 'digits'"),
        (["curves", "tiny", "--by", "tme"], "did you mean 'time'"),
        (["confusion", "tiny"], "give a run"),
        (["critical-difference", "tiny"], "2 tasks"),
        (["contours", "tiny", "--arm", "sgdd"], "did you mean 'sgd'"),
    ],
)
def test_what_cannot_be_drawn_is_one_line_and_writes_nothing(
    study: str, arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    style = [] if "--style" in arguments else ["--style", "icml"]
    assert main(["figure", *arguments, *style, "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert says in said[0]
    assert not (tmp_path / "out").exists()


def test_without_xelatex_nothing_is_written(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["figure", "points", study, "--format", "pdf,pgf", "-o", str(tmp_path / "out")]) == 2
    assert "xelatex" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_names_that_differ_in_lost_letters_share_no_files(study: str, tmp_path: Path) -> None:
    from trainlab.commands.figures import _file_name

    assert _file_name("curves", "my-study", "train/loss") == "curves-my-study-train-loss"
    names = ["学习率", "收敛", "a%b", "a&b", "x" * 80 + "1", "x" * 80 + "2"]
    found = [_file_name("curves", name) for name in names]
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(r"curves-[a-z0-9-]+", name) and len(name) <= 60 for name in found)


def test_a_users_own_data_are_not_written_over(study: str, tmp_path: Path) -> None:
    figure = Figure(layout="constrained")
    tl.plot.points(study, ax=figure.add_subplot())
    (tmp_path / "results.csv").write_text("mine\n")
    with pytest.raises(InputError, match=r"results\.csv is there, and trainlab did not write it"):
        tl.plot.save(figure, tmp_path / "results.pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["results.csv"]
    assert (tmp_path / "results.csv").read_text() == "mine\n"
    tl.plot.save(figure, tmp_path / "other.PDF")
    tl.plot.save(figure, tmp_path / "other", formats="pdf, svg")
    assert sorted(path.name for path in tmp_path.glob("other*")) == ["other.csv", "other.pdf", "other.svg"]


@pytest.mark.parametrize("kind", [*KINDS, "confusion"])
def test_parts_of_a_figure_are_laid_out(study: str, kind: str) -> None:
    """On the right, where what has no place of its own would reach to the left edge. Warnings are errors here."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axis = figure.subfigures(1, 2)[1].add_subplot()
    getattr(tl.plot, kind)(np.eye(2) if kind == "confusion" else study, ax=axis)
    figure.draw_without_rendering()
    assert axis.get_position().width > 0.5


def test_what_is_no_plain_axis_is_refused(study: str) -> None:
    figure = Figure()
    for axis, says in (
        (figure, "no axis but Figure"),
        (figure.subplots(1, 2), "no axis but ndarray"),
        (figure.add_subplot(projection="polar"), "a polar axis"),
    ):
        with pytest.raises(InputError, match=says):
            tl.plot.points(study, ax=axis)  # type: ignore[arg-type]


def test_labels_that_are_cut_off_are_told(study: str, tmp_path: Path) -> None:
    figure = Figure(figsize=(3, 2))
    axis = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    tl.plot.points(study, ax=axis)
    with pytest.warns(UserWarning, match="beyond the page and are cut off"):
        tl.plot.save(figure, tmp_path / "cut.pdf")


def test_ctrl_c_is_told(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tl.plot, "subject", interrupted)
    assert main(["figure", "points", study, "-o", str(tmp_path / "out")]) == 130
    assert capsys.readouterr().err == "interrupted: no figure is written\n"
    assert not (tmp_path / "out").exists()
