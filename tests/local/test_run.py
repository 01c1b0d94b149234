"""``run.py``, the first command: what it makes, skips, asks for and installs."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RUN = Path(__file__).parents[2] / "run.py"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, at home in an empty clone; no command of it reaches the system."""
    spec = importlib.util.spec_from_file_location("run", RUN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run", module)
    spec.loader.exec_module(module)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "stamp.json")
    (tmp_path / ".venv").mkdir()
    return module


class System:
    """Programs that are there, and what those that are run answer (by the words in their command)."""

    def __init__(self, run: ModuleType, monkeypatch: pytest.MonkeyPatch, *programs: str) -> None:
        self.commands: list[list[str]] = []
        self.failing: tuple[str, ...] = ()
        monkeypatch.setattr(run.shutil, "which", lambda name: f"/bin/{name}" if name in programs else None)
        monkeypatch.setattr(run.subprocess, "run", self._run)

    def _run(self, command: list[Any], **_: object) -> "subprocess.CompletedProcess[str]":
        words = [str(word) for word in command]
        self.commands.append(words)
        code = int(any(word in self.failing for word in words))
        return subprocess.CompletedProcess(words, code, "", "")


def as_root(run: ModuleType, monkeypatch: pytest.MonkeyPatch, root: bool) -> None:
    monkeypatch.setattr(run.os, "geteuid", lambda: 0 if root else 1000)


def test_pip_runs_once_and_again_when_something_changed(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system = System(run, monkeypatch)
    run.install_project({"spark"})
    run.install_project({"spark"})
    assert [command[-1] for command in system.commands] == [f"{tmp_path}[spark]"]
    run.install_project({"spark", "test"})
    run.install_project({"spark"})
    assert [command[-1] for command in system.commands[1:]] == [f"{tmp_path}[spark,test]"]
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    run.install_project({"spark"})
    assert [command[-1] for command in system.commands[2:]] == [f"{tmp_path}[spark,test]"]


def test_an_installation_that_failed_is_not_taken_for_done(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System(run, monkeypatch)
    system.failing = ("pip",)
    for _ in range(2):
        with pytest.raises(run.Failure, match="pip failed"):
            run.install_project({"spark"})
    assert len(system.commands) == 2


def test_the_next_java_is_tried_when_the_system_does_not_have_the_first(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System(run, monkeypatch, "apt-get", "sudo")
    system.failing = ("openjdk-17-jre-headless",)
    as_root(run, monkeypatch, False)
    run.install_packages("Java is missing", run.package_manager().java, yes=True)
    assert [command[:2] for command in system.commands] == [["sudo", "apt-get"]] * 3
    assert [command[-1] for command in system.commands[1:]] == [
        "openjdk-17-jre-headless",
        "openjdk-21-jre-headless",
    ]


def test_nothing_is_installed_without_a_yes(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(run, monkeypatch, "dnf")
    as_root(run, monkeypatch, True)
    monkeypatch.setattr(run.sys.stdin, "isatty", lambda: False)
    with pytest.raises(run.Failure, match=r"--yes.*dnf install -y java"):
        run.install_packages("Java is missing", run.package_manager().java, yes=False)
    assert system.commands == []


def test_without_root_and_sudo_the_command_for_root_is_said(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    System(run, monkeypatch, "apk")
    as_root(run, monkeypatch, False)
    with pytest.raises(run.Failure, match=r"As root: apk add openjdk17"):
        run.install_packages("Java is missing", run.package_manager().java, yes=True)


def test_homebrew_is_never_run_as_root(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(run, monkeypatch, "brew", "sudo")
    as_root(run, monkeypatch, False)
    run.install_packages("Java is missing", run.package_manager().java, yes=True)
    assert system.commands == [["brew", "install", "openjdk@17"]]


def test_spin_and_a_compiler_are_installed_where_they_are_missing(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System(run, monkeypatch, "apt-get")
    as_root(run, monkeypatch, True)
    run.find_or_install_spin(yes=True)
    installed = [command[-1] for command in system.commands if "install" in command]
    assert installed == ["build-essential", "spin"]


def test_spin_that_is_there_is_left_alone(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(run, monkeypatch, "apt-get", "spin", "cc")
    run.find_or_install_spin(yes=True)
    assert system.commands == []


def test_without_a_package_of_spin_its_own_test_speaks(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System(run, monkeypatch, "dnf")
    run.find_or_install_spin(yes=False)
    assert system.commands == []


def test_postgresql_is_installed_for_the_tests_where_no_system_directory_has_it(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "DEBIAN_POSTGRESQL", tmp_path)
    system = System(run, monkeypatch, "apt-get")
    as_root(run, monkeypatch, True)
    run.find_or_install_postgresql(yes=True)
    assert system.commands[-1][-1] == "postgresql"
    (tmp_path / "15" / "bin").mkdir(parents=True)
    (tmp_path / "15" / "bin" / "initdb").touch()
    run.find_or_install_postgresql(yes=True)
    assert len(system.commands) == 2, "it was there"


def test_packages_of_nodes_are_installed_together(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "ROOTS_PROGRAMS", tmp_path)
    monkeypatch.setattr(run, "CNI_BRIDGE", tmp_path / "bridge")
    as_root(run, monkeypatch, True)
    some = System(run, monkeypatch, "apt-get", "runc", "busybox")
    run.find_or_install_nodes(yes=True)
    (installed,) = (command for command in some.commands if "install" in command)
    assert {"containerd", "containernetworking-plugins", "buildah", "skopeo"} <= set(installed)
    (tmp_path / "bridge").touch()
    for name in ("iptables", "nft", "ip"):
        (tmp_path / name).touch()
    whole = System(
        run, monkeypatch, "apt-get", "containerd", "runc", "busybox", "buildah", "skopeo", "mmdebstrap"
    )
    run.find_or_install_nodes(yes=True)
    assert whole.commands == []


@pytest.mark.parametrize(("packaged", "installed"), [((1, 19), []), ((1, 26), ["golang-go"]), ((), [])])
def test_go_is_installed_where_it_is_new_enough_and_else_said_to_be_missing(
    run: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    packaged: tuple[int, ...],
    installed: list[str],
) -> None:
    system = System(run, monkeypatch, "apt-get")
    as_root(run, monkeypatch, True)
    monkeypatch.setattr(run, "kubernetes_problem", lambda: "no Go: set KUBEBUILDER_ASSETS")
    monkeypatch.setattr(run, "packaged_go", lambda: packaged)
    run.find_or_install_go(yes=True)
    assert [command[-1] for command in system.commands if "install" in command] == installed
    assert "no Go: set KUBEBUILDER_ASSETS" in capsys.readouterr().out


def test_a_python_that_is_too_old_can_read_the_file_far_enough_to_say_so() -> None:
    tree = ast.parse(RUN.read_text(), feature_version=(3, 7))
    annotations = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert annotations[0].module == "__future__"
    imported = {name.name for node in tree.body if isinstance(node, ast.Import) for name in node.names}
    assert "argparse" in imported
    assert not imported & {"importlib.metadata", "zoneinfo", "graphlib", "tomllib"}, "it has none of these"


def test_it_says_so(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    System(run, monkeypatch, "python3.12")
    monkeypatch.setattr(run, "OLDEST_PYTHON", (9, 9))
    with pytest.raises(run.Failure, match=r"run it with /bin/python3\.12"):
        run.check_python()
