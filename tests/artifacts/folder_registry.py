"""A directory that serves as a registry, and Ivy's settings for it: no network."""

from pathlib import Path

import pytest

from cooperator.artifacts import Artifact


def folder_registry(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of an empty registry below ``directory``."""
    root = directory / "registry"
    settings = directory / "mirror.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        f'<ibiblio name="mirror" root="file://{root}/" m2compatible="true" usepoms="${{cooperator.poms}}"/>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("COOPERATOR_IVY_SETTINGS", str(settings))
    return root


def publish(root: Path, artifact: Artifact, content: bytes) -> Path:
    """Publishes an artifact; returns its directory."""
    folder = root.joinpath(*artifact.group.split("."), artifact.name, artifact.version)
    folder.mkdir(parents=True)
    (folder / artifact.file_name).write_bytes(content)
    return folder
