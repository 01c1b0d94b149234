"""Local mode never speaks of pods: its members are processes.

The test scans the texts of all modules that the daemon, the commands and the members load. Texts that are
only for Kubernetes are listed with the reason.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import typer

from cooperator.cli.local import program

PODS: Final = re.compile(r"\b[Pp]ods?\b")
IMPORTS: Final = (
    "import pkgutil, sys, importlib, cooperator.local as local\n"
    "names = [module.name for module in pkgutil.iter_modules(local.__path__)]\n"
    "[importlib.import_module(f'cooperator.local.{name}') for name in names]\n"
    "import cooperator.agent.main, cooperator.runtime.engine, cooperator.cli.local\n"
    "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('cooperator.') and m.__file__))"
)
DESCRIBES: Final = frozenset({"Field", "Rule"})
"""Calls whose texts are descriptions in the reference, or rules that only an API server evaluates."""
ON_KUBERNETES: Final = (
    # Errors about fields of the spec that are for Kubernetes alone.
    ("crd/owned.py", "a pod's name is its member's identity"),
    ("crd/pod.py", "a pod's name is its member's identity"),
    ("crd/pod.py", "is not a list: write it as in a pod"),
    ("crd/pod.py", "containers of the pod, merged by name"),
    ("crd/worker.py", "cannot reach it: set checkpointVolume"),
    # It says that these fields have no effect here.
    ("local/notes.py", "for pods on Kubernetes; local members are processes"),
    # Names of attributes, which only members on Kubernetes have.
    ("telemetry/settings.py", "k8s.pod."),
    # Nodes are Kubernetes'.
    ("pool/reporting.py", "is on the unreachable node"),
)


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts of a module, without docstrings and descriptions, with their lines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", getattr(node.func, "attr", "")) in DESCRIBES
        ):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value for part in node.values if isinstance(part, ast.Constant))
            yield node.lineno, "…".join(map(str, parts))
        else:
            yield from texts(node)


def test_no_text_of_local_mode_speaks_of_pods() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    files = sorted(map(Path, done.stdout.split()))
    names = {file.name for file in files}
    assert {"reporting.py", "status.py", "machine.py", "resource_commands.py"} <= names
    found = [
        f"{file}:{line}: {text}"
        for file in files
        for line, text in texts(ast.parse(file.read_text()))
        if PODS.search(text) and not text.isidentifier() and not _is_for_kubernetes(file, text)
    ]
    assert found == []


def _is_for_kubernetes(file: Path, text: str) -> bool:
    # Kafka's scenarios count pods, and are no part of local mode.
    is_scenario = file.parent.name == "scenarios"
    return is_scenario or any(file.match(where) and part in text for where, part in ON_KUBERNETES)


def test_no_help_of_local_mode_speaks_of_pods() -> None:
    command = typer.main.get_command(program())
    shown = [command, *command.commands.values()]  # type: ignore[attr-defined]
    helps = [str(getattr(each, "help", "")) for one in shown for each in (one, *one.params)]
    assert len(helps) > 40
    assert [text for text in helps if PODS.search(text)] == []
