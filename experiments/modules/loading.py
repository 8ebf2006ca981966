"""Loading: a user's file becomes a module, once a process, with its folder importable as `python FILE` has it. Light.

A file is imported by its path under a private name, so that `reports.py` of the user's hides nothing of ours; one that
imports relatively is imported as a part of its package. Both are found again by worker processes that start afresh.
What a file said when it was imported is remembered by its hash, so that a record never tells of a later text.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from algos.finding import InputError
from experiments.modules import private
from experiments.modules.siblings import HERE, OURS, files, refuse_shadowed, relative

_imported: dict[Path, ModuleType] = {}
_importing: set[Path] = set()
_folders: list[Path] = []
_hashes: dict[Path, str] = {}
_LIBRARY = re.compile(r"[/\\](site|dist)-packages[/\\]|\.so$")
_LIBRARIES = tuple({Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")})


def by_path(path: Path, place: str) -> ModuleType:
    """The module of a file. InputError where there is none, or its code raises."""
    said = str(path)
    path = path.expanduser().resolve()
    if path in _imported:
        return _imported[path]
    if not path.is_file():
        what = "is a folder" if path.is_dir() else f"is no file (looked for in {Path.cwd()})"
        raise InputError(f"{said} {what}", f"give {place}=FILE.py:CLASS", rule="no-file", place=place)
    if path in _importing:
        cure = "put what runs there under `if __name__ == '__main__':`"
        raise InputError(f"{said} runs trainlab while it is imported", cure, rule="their-code", place=place)
    held = _held(path)
    if held is None:
        root = _package_root(path)
        roots = [path.parent, *([root.parent] if root else [])]
        refuse_shadowed(path, roots, [folder for folder in _folders if folder not in roots], place)
        _hashes[path] = _sha256(path)
        _importing.add(path)
        try:
            held = _run(path, root, roots, place)
        finally:
            _importing.discard(path)
    _imported[path] = held
    _remember(path)
    return held


def by_name(name: str, place: str) -> ModuleType:
    """The module of a dotted name. InputError where there is none, or its code raises."""
    try:
        _refuse_shadowed_package(name, place)
        module = importlib.import_module(name)
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if not (error.name and (name == error.name or name.startswith(f"{error.name}."))):
            raise _theirs(error, None, name, place) from error
        file = Path(f"{name.replace('.', '/')}.py")
        whose = "trainlab's own package has" if name.partition(".")[0] in OURS else "Python finds"
        cure = (
            f"give the file: {place}={file}:CLASS" if file.is_file() else "install it, or give the file: FILE.py:CLASS"
        )
        raise InputError(f"{whose} no module '{error.name}'", cure, rule="no-module", place=place) from None
    except Exception as error:
        raise _theirs(error, None, name, place) from error
    if module.__dict__.get("__file__"):
        _remember(Path(module.__file__ or "").resolve())
    return module


def hashes(path: Path) -> dict[Path, str]:
    """sha256 of a file as it was imported, and of every module that came from its own folder or package."""
    _remember(path)
    return {file: _hashes[file] for file in _own(path)}


def changed(path: Path) -> list[Path]:
    """Those of them whose file says something else by now."""
    return [file for file, known in hashes(path).items() if not file.is_file() or _sha256(file) != known]


def installed(path: Path) -> bool:
    """Whether a file belongs to an installed package, or to Python itself."""
    inside = {"site-packages", "dist-packages"} & set(path.parts)
    return bool(inside) or any(path.is_relative_to(library) for library in _LIBRARIES)


def _run(path: Path, root: Path | None, roots: list[Path], place: str) -> ModuleType:
    name = private.name(path)
    if relative(path):
        if root is None:
            cure = f"put an __init__.py into {path.parent}, or import siblings by their name"
            raise InputError(f"{path.name} imports relatively, but is in no package", cure, place=place)
        if root.name in OURS and root != HERE / root.name:
            said = f"{path.name} is in a package '{root.name}' of yours, which is the name of trainlab's own"
            raise InputError(said, f"rename {root}", rule="shadowed", place=place)
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
    _make_importable(roots)
    try:
        module = importlib.import_module(name)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise _theirs(error, path, path.name, place) from error
    if os.path.realpath(module.__dict__.get("__file__") or "") != str(path):
        said = f"{path.name} is '{name}', but Python has another one ({module.__dict__.get('__file__')})"
        raise InputError(said, "rename one of the two", rule="shadowed", place=place)
    return module


def _refuse_shadowed_package(name: str, place: str) -> None:
    spec = importlib.util.find_spec(name.partition(".")[0])
    if name in sys.modules or spec is None or not spec.origin or installed(Path(spec.origin)):
        return
    origin = Path(spec.origin).resolve()
    root = origin.parent.parent if spec.submodule_search_locations else origin.parent
    for file in files(root, name)[-1:]:
        refuse_shadowed(file, [root], [], place)


def _make_importable(roots: list[Path]) -> None:
    """Put the folders where `python FILE` has its own: first. Our packages are held before, so none of ours is hidden.
    Folders of earlier files stay before later ones, so that what those import late is still theirs."""
    for name in OURS[:3]:
        importlib.import_module(name)
    for root in roots:
        if root not in _folders:
            _folders.append(root)
            if str(root) not in sys.path:
                sys.path.insert(len(_folders) - 1, str(root))


def _package_root(path: Path) -> Path | None:
    """The topmost folder of the package that a file is in; None where its folder is no package."""
    root = None
    for folder in path.parents:
        if not (folder / "__init__.py").is_file():
            return root
        root = folder
    return root


def _modules() -> Iterator[tuple[Path, ModuleType]]:
    """(file, module) of everything imported, but for the script that runs and installed packages."""
    for name, module in sys.modules.copy().items():  # in one go: other threads import too
        file = getattr(module, "__dict__", {}).get("__file__")
        if name not in ("__main__", "__mp_main__") and isinstance(file, str) and not _LIBRARY.search(file):
            yield _real(file), module


@functools.cache
def _real(file: str) -> Path:
    return Path(os.path.realpath(file))


def _held(path: Path) -> ModuleType | None:
    """A module that was imported from the file already, whoever did it."""
    found: Any = next((module for file, module in _modules() if file == path), None)
    if found is not None and getattr(found.__spec__, "_initializing", False):
        return None
    return found if isinstance(found, ModuleType) else None


def _own(path: Path) -> list[Path]:
    """The file, and the files of modules from its own folder or package that are neither installed nor ours."""
    root = _package_root(path) or path.parent
    ours = [HERE / name for name in OURS]

    def own(file: Path) -> bool:
        return file.is_relative_to(root) and not installed(file) and not any(map(file.is_relative_to, ours))

    return [path, *sorted({file for file, _ in _modules() if own(file) and file != path})]


def _remember(path: Path) -> None:
    for file in _own(path):
        if file not in _hashes:
            _hashes[file] = _sha256(file)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _theirs(error: BaseException, path: Path | None, name: str, place: str) -> InputError:
    """What their code raised on import, in one line: the last frame of their own, and the message."""
    if isinstance(error, SystemExit):
        cure = "put what runs there under `if __name__ == '__main__':`"
        return InputError(f"{name} ends Python when it is imported", cure, rule="their-code", place=place)
    frames = traceback.extract_tb(error.__traceback__)
    folder = str(path.parent) if path else ""
    own = [frame for frame in frames if path and frame.filename.startswith(folder) and not _foreign(frame.filename)]
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else name
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{Path(error.filename).name}:{error.lineno}"
        message = f"SyntaxError: {error.msg}"
    else:
        message = " ".join(traceback.format_exception_only(error)[-1].split())
    cure = f"mend it; `python {path or '-m ' + name}` shows where"
    missing = getattr(error, "name", None) or ""
    if isinstance(error, ModuleNotFoundError) and (Path.cwd() / missing.partition(".")[0]).is_dir():
        cure = f"'{missing.partition('.')[0]}' stands in this folder: put PYTHONPATH=. before the command"
    return InputError(f"{where}: {message}", cure, rule="their-code", place=place)


def _foreign(file: str) -> bool:
    path = Path(os.path.realpath(file))
    return installed(path) or any(path.is_relative_to(HERE / name) for name in OURS)
