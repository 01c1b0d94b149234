"""Text leaves the program at a few places, which escape it; a module that writes by itself is refused."""

import ast
from collections.abc import Iterator
from pathlib import Path

import cooperator

ROOT = Path(cooperator.__file__).parent
WAYS_OUT = {
    "terminal/console.py": {"RichConsole", "sys.excepthook", "typer.confirm", "typer.echo"},
    # The log, and what the interpreter would write by itself.
    "log_lines/setup.py": {
        *("logging.StreamHandler", "logging.basicConfig", "sys.stderr"),
        *("sys.excepthook", "sys.unraisablehook", "threading.excepthook"),
    },
    # One line before the process ends at once, escaped there.
    "host/gate.py": {"os.write"},
    # Programs of the repository, whose output has nothing of users in it.
    "artifacts/lock.py": {"print", "sys.exit", "sys.stderr"},
    "runtime/java/build.py": {"sys.exit"},
    "connectors/reference.py": {"sys.stdout"},
    "controller/manifests/admission.py": {"sys.stdout"},
    # JSON for programs, which is ASCII.
    "runtime/conformance_member.py": {"sys.stdout", "faulthandler"},
    # Into a file of its own.
    "connectors/noop.py": {"os.write"},
}
_CALLS = {
    *("print", "SystemExit", "os.write", "typer.echo", "typer.secho", "typer.confirm", "typer.prompt"),
    *("typer.launch", "logging.basicConfig", "logging.StreamHandler", "logging.FileHandler"),
    *("logging.lastResort", "traceback.print_exc", "traceback.print_exception", "warnings.showwarning"),
    *(
        "pprint.pprint",
        "pprint",
        "rich.print",
        "Text.from_markup",
        "Text.from_ansi",
        "RichConsole",
        "sys.exit",
    ),
}
_NAMES = {
    *("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "sys.excepthook"),
    *("sys.unraisablehook", "threading.excepthook"),
}
_MODULES = {"click", "curses", "faulthandler", "getpass"}


def writers(tree: ast.AST) -> Iterator[str]:
    """Yields each thing that a module uses to write to a terminal or a log by itself."""
    consoles = {"Console", "RichConsole"} & {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("rich", "rich.console")
        for name in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=func, args=args):
                name = ast.unparse(func)
                if name in ("SystemExit", "sys.exit"):
                    # A text would be written to stderr as it is.
                    if args and not _is_harmless(args[0]):
                        yield name
                elif name in _CALLS | consoles:
                    yield name
            case ast.ClassDef(bases=bases):
                yield from (ast.unparse(base) for base in bases if ast.unparse(base) in consoles)
            case ast.Attribute() if ast.unparse(node) in _NAMES:
                yield ast.unparse(node)
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name.split(".")[0] in _MODULES)
            case ast.ImportFrom(module=module, names=names) if module:
                if module.split(".")[0] in _MODULES:
                    yield module
                found = {f"{module}.{each.name}" for each in names}
                yield from found & (_CALLS | _NAMES | {"rich.print", "rich.get_console"})


def _is_harmless(argument: ast.expr) -> bool:
    """Whether an exit has a number, a constant text, or a name of a number."""
    if isinstance(argument, ast.IfExp):
        return _is_harmless(argument.body) and _is_harmless(argument.orelse)
    return isinstance(argument, ast.Constant) or ast.unparse(argument) in ("code", "EXIT_CODE")


def test_only_the_ways_out_write() -> None:
    found: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        used = set(writers(ast.parse(path.read_text())))
        if used:
            found[path.relative_to(ROOT).as_posix()] = used
    assert found == WAYS_OUT, (
        "write to a terminal by cooperator.terminal.console, and to a log by a logger: both escape the text"
    )


def test_the_check_sees_a_module_that_writes_around() -> None:
    for source in (
        "print('a')",
        "import sys; sys.stdout.write('a')",
        "from sys import stdout",
        "import typer; typer.echo('a')",
        "from typer import echo",
        "from rich.console import Console\nConsole().print('a')",
        "from rich.console import Console as RichConsole\nclass Mine(RichConsole): ...",
        "from rich import print",
        "from rich.text import Text\nText.from_markup(a)",
        "import os; os.write(2, b'a')",
        "import logging; logging.basicConfig()",
        "import click",
        "raise SystemExit(f'no: {a}')",
        "import sys; sys.exit(str(error))",
    ):
        assert list(writers(ast.parse(source))), source
    for source in (
        "raise SystemExit(1)",
        "raise SystemExit('constant')",
        "from cooperator.terminal.console import Console\nConsole()",
    ):
        assert not list(writers(ast.parse(source))), source
