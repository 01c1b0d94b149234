"""Without an extra, whatever needs it is refused at once, with the command that installs it.

The packages are hidden from a process of its own: the tests' environment has all of them.
"""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cooperator.cli import app
from cooperator.cli import local as local_commands
from cooperator.local.layout import LocalCluster, StateDir, write_json
from cooperator.model.extras import PACKAGES, Extra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = packages_distributions()
OF_DEVELOPERS = {"fuzz", "test"}
HIDES = "import sys; sys.modules.update(dict.fromkeys({names!r})); sys.argv = ['cooperator', *sys.argv[1:]]; "
MEMBER = (
    *("worker", "--group-id", "g", "--bootstrap-servers", "127.0.0.1:9", "--identity", "m-0"),
    *("--state-dir", "m-0", "--incarnation", "first"),
)
SPARK_MEMBER = (*MEMBER, "--checkpoints", "checkpoints")
APPLY = ("local", "apply", "-f", "manifest.yaml", "--state-dir", "state")
WORKER = (
    "apiVersion: cooperator.dev/v1alpha1\nkind: Worker\nmetadata: {name: w}\nspec: {runtime: spark, %s}\n"
)
SINK = (
    "apiVersion: cooperator.dev/v1alpha1\nkind: Connector\nmetadata: {name: c}\n"
    "spec: {workerRef: {name: w}, class: kafka-to-files, "
    "config: {topics: t, path: 's3a://b/p', format: json}}\n"
)
NEEDS = [
    (Extra.SPARK, ("local", "up", "--state-dir", "state"), ""),
    (Extra.SPARK, ("demo", "--directory", "demo"), ""),
    (Extra.SPARK, ("packages",), ""),
    (Extra.SPARK, ("executor",), ""),
    (Extra.SPARK, SPARK_MEMBER, ""),
    (Extra.SPARK, APPLY, WORKER % "replicas: 1"),
    (Extra.SPARK_CONNECT, (*SPARK_MEMBER, "--spark-conf", "spark.master=sc://host:15002"), ""),
    (Extra.SPARK_CONNECT, APPLY, WORKER % "spark: {conf: {spark.master: 'sc://host:15002'}}"),
    (Extra.S3, (*MEMBER, "--checkpoints", "s3a://bucket/path"), ""),
    (Extra.S3, APPLY, WORKER % "checkpointLocation: 's3a://bucket/path'"),
    (Extra.S3, APPLY, SINK),
    (Extra.KUBERNETES, ("operator",), ""),
]
"""(extra, command that needs it, manifest)."""


def hidden(code: str, *extras: Extra) -> str:
    """Code that runs ``code`` as if the packages of the extras were not installed."""
    return HIDES.format(names=[name for extra in extras for name in PACKAGES[extra]]) + code


def run(code: str, *words: str, at: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=120, check=False)


MAIN = "from cooperator.cli.app import main; main()"


@pytest.mark.parametrize(("extra", "words", "manifest"), NEEDS)
def test_what_needs_a_missing_extra_is_refused_with_the_command_that_installs_it(
    tmp_path: Path, extra: Extra, words: tuple[str, ...], manifest: str
) -> None:
    (tmp_path / "manifest.yaml").write_text(manifest)
    write_json(StateDir(tmp_path / "state").cluster, {"id": LocalCluster("local").id})
    done = run(hidden(MAIN, extra), *words, at=tmp_path)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert f"not installed here: pip install 'cooperator[{extra}]'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "state" / "manifests").glob("*.yaml")), "nothing is stored"


def test_programs_and_their_help_need_no_extra() -> None:
    commands = [[name] for name in app._COMMANDS] + [["local", name] for name in local_commands._COMMANDS]
    code = (
        "from typer.testing import CliRunner; from cooperator.cli.app import program\n"
        f"for words in {commands!r}:\n"
        "    done = CliRunner().invoke(program(words), [*words, '--help'])\n"
        "    assert done.exit_code == 0, (words, done.output, done.exception)"
    )
    done = run(hidden(code, *Extra))
    assert done.returncode == 0, done.stderr


def test_only_modules_behind_a_check_import_packages_of_extras() -> None:
    code = (
        "import pkgutil, importlib, cooperator\n"
        "for found in pkgutil.walk_packages(cooperator.__path__, 'cooperator.'):\n"
        "    if found.name.endswith('__main__'): continue\n"
        "    try: importlib.import_module(found.name)\n"
        "    except ModuleNotFoundError as error: print(found.name)"
    )
    needy = run(hidden(code, *Extra)).stdout.split()
    # The commands that import these rooms check their extras first; see the table above.
    rooms = ("cooperator.cli.kubectl.", "cooperator.controller.", "cooperator.telemetry.")
    assert [name for name in needy if not name.startswith(rooms)] == []


def test_extras_are_those_of_the_project() -> None:
    project = PROJECT["optional-dependencies"]
    assert set(project) - OF_DEVELOPERS == set(Extra)
    for extra, packages in PACKAGES.items():
        brought = {_name(text) for text in project[extra]} - _core()
        found = {d for name in packages for d in _distributions(name)}
        assert brought <= found, "each requirement is looked for by one of its packages"


def test_each_import_is_of_a_dependency_or_of_an_extra() -> None:
    of_extras = {name for packages in PACKAGES.values() for name in packages}
    unknown = [
        (str(path), name)
        for path, name in _imports()
        if not any(name == known or name.startswith(f"{known}.") for known in of_extras)
        and not _distributions(name) & _core()
    ]
    assert unknown == []


def _imports() -> Iterator[tuple[Path, str]]:
    for path in (ROOT / "operator").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            for name in names:
                if name.partition(".")[0] not in {*sys.stdlib_module_names, "cooperator"}:
                    yield path, name


def _core() -> set[str]:
    # pydantic brings pydantic_core.
    return {_name(text) for text in PROJECT["dependencies"]} | {"pydantic-core"}


def _name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def _distributions(module: str) -> set[str]:
    return {canonicalize_name(name) for name in DISTRIBUTIONS.get(module.partition(".")[0], ())}
