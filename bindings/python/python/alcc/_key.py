# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A name for a case of a sweep: what its row depends on, as a hash."""
import hashlib
import json
import operator
import os
import sys
import types

from alcc._alcc import Trace, __version__, files_of
from alcc._errors import ScenarioError

#: Of the name of a file: 64 bits, so that a million runs do not meet.
KEY_DIGITS = 16
#: Attributes of a class that say where it is, and not what it does.
ABOUT = {
    "__annotate_func__",
    "__annotations__",
    "__annotations_cache__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__qualname__",
    "__static_attributes__",
    "__weakref__",
}


class Keys:
    """Names for cases: those of the same arguments, files and classes, with this version.

    What was read for one case is not read again for the next.
    """

    def __init__(self):
        self._files = {}
        self._hashes = {}

    def key(self, case):
        try:
            plain = _plain(case)
            said = json.dumps([__version__, plain, self._read_by(case, plain)], sort_keys=True)
        except RecursionError:
            raise ScenarioError("sweep: found a list within itself, expected texts, numbers, traces or classes") from None
        return hashlib.sha256(said.encode()).hexdigest()[:KEY_DIGITS]

    def _read_by(self, case, plain):
        """The files that the case reads, those named within a text or a file too: name and content."""
        # Reading a case may take as long as making a channel. The seed chooses no file.
        asked = json.dumps({name: of for name, of in plain.items() if name != "seed"}, sort_keys=True)
        if asked not in self._files:
            self._files[asked] = [os.fspath(name) for name in files_of(**case)]
        return [[name, self._hash(name)] for name in self._files[asked]]

    def _hash(self, name):
        if name not in self._hashes:
            try:
                with open(name, "rb") as file:
                    self._hashes[name] = hashlib.sha256(file.read()).hexdigest()
            except OSError:
                # The run says what is wrong with it.
                self._hashes[name] = None
        return self._hashes[name]


def _plain(value):
    if isinstance(value, dict):
        return {str(name): _plain(of) for name, of in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(of) for of in value]
    if isinstance(value, type):
        return _Code().said(value)
    if isinstance(value, Trace):
        return _trace(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, int) and value.bit_length() > 64:
        # Python writes no number of thousands of digits.
        return ["integer", hex(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "__index__"):
        # NumPy's whole numbers are no int.
        return operator.index(value)
    raise ScenarioError(f"sweep: found a value of type {type(value).__name__}, expected texts, numbers, traces or classes")


def _trace(value):
    return ["trace", value.name, value.opportunities.to_pydict()["time_ms"]]


class _Code:
    """The behaviour of classes and functions: their code and what it refers to.

    Their source would not do. What is typed at a prompt has none, and what it refers to is not in
    it: base classes, constants, helpers, variables of the function around it.
    """

    def __init__(self):
        self._met = {}

    def said(self, value):
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, (int, float, complex)):
            return ["number", hex(value) if isinstance(value, int) else repr(value)]
        if isinstance(value, (bytes, bytearray)):
            return ["bytes", value.hex()]
        if isinstance(value, Trace):
            return _trace(value)
        if id(value) in self._met:
            return ["again", self._met[id(value)]]
        self._met[id(value)] = len(self._met)
        if isinstance(value, (list, tuple)):
            return [self.said(of) for of in value]
        if isinstance(value, (set, frozenset)):
            return ["set", sorted(json.dumps(self.said(of)) for of in value)]
        if isinstance(value, dict):
            return ["dict", [[self.said(name), self.said(of)] for name, of in value.items()]]
        if isinstance(value, (staticmethod, classmethod)):
            return [type(value).__name__, self.said(value.__func__)]
        if isinstance(value, property):
            return ["property", [self.said(of) for of in (value.fget, value.fset, value.fdel)]]
        if isinstance(value, types.CodeType):
            return ["code", value.co_code.hex(), value.co_names, self.said(value.co_consts)]
        if isinstance(value, type) and _is_own(value):
            return ["class", value.__qualname__, [self._base(of) for of in value.__mro__]]
        if isinstance(value, types.FunctionType) and _is_own(value):
            return ["function", *self._function(value)]
        if hasattr(value, "tobytes") and hasattr(value, "dtype"):
            return ["array", str(value.dtype), hashlib.sha256(value.tobytes()).hexdigest()]
        # Of other objects only what they are is known.
        named = value if isinstance(value, (type, types.FunctionType, types.ModuleType)) else type(value)
        return ["other", getattr(named, "__module__", ""), getattr(named, "__qualname__", named.__name__)]

    def _base(self, base):
        if not _is_own(base):
            return [base.__module__, base.__qualname__]
        return [[name, self.said(of)] for name, of in sorted(vars(base).items()) if name not in ABOUT]

    def _function(self, function):
        cells = (cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell))
        known = function.__globals__
        names = sorted(name for name in set(_names(function.__code__)) if name in known)
        yield self.said(function.__code__)
        yield self.said(function.__defaults__)
        yield self.said(function.__kwdefaults__)
        yield [self.said(of) for of in cells]
        yield [[name, self.said(known[name])] for name in names]


def _is_filled(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _names(code):
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


def _is_own(value):
    """Not of Python or of a package that is installed."""
    import sysconfig

    name = value.__module__
    if name == "__main__":
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or name.partition(".")[0] == "alcc":
        return False
    places = (sysconfig.get_path(of) for of in ("stdlib", "platstdlib", "purelib", "platlib"))
    return not any(file.startswith(place + os.sep) for place in places)
