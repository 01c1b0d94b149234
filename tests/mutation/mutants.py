"""Faults that can be planted in a module, and the seed that draws among them.

A fault changes one statement of a function: a comparison, a condition, ``and`` and ``or``, ``not``,
arithmetic, a number, a truth value, ``min`` and ``max``, ``any`` and ``all``, ``break`` and ``continue``, the
value that it returns; or it removes a call or a ``raise``. These are not touched: docstrings and other texts,
log lines, ``assert`` (it tells the type checker), annotations, what is raised (its text is for readers),
``__repr__`` and ``__str__``, f-strings, and all that runs at an import (it belongs to no test).
"""

import ast
import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch

from tests.mutation.probe import blocks, is_docstring

PACKAGE = "operator/cooperator/"
ROOMS = {
    "leader": ("leader/*",),
    "planner": ("planner/*",),
    "agent": ("agent/*",),
    "loop": ("connectors/microbatch/*",),
    "sinks": (
        *("connectors/*_sink.py", "connectors/*_target.py", "connectors/output*.py", "connectors/intents/*"),
        *("connectors/exactly_once.py", "connectors/fence.py"),
    ),
    "controller": ("controller/*",),
}
"""Where faults are planted, as patterns of files below ``PACKAGE``; ``*`` includes folders."""

LOGGERS = {"log", "logger"}
TEXTS = {"__repr__", "__str__"}
OPPOSITES: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


def room_of(file: str) -> str | None:
    """Returns the room of a file of the project, None outside of all rooms."""
    inner = file.removeprefix(PACKAGE)
    if inner == file or not inner.endswith(".py"):
        return None
    return next((room for room, patterns in ROOMS.items() if any(fnmatch(inner, p) for p in patterns)), None)


@dataclass(frozen=True, order=True)
class Mutant:
    """``before``, from byte ``start`` of ``file``, becomes ``after``, in the statement at ``line``."""

    file: str
    line: int
    start: int
    before: str
    after: str
    operator: str
    digest: str = ""
    """The mutated source's, for those that were drawn."""

    @property
    def room(self) -> str:
        return room_of(self.file) or "elsewhere"

    def applied_to(self, source: str) -> str:
        """Returns the mutated source. Raises ValueError when the file has changed since the draw."""
        code = source.encode()
        end = self.start + len(self.before.encode())
        mutated = (code[: self.start] + self.after.encode() + code[end:]).decode()
        if self.digest and digest_of(mutated) != self.digest:
            raise ValueError(f"{self.file} has changed since the draw: draw again")
        return mutated


def digest_of(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def draw(sources: Mapping[str, str], executed: Mapping[str, set[int]], seed: int, count: int) -> list[Mutant]:
    """Draw faults for ``count`` statements, of ``executed`` lines by file: each statement is as likely as the
    others, and so is each of its faults. A greater count of the same seed adds to the same ones.
    """
    by_statement: dict[tuple[str, int], list[Mutant]] = {}
    for file in sorted(executed):
        for mutant in mutants_of(file, sources[file]):
            if mutant.line in executed[file]:
                by_statement.setdefault((file, mutant.line), []).append(mutant)
    chance = random.Random(seed)
    statements = sorted(by_statement)
    chance.shuffle(statements)
    drawn = [chance.choice(by_statement[statement]) for statement in statements[:count]]
    return [replace(m, digest=digest_of(m.applied_to(sources[m.file]))) for m in drawn]


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Returns all faults of a file, in the order of its text."""
    code = source.encode()
    starts = [0]
    for line in code.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = set()
    tree = ast.parse(source)
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in TEXTS]
    skipped = {inner for node in texts for inner in ast.walk(node)}
    for block in blocks(tree):
        for position, statement in enumerate(block):
            if is_docstring(block, position) or statement in skipped:
                continue
            for node, operator, after in faults_of(statement):
                start = starts[node.lineno - 1] + node.col_offset
                end = starts[node.end_lineno - 1] + node.end_col_offset
                before = code[start:end].decode()
                found.add(Mutant(file, statement.lineno, start, before, after, operator))
    return sorted(found)


def faults_of(statement: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Yields what is replaced, the operator, and the new text, for the statement without those in it."""
    match statement:
        case ast.Assert() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return
        case ast.Raise():
            yield statement, "raise removed", "pass"
            return
        case ast.Expr(value=ast.Call() | ast.Await() as call):
            if is_log_line(call):
                return
            yield statement, "call removed", "pass"
        case ast.Break():
            yield statement, "break to continue", "continue"
        case ast.Continue():
            yield statement, "continue to break", "break"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield value, "None returned", "None"
        case ast.If(test=test) | ast.While(test=test) if is_negatable(test):
            yield test, "condition negated", f"not ({ast.unparse(test)})"
        case ast.AugAssign(op=op) if type(op) in ARITHMETIC:
            changed = ast.AugAssign(statement.target, ARITHMETIC[type(op)](), statement.value)
            yield statement, "arithmetic", ast.unparse(changed)
    for node in own_expressions(statement):
        if isinstance(node, ast.comprehension):
            for test in filter(is_negatable, node.ifs):
                yield test, "condition negated", f"not ({ast.unparse(test)})"
            continue
        for operator, changed in changes_of(node):
            # In parentheses, it fits wherever the expression stood.
            yield node, operator, f"({ast.unparse(changed)})"


def is_negatable(test: ast.expr) -> bool:
    """Whether the operators of what it consists of do not include its negation already."""
    match test:
        case ast.UnaryOp(op=ast.Not()) | ast.Compare(ops=[_]):
            return False
    return True


def is_log_line(call: ast.expr) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name.lower().strip("_") in LOGGERS
    return False


def own_expressions(statement: ast.stmt) -> Iterator[ast.expr | ast.comprehension]:
    """Yields the expressions of a statement, without its annotation, and without f-strings, whose parts have
    no places in the source before Python 3.12.
    """
    annotation = getattr(statement, "annotation", None)
    waiting = [node for node in ast.iter_child_nodes(statement) if node is not annotation]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr | ast.pattern | ast.stmt | ast.ExceptHandler):
            continue
        if isinstance(node, ast.match_case):
            waiting += [node.guard] if node.guard else []
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.expr | ast.comprehension):
            yield node


def changes_of(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yields an operator's name and the changed expression."""
    match node:
        case ast.Compare(ops=[op]):
            for other in OPPOSITES[type(op)]:
                yield "comparison", ast.Compare(node.left, [other()], node.comparators)
        case ast.BoolOp(op=ast.And()):
            yield "and to or", ast.BoolOp(ast.Or(), node.values)
        case ast.BoolOp(op=ast.Or()):
            yield "or to and", ast.BoolOp(ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield "not removed", node.operand
        case ast.IfExp() if is_negatable(node.test):
            yield "condition negated", ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            if not (is_no_number(left) or is_no_number(right)):
                yield "arithmetic", ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            other = FUNCTIONS[name]
            yield f"{name} to {other}", ast.Call(ast.Name(other), node.args, node.keywords)
        case ast.Constant(value=bool(value)):
            yield "truth value", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "number + 1", ast.Constant(value + 1)
            yield "number - 1", ast.Constant(value - 1)


def is_no_number(node: ast.expr) -> bool:
    """Whether it is a text or a class, which has no other operators."""
    match node:
        case ast.JoinedStr() | ast.Constant(value=str() | bytes() | None):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name[0].isupper() and not name.isupper()
    return False
