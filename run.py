#!/usr/bin/env python3
"""One command from a fresh clone: ``python3 run.py demo``, ``check`` or ``tests``.

Needs Python 3.11 or later and nothing else (standard library only). It makes ``.venv`` beside this file,
installs the project there once (again only when ``pyproject.toml`` changes), and finds Java 17 or 21.
It asks before it installs packages of the system; ``--yes`` answers.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "cooperator-installed.json"
OLDEST_PYTHON = (3, 11)
GO_FOR_KUBERNETES = (1, 26)
ROOTS_PROGRAMS = Path("/usr/sbin")
CNI_BRIDGE = Path("/usr/lib/cni/bridge")
DEBIAN_POSTGRESQL = Path("/usr/lib/postgresql")
"""Where Debian keeps PostgreSQL's programs, off the PATH, by version."""
FOR_TESTS = {"spark", "s3", "spark-connect", "kubernetes", "test"}


class Failure(Exception):
    """Ends the run; the message says what to do."""


@dataclass(frozen=True)
class PackageManager:
    """A system's package manager. ``java``: packages that bring a Java we support, best first.
    ``spin``, ``compiler``: packages for the formal model (docs/spec); empty where there is no spin.
    ``postgresql``: the database that the tests start for themselves.
    ``nodes``: packages for tests on real Kubernetes nodes; ``go``: one that brings Go."""

    command: str
    install: tuple[str, ...]
    java: tuple[str, ...]
    refresh: tuple[str, ...] = ()
    as_root: bool = True
    spin: tuple[str, ...] = ()
    compiler: tuple[str, ...] = ()
    postgresql: tuple[str, ...] = ("postgresql-server", "postgresql")
    nodes: str = ""
    go: str = ""


MANAGERS = (
    PackageManager(
        "apt-get",
        ("apt-get", "install", "-y", "--no-install-recommends"),
        ("openjdk-17-jre-headless", "openjdk-21-jre-headless"),
        refresh=("apt-get", "update", "-q"),
        spin=("spin",),
        compiler=("build-essential",),
        postgresql=("postgresql",),
        nodes="containerd runc iptables nftables iproute2 containernetworking-plugins busybox-static "
        "buildah skopeo mmdebstrap",
        go="golang-go",
    ),
    PackageManager("dnf", ("dnf", "install", "-y"), ("java-21-openjdk-headless", "java-17-openjdk-headless")),
    PackageManager("yum", ("yum", "install", "-y"), ("java-17-openjdk-headless", "java-21-openjdk-headless")),
    PackageManager(
        "zypper", ("zypper", "-n", "install"), ("java-17-openjdk-headless", "java-21-openjdk-headless")
    ),
    PackageManager("apk", ("apk", "add"), ("openjdk17-jre-headless", "openjdk21-jre-headless")),
    PackageManager(
        "pacman", ("pacman", "-S", "--noconfirm"), ("jre17-openjdk-headless", "jre21-openjdk-headless")
    ),
    PackageManager(
        "brew",
        ("brew", "install"),
        ("openjdk@17", "openjdk@21"),
        as_root=False,
        spin=("spin",),
        compiler=("gcc",),
        postgresql=("postgresql@17", "postgresql@16"),
    ),
)


def main(arguments: list[str]) -> NoReturn:
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "what",
        choices=("demo", "check", "tests"),
        help="the main job on real input; checks for every save; or all that decides about a change",
    )
    parser.add_argument("--yes", action="store_true", help="install what is missing without asking")
    options, rest = parser.parse_known_args(arguments)
    try:
        check_python()
        make_venv(options.yes)
        install_project({"spark"} if options.what == "demo" else FOR_TESTS)
        find_or_install_java(options.yes)
        if options.what == "tests":
            find_or_install_spin(options.yes)
            find_or_install_postgresql(options.yes)
            find_or_install_nodes(options.yes)
            find_or_install_go(options.yes)
    except Failure as failure:
        print(f"run.py: {failure}", file=sys.stderr)
        sys.exit(1)
    os.chdir(ROOT)
    sys.stdout.flush()
    if options.what == "demo":
        os.execv(VENV / "bin" / "cooperator", ["cooperator", "demo", *rest])
    # The path, too: by it, Python finds the packages of its environment.
    os.execv(VENV / "bin" / "python", [str(VENV / "bin" / "python"), "-m", "tests", options.what, *rest])


def say(text: str) -> None:
    print(f"==> {text}", flush=True)


def check_python() -> None:
    if os.name != "posix":
        raise Failure(
            "this system has no process groups; use Linux, macOS or the Windows Subsystem for Linux"
        )
    if sys.version_info < OLDEST_PYTHON:
        newer = list(filter(None, (shutil.which(f"python3.{minor}") for minor in range(11, 20))))
        remedy = f"run it with {newer[-1]}" if newer else "install a newer one"
        raise Failure(f"Python 3.11 or later is needed, this is {sys.version.split()[0]}: {remedy}")


# --- the environment ------------------------------------------------------------------------------------


def make_venv(yes: bool) -> None:
    if venv_works():
        return
    if importlib.util.find_spec("ensurepip") is None:
        # Debian and Ubuntu cut it out of Python and put it into a package of its own.
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        install_packages("pip's installer (ensurepip) for this Python", (f"python{version}-venv",), yes)
    say(f"making {VENV.relative_to(ROOT)}")
    run([sys.executable, "-m", "venv", "--clear", str(VENV)], f"{VENV} could not be made")


def venv_works() -> bool:
    python = VENV / "bin" / "python"
    if not python.exists():
        return False
    check = f"import sys, pip; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    return subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0


def install_project(extras: set[str]) -> None:
    """Install the project editable, with all extras ever asked for; nothing when that was done already."""
    wanted = {
        "pyproject": hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest(),
        "root": str(ROOT),
    }
    try:
        done = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        done = {}
    had = set(done.pop("extras", ()))
    if done == wanted and extras <= had:
        return
    extras = extras | had
    say("installing the project and what it needs (the first time some 600 MB are downloaded)")
    project = f"{ROOT}[{','.join(sorted(extras))}]"
    run(
        [str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "-e", project],
        "pip failed: see above; check the network or pip's settings and run this again (downloads are kept)",
    )
    STAMP.write_text(json.dumps({**wanted, "extras": sorted(extras)}))


def find_or_install_java(yes: bool) -> None:
    problem = java_problem()
    if problem is None:
        return
    manager = package_manager()
    if os.environ.get("COOPERATOR_JAVA") or manager is None:
        raise Failure(problem)
    install_packages(problem.split(". ")[0], manager.java, yes)
    problem = java_problem()
    if problem is not None:
        raise Failure(problem)


def java_problem() -> str | None:
    """Returns why there is no fitting Java; None when there is one."""
    code = (
        "from cooperator.artifacts import JavaNotFound, find_java\n"
        "try: find_java()\n"
        "except JavaNotFound as error: print(error)"
    )
    result = subprocess.run(
        [VENV / "bin" / "python", "-c", code], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise Failure(
            f"the installation in {VENV} is damaged; remove that folder and run this again\n{result.stderr}"
        )
    return result.stdout.strip() or None


def find_or_install_spin(yes: bool) -> None:
    """Packages that check the formal model. Without spin, its test fails and names the remedy."""
    manager = package_manager()
    if manager is None or not manager.spin:
        return
    if not any(shutil.which(name) for name in ("gcc", "cc", "clang")):
        install_packages("a C compiler was not found (spin needs it)", manager.compiler, yes)
    if not shutil.which("spin"):
        install_packages("spin was not found (it checks the formal model, docs/spec)", manager.spin, yes)


def find_or_install_postgresql(yes: bool) -> None:
    """The tests of connectors to databases run a server of their own; it need not be running."""
    manager = package_manager()
    if shutil.which("initdb") or any(DEBIAN_POSTGRESQL.glob("*/bin/initdb")) or manager is None:
        return
    install_packages("PostgreSQL was not found (tests start it)", manager.postgresql, yes)


def find_or_install_nodes(yes: bool) -> None:
    """Packages for real Kubernetes nodes. Without them, the tests fail and report what is missing."""
    manager = package_manager()
    if manager is None or not manager.nodes:
        return
    needed = ("containerd", "runc", "iptables", "nft", "ip", "busybox", "buildah", "skopeo", "mmdebstrap")
    # Some are for root, whose folders a user's PATH need not name.
    missing = [name for name in needed if not shutil.which(name) and not (ROOTS_PROGRAMS / name).exists()]
    if not CNI_BRIDGE.exists():
        missing.append("CNI's plugins")
    if missing:
        install_packages(f"for tests on Kubernetes nodes: no {', '.join(missing)}", (manager.nodes,), yes)


def find_or_install_go(yes: bool) -> None:
    """Kubernetes' programs and helm are built with it, once, where nothing else has them."""
    problem = kubernetes_problem()
    if problem is None:
        return
    manager = package_manager()
    if manager is not None and manager.go and packaged_go() >= GO_FOR_KUBERNETES:
        install_packages(problem, (manager.go,), yes)
    else:
        # The rest of the tests is worth running.
        say(f"tests on Kubernetes and of the charts will fail: {problem}")


def kubernetes_problem() -> str | None:
    """Returns why tests could not get Kubernetes' programs and helm; None when they can."""
    code = (
        "from tests.kubernetes import binaries, helm\n"
        "print('; '.join(filter(None, (binaries.problem(), helm.problem()))))"
    )
    result = subprocess.run(
        [VENV / "bin" / "python", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return result.stdout.strip() or None


def packaged_go() -> tuple[int, ...]:
    """The version of Go that apt would install; () when there is none."""
    listed = subprocess.run(["apt-cache", "policy", "golang-go"], capture_output=True, text=True, check=False)
    match = re.search(r"Candidate: (?:\d+:)?(\d+)\.(\d+)", listed.stdout)
    return (int(match[1]), int(match[2])) if match else ()


# --- the system's packages ------------------------------------------------------------------------------


def package_manager() -> PackageManager | None:
    return next((manager for manager in MANAGERS if shutil.which(manager.command)), None)


def install_packages(missing: str, alternatives: tuple[str, ...], yes: bool) -> None:
    """Install the first of ``alternatives`` that the system has, after saying so and asking.

    An alternative is a package, or several with spaces between them.
    """
    manager = package_manager()
    if manager is None:
        raise Failure(f"{missing}; no package manager was found that could install {alternatives[0]}")
    root = ["sudo"] if manager.as_root and os.geteuid() != 0 else []
    commands = [[*root, *manager.install, *packages.split()] for packages in alternatives]
    by_hand = " ".join(commands[0])
    if root and shutil.which("sudo") is None:
        raise Failure(f"{missing}. As root: {' '.join(commands[0][1:])}")
    say(f"{missing}")
    if not yes:
        if not sys.stdin.isatty():
            raise Failure(f"run this again with --yes to install it, or do it yourself: {by_hand}")
        if input(f"    Install it by `{by_hand}`? [y/N] ").strip().lower() not in ("y", "yes"):
            raise Failure(f"do it yourself, then run this again: {by_hand}")
    say(by_hand)
    if manager.refresh:
        subprocess.run([*root, *manager.refresh], check=False)
    for command in commands:
        if subprocess.run(command, check=False).returncode == 0:
            return
    raise Failure(f"that failed: install {' or '.join(alternatives)} yourself and run this again")


def run(command: list[str], otherwise: str) -> None:
    if subprocess.run(command, check=False).returncode:
        raise Failure(otherwise)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
