"""Fingerprints: what an object of this process is, as text that is the same in every process. Torch-free.

Two functions that look alike are two where what they hold differs: their closure, their defaults, the arguments of a
partial, the classes they build on, the settings of their file that they read.
"""

from __future__ import annotations

import dis
import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any, NamedTuple

#: So many parts of an object are told at most, and so deep.
_PARTS, _DEPTH = 20_000, 40
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
#: What a class holds that says nothing of what it does.
_SKIPPED = frozenset(
    ("__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__abstractmethods__", "_abc_impl")
)


class Fingerprint(NamedTuple):
    """whole: whether it says all; where it does not, two objects of one text may still differ."""

    text: str
    whole: bool


def fingerprint(found: Any) -> Fingerprint:
    """What a class, function, partial or instance is.

    >>> one, other = (fingerprint(functools.partial(print, sep=sep)) for sep in ",;")
    >>> one == other, one == fingerprint(functools.partial(print, sep=","))
    (False, True)
    """
    teller = _Teller()
    text = teller.tell(found)
    return Fingerprint(text, teller.whole)


def called(found: Any) -> bool:
    """Whether an object is called to make something: a class, a function or a partial of one."""
    return inspect.isclass(found) or inspect.isroutine(found) or isinstance(found, functools.partial)


def importable(found: Any) -> ModuleType | None:
    """The module that another process can import a class or function from; None where there is none."""
    module = sys.modules.get(getattr(found, "__module__", None) or "")
    if module is None or module.__name__ in ("__main__", "__mp_main__"):
        return None
    held: Any = module
    for part in getattr(found, "__qualname__", "").split("."):
        held = getattr(held, part, None)
    return module if held is found else None


class _Teller:
    """Tells one object, each part of it once."""

    def __init__(self) -> None:
        self.whole = True
        self._seen: dict[int, tuple[int, Any]] = {}
        self._left = _PARTS
        self._depth = 0

    def tell(self, value: Any) -> str:
        if isinstance(value, _PLAIN):
            self._left -= 1
            return repr(value)
        if id(value) in self._seen:
            return f"<{self._seen[id(value)][0]}>"
        if self._left <= 0 or self._depth >= _DEPTH:
            self.whole = False
            return type(value).__qualname__
        self._left -= 1
        self._depth += 1
        if not isinstance(value, (tuple, frozenset, CodeType)):  # constants: whether one is shared says nothing
            self._seen[id(value)] = (len(self._seen), value)
        try:
            return self._told(value)
        finally:
            self._depth -= 1

    def _told(self, value: Any) -> str:
        if isinstance(value, ModuleType):
            return value.__name__
        if inspect.isclass(value) or inspect.isroutine(value):
            module = importable(value)
            if module is not None:
                return f"{module.__name__}.{value.__qualname__}"
            return self._class(value) if inspect.isclass(value) else self._function(value)
        if isinstance(value, functools.partial):
            return f"partial({self.tell(value.func)},{self.tell(value.args)},{self.tell(value.keywords)})"
        if isinstance(value, CodeType):
            return self._compiled(value)
        if isinstance(value, Mapping):
            return f"{{{','.join(f'{self.tell(key)}:{self.tell(part)}' for key, part in value.items())}}}"
        if isinstance(value, (list, tuple)):
            return f"[{','.join(map(self.tell, value))}]"
        if isinstance(value, (set, frozenset)):
            return f"{{{','.join(sorted(map(self.tell, value)))}}}"
        return self._instance(value)

    def _function(self, value: Any) -> str:
        if hasattr(value, "__func__"):
            return f"bound({self.tell(value.__func__)},{self.tell(value.__self__)})"
        if _code(value) is None:
            return f"{type(value).__name__}({value.__qualname__},{self.tell(getattr(value, '__self__', None))})"
        said = [self.tell(_code(value)), self.tell(value.__defaults__), self.tell(value.__kwdefaults__)]
        said += [self._cell(cell) for cell in value.__closure__ or ()]
        for name in dict.fromkeys(_globals(_code(value))):
            if name in value.__globals__:
                said.append(f"{name}={self._global(value.__globals__[name])}")
        if value.__dict__:
            said.append(self.tell(dict(value.__dict__)))
        return f"function({','.join(said)})"

    def _cell(self, cell: Any) -> str:
        try:
            return self.tell(cell.cell_contents)
        except ValueError:
            return "empty"

    def _global(self, value: Any) -> str:
        """Both of two functions read it when they are called: an instance's own state is no difference of theirs."""
        if isinstance(value, (*_PLAIN, ModuleType, Mapping, list, tuple, set, frozenset)) or called(value):
            return self.tell(value)
        return type(value).__qualname__

    def _compiled(self, code: CodeType) -> str:
        names = (code.co_argcount, code.co_kwonlyargcount, code.co_names, code.co_varnames, code.co_freevars)
        return f"code({code.co_code.hex()},{names},{self.tell(code.co_consts)})"

    def _class(self, value: Any) -> str:
        held = {key: part for key, part in vars(value).items() if key not in _SKIPPED}
        bases = ",".join(map(self.tell, value.__bases__))
        return f"class {value.__qualname__}({bases}){{{','.join(f'{k}:{self._held(p)}' for k, p in held.items())}}}"

    def _held(self, value: Any) -> str:
        """What a class holds under a name: methods of every kind by their function."""
        if isinstance(value, (staticmethod, classmethod)):
            return f"{type(value).__name__}({self.tell(value.__func__)})"
        if isinstance(value, property):
            return f"property({self.tell(value.fget)},{self.tell(value.fset)},{self.tell(value.fdel)})"
        return "slot" if inspect.ismemberdescriptor(value) or inspect.isgetsetdescriptor(value) else self.tell(value)

    def _instance(self, value: Any) -> str:
        kind = self.tell(type(value))
        if hasattr(value, "tolist") and hasattr(value, "shape"):
            if math.prod(value.shape) <= _PARTS:
                return f"{kind}({getattr(value, 'dtype', '')},{self.tell(value.tolist())})"
        elif (pickled := _pickled(value)) or hasattr(value, "__dict__"):
            try:
                return f"{kind}({self.tell(pickled() if pickled else value.__dict__)})"
            except Exception:  # theirs, or what nothing can pickle
                pass
        elif " at 0x" not in repr(value):
            return f"{kind}({value!r})"
        self.whole = False
        return kind


def _code(value: Any) -> CodeType | None:
    code = getattr(value, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _globals(code: CodeType | None) -> Iterator[str]:
    """The names that a function, or one inside it, reads from its file."""
    if code is None:
        return
    yield from (each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner)


def _pickled(value: Any) -> Callable[[], Any] | None:
    """How an instance says what it holds, where its class has a way of its own."""
    for name in ("__reduce__", "__getstate__"):
        if getattr(type(value), name, None) is not getattr(object, name, None):
            pickled: Callable[[], Any] = getattr(value, name)
            return pickled
    return None
