"""Records the statements that a process executes: one byte of a mapped file for each line.

This module is copied beside the interpreter of a recording tree (``tree``), and imported by each Python
process that starts there, whatever its environment is. It changes modules of the rooms while they are
imported: in functions, each statement first stores a byte in the process's file.

It replaces coverage.py, which traces calls of all libraries, and writes at a process's end or by a thread of
its own. Members of tests have leases that a tracer might exceed, and die by SIGKILL; a mapped file keeps each
byte, whatever ends the process. Statements outside of functions run at an import, which belongs to no test:
they have no probe, and no mutants. Standard library only: each process of the tree imports it.
"""

import ast
import builtins
import marshal
import mmap
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType
from typing import Any

WORKER = "COOPERATOR_MUTATION_WORKER"
"""The environment variable with the name of the pytest process that started this one."""
ANY_WORKER = "any"
"""Stands for it in processes whose environment was replaced."""
BYTES = "__executed__"
"""The name of the mapped file in the modules: a builtin, so that a fork replaces it in one place."""


class Slots:
    """The position of each line of the recorded files in a process's bytes.

    ``index`` has a line ``<first slot> <file>`` for each file, and the number of all slots in its first line.
    """

    def __init__(self, index: str) -> None:
        size, *files = index.splitlines()
        self.size = int(size)
        self.first = {path: int(first) for first, _, path in (line.partition(" ") for line in files)}

    @classmethod
    def of_files(cls, sources: Mapping[str, str]) -> "Slots":
        first, lines = 0, []
        for path, source in sorted(sources.items()):
            lines.append(f"{first} {path}")
            first += source.count("\n") + 2
        return cls("\n".join([str(first), *lines]))

    def __str__(self) -> str:
        return "\n".join([str(self.size), *(f"{first} {path}" for path, first in self.first.items())])


def blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Yields the lists of statements in functions, without docstrings."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {node: None for function in functions for node in ast.walk(function)}
    for node in inside:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block


def is_docstring(block: Sequence[ast.stmt], position: int) -> bool:
    """Also the string below an attribute, which is never executed."""
    statement = block[position]
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def add_probes(tree: ast.Module, first: int) -> ast.Module:
    """Let each statement in functions store a byte at ``first`` plus its line."""
    for block in list(blocks(tree)):
        for position in reversed(range(len(block))):
            if not is_docstring(block, position):
                statement = block[position]
                (store,) = ast.parse(f"{BYTES}[{first + statement.lineno}] = 1").body
                for node in ast.walk(store):
                    ast.copy_location(node, statement)
                block.insert(position, store)
    return tree


class Loader(SourceFileLoader):
    """Loads a module with probes. Its code is cached under a name of its own."""

    def __init__(self, name: str, path: str, first: int) -> None:
        super().__init__(name, path)
        self._first = first

    def get_code(self, fullname: str) -> CodeType:
        cached = Path(cache_from_source(self.path, optimization="probes"))
        with suppress(OSError):
            code: CodeType = marshal.loads(cached.read_bytes())
            return code
        tree = add_probes(ast.parse(self.get_data(self.path)), self._first)
        code = compile(tree, self.path, "exec", dont_inherit=True)
        cached.parent.mkdir(exist_ok=True)
        part = cached.with_suffix(f".{os.getpid()}")
        part.write_bytes(marshal.dumps(code))
        part.replace(cached)
        return code


class Finder(MetaPathFinder):
    """Finds the modules of the rooms, and maps the process's file when it finds the first one."""

    def __init__(self, folder: Path, root: Path) -> None:
        slots = Slots((folder / "index").read_text())
        self._folder = folder
        self._size = slots.size
        self._first = {str(root / path): first for path, first in slots.first.items()}
        self._worker = ANY_WORKER

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith("cooperator."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin in self._first:
            spec.loader = Loader(name, spec.origin, self._first[spec.origin])
            if not hasattr(builtins, BYTES):
                self._map()
                os.register_at_fork(after_in_child=self._map)
        return spec

    def _map(self) -> None:
        self._worker = os.environ.get(WORKER, self._worker)
        path = self._folder / f"{self._worker}.{os.getpid()}.{time.time_ns()}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(descriptor, self._size)
        setattr(builtins, BYTES, mmap.mmap(descriptor, self._size))
        os.close(descriptor)


def install(folder: str, root: str) -> None:
    """Record what this process executes of the files below ``root`` that ``folder``'s index names."""
    sys.meta_path.insert(0, Finder(Path(folder), Path(root)))
