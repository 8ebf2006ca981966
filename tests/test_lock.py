"""The lock: it fulfils pyproject.toml, names nothing of one machine, and is conda's only source of versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINES = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]


def pins() -> dict[str, Version]:
    return {canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in LINES)}


def wanted() -> list[Requirement]:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["notebooks"], *extras["dev"], *PROJECT["build-system"]["requires"]]
    return [Requirement(line) for line in lines]


def test_every_line_is_one_exact_pin_without_host_path_or_local_version() -> None:
    assert len(LINES) > 100
    for line in LINES:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*==[0-9][A-Za-z0-9.]*", line), line


def test_nothing_is_pinned_twice() -> None:
    assert len(pins()) == len(LINES)


def test_the_lock_fulfils_every_requirement_of_the_project() -> None:
    locked = pins()
    for requirement in wanted():
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{requirement} is not in the lock"
        assert locked[name] in requirement.specifier, f"{name} {locked[name]} is not {requirement.specifier}"


def test_the_malicious_lightning_releases_are_refused_by_name() -> None:
    for package in ("lightning", "pytorch-lightning"):
        requirement = next(item for item in wanted() if item.name == package)
        assert "2.6.2" not in requirement.specifier
        assert "2.6.3" not in requirement.specifier


def test_conda_takes_every_version_from_the_lock() -> None:
    environment = YAML(typ="safe").load(ROOT / "environment.yml")
    python, pip, section = environment["dependencies"]
    supported = Requirement(f"python{PROJECT['project']['requires-python']}").specifier
    assert Version(python.removeprefix("python=")) in supported
    assert (pip, section) == ("pip", {"pip": ["-r requirements.lock", "-e ."]})
