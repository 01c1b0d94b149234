"""The choice of a Java, and the error if none fits."""

from pathlib import Path

import pytest

from cooperator.artifacts import JavaNotFound, find_java, java, java_home


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java except where a test puts one."""
    monkeypatch.delenv("COOPERATOR_JAVA", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java, "_INSTALL_ROOTS", ((str(tmp_path / "jvm"), "*"),))


def install(home: Path, version: str, *, release_file: bool = True) -> Path:
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    command.chmod(0o755)
    if release_file:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return command


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.2"])
@pytest.mark.parametrize("release_file", [True, False])
def test_supported_versions_are_found(tmp_path: Path, version: str, release_file: bool) -> None:
    command = install(tmp_path / "jvm" / "some", version, release_file=release_file)

    assert find_java() == command
    assert java_home(command) == tmp_path / "jvm" / "some"


def test_an_unsupported_java_home_and_path_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "old", "1.8.0_402").parent.parent))
    newest = install(tmp_path / "newest", "25")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(newest)
    fits = install(tmp_path / "jvm" / "fits", "17.0.1")

    assert find_java() == fits


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = install(tmp_path / "home", "21.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(install(tmp_path / "other", "17.0.1"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))

    assert find_java() == home


def test_the_error_says_what_was_found_and_what_to_install(tmp_path: Path) -> None:
    install(tmp_path / "jvm" / "old", "11.0.2")
    broken = install(tmp_path / "jvm" / "broken", "x", release_file=False)
    broken.write_text("#!/bin/sh\nexit 1\n")

    with pytest.raises(JavaNotFound) as caught:
        find_java()

    for part in ("Java 17 or 21", "old/bin/java (Java 11)", "broken/bin/java (not a working Java)"):
        assert part in str(caught.value)
    for remedy in ("openjdk-17-jre-headless", "java-21-openjdk-headless", "brew install", "COOPERATOR_JAVA"):
        assert remedy in str(caught.value)


@pytest.mark.parametrize("as_home", [True, False])
def test_cooperator_java_names_a_home_or_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_home: bool
) -> None:
    install(tmp_path / "jvm" / "other", "17.0.1")
    command = install(tmp_path / "mine", "21.0.1")
    monkeypatch.setenv("COOPERATOR_JAVA", str(tmp_path / "mine" if as_home else command))

    assert find_java() == command


def test_cooperator_java_is_binding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "jvm" / "fits", "17.0.1")
    monkeypatch.setenv("COOPERATOR_JAVA", str(install(tmp_path / "mine", "11.0.2")))
    with pytest.raises(JavaNotFound, match="Java 11, but Java 17 or 21 is required"):
        find_java()

    monkeypatch.setenv("COOPERATOR_JAVA", str(tmp_path / "nothing"))
    with pytest.raises(JavaNotFound, match="neither a java command nor a directory"):
        find_java()
