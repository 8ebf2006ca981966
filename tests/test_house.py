"""The house: who imports whom, what loads nothing heavy, and what README promises is there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from algos.catalogue import KINDS

ROOT = Path(__file__).parent.parent
PACKAGES = ("algos", "experiments", "reports", "trainlab")
HEAVY = ("torch", "lightning", "mlflow", "optuna", "pandas", "matplotlib")


def modules(package: str) -> dict[str, Path]:
    """Dotted name -> file, of every module of a package."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it. `from a.b import c` may mean the module a.b.c."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path}: a relative import"
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                folder = ROOT / name.replace(".", "/")
                yield name if folder.is_dir() or folder.with_suffix(".py").exists() else node.module


def allowed(module: str, imported: str) -> bool:
    """Whether a module of ours may import a module."""
    package, top = module.split(".")[0], imported.split(".")[0]
    if top in ("notebooks", "tests") or (top == "trainlab" and package != "trainlab"):
        return False
    if package == "algos":
        return _allowed_in_algos(module, imported, top)
    if package == "experiments":
        return top != "reports" and not (_inside(module, "experiments.store") and top in HEAVY[:2])
    if package == "reports":
        ours = _inside(imported, "experiments.store") or imported == "algos.finding"
        return (ours or top not in ("algos", "experiments")) and top not in HEAVY[:2]
    return True


def _allowed_in_algos(module: str, imported: str, top: str) -> bool:
    if top != "algos":
        return top in ("torch", "numpy") or top in sys.stdlib_module_names
    kind = next((kind for kind in KINDS if _inside(imported, f"algos.{kind}")), None)
    return kind is None or _inside(module, f"algos.{kind}")


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, path in modules(package).items()
        for imported in imports(path)
        if not allowed(module, imported)
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("module", "imported", "may"),
    [
        ("algos.optimizers.lion", "algos.spec", True),
        ("algos.optimizers.lion", "algos.wrappers.ema", False),
        ("algos.spec", "algos.optimizers.lion", False),
        ("algos.optimizers.lion", "lightning", False),
        ("algos.optimizers.lion", "experiments.config", False),
        ("experiments.loop", "algos.contracts", True),
        ("experiments.loop", "reports.table", False),
        ("experiments.loop", "trainlab", False),
        ("experiments.store.home", "torch", False),
        ("reports.table", "experiments.store.schema", True),
        ("reports.table", "experiments.training", False),
        ("reports.table", "algos.spec", False),
        ("reports.table", "algos.finding", True),
        ("reports.table", "torch.nn", False),
        ("trainlab.cli", "reports.report", True),
    ],
)
def test_the_rule_of_directions(module: str, imported: str, may: bool) -> None:
    assert allowed(module, imported) == may


def loaded_by(code: str) -> set[str]:
    """The heavy packages that a fresh Python holds after `code`."""
    probe = f"import sys\n{code}\nprint('loaded:', *[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.mark.parametrize("package", ["experiments.store", "reports"])
def test_what_reads_the_store_loads_no_torch(package: str) -> None:
    names = [name for name in modules(package.split(".")[0]) if _inside(name, package)]
    assert len(names) > 3
    assert not loaded_by("\n".join(f"import {name}" for name in names)) & {"torch", "lightning"}


def test_declarations_and_configs_load_nothing_heavy() -> None:
    torch_free = ("algos.finding", "algos.spec", "algos.catalogue", "experiments.config", "experiments.task")
    assert not loaded_by("\n".join(f"import {name}" for name in torch_free))


def test_every_file_is_one_idea_and_says_which() -> None:
    for package in PACKAGES:
        for module, path in modules(package).items():
            text = path.read_text()
            assert len(text.splitlines()) <= 400, f"{module} is longer than 400 lines"
            assert path.name == "__init__.py" or ast.get_docstring(ast.parse(text)), f"{module} has no docstring"


def test_no_file_is_named_for_nothing() -> None:
    vague = {"utils", "util", "helpers", "common", "base", "misc"}
    assert not vague & {path.stem for package in PACKAGES for path in modules(package).values()}


def test_init_files_do_no_work() -> None:
    """They name things; no loops, no attempts, no bare calls."""
    work = (ast.For, ast.While, ast.With, ast.Try)
    for package in PACKAGES:
        for module, path in modules(package).items():
            if path.name == "__init__.py":
                body = ast.parse(path.read_text()).body
                assert not any(isinstance(node, work) or _is_call(node) for node in body), module


def _is_call(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/design.md"])
def test_the_make_commands_of_a_page_are_in_the_makefile(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", (ROOT / page).read_text()))
    assert named
    assert named <= targets


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/design.md"])
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()) if "://" not in link]
    assert all((path.parent / link).exists() for link in links), links


def test_the_files_that_readme_lists_exist() -> None:
    folders = "algos|experiments|reports|trainlab|docs|tests|notebooks"
    listed = re.findall(rf"`((?:{folders})/[\w./]+)`", (ROOT / "README.md").read_text())
    assert len(listed) >= 9
    assert [name for name in listed if not (ROOT / name).exists()] == []


def test_notebooks_hold_no_outputs() -> None:
    """They are stored as plain text (jupytext), which cannot hold any."""
    assert not [path for path in (ROOT / "notebooks").rglob("*.ipynb") if _tracked(path)]
    assert list((ROOT / "notebooks").glob("*.py"))


def _tracked(path: Path) -> bool:
    done = subprocess.run(["git", "ls-files", "--error-unmatch", str(path)], cwd=ROOT, capture_output=True)
    return done.returncode == 0
