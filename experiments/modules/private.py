"""Private names for users' files: `my_module.py` is the module `experiments.modules.private.my_module_1a2b3c4d`. Light.

The name holds the file's stem and a hash of its path, and the finder looks for such a file in the folders that Python
imports from. A worker process that starts afresh gets those folders from its parent; so what it is sent by name (a data
set's class) is found there too.
"""

from __future__ import annotations

import glob
import hashlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

#: Makes this module a package, to Python; what stands in it is found by the finder below.
__path__: list[str] = []


def name(path: Path) -> str:
    """The module's name of a file, from its real path."""
    return f"{__name__}.{path.stem.replace('.', '_')}_{_hash(path)}"


def _hash(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:8]


class Finder(MetaPathFinder):
    """Finds a file by its private name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, own = fullname.rpartition(".")
        if package != __name__:
            return None
        pattern = f"{glob.escape(own.rpartition('_')[0]).replace('_', '?')}.py"  # a dot of the stem is _ in the name
        for folder in sys.path:
            for file in Path(folder).glob(pattern) if folder else ():
                if name(file.resolve()) == fullname:
                    return importlib.util.spec_from_file_location(fullname, file.resolve())
        return None


if not any(type(finder).__name__ == "Finder" and type(finder).__module__ == __name__ for finder in sys.meta_path):
    sys.meta_path.append(Finder())
