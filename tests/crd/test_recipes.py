"""The first lines of a recipe name everything that a user has to edit."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.recipes import FILES, Recipe, values

IN_EVERY_CLUSTER = "k8s://https://kubernetes.default.svc"
LOCATION = re.compile(r"[\w.-]+:\d+|https?://.+|s3a://.+|/tmp/.+")
OWN_KINDS = {"Worker", "Secret", "PersistentVolumeClaim", "ServiceAccount"}
REFERENCES = {
    ("secretRef", "name"): "Secret",
    ("caSecretRef", "name"): "Secret",
    ("claimName",): "PersistentVolumeClaim",
    ("persistentVolumeClaim", "claimName"): "PersistentVolumeClaim",
    ("serviceAccountName",): "ServiceAccount",
    ("workerRef", "name"): "Worker",
    ("scaleTargetRef", "name"): "Worker",
}
OF_A_CLUSTER = {
    ("storageClassName",),
    ("groupId",),
    *(("topics", each) for each in ("config", "offset", "status")),
}


def made(folder: Path) -> set[tuple[str, str]]:
    """Kinds and names of the objects, and the topics that its connectors write."""
    manifests = [each for path in folder.glob("*.yaml") for each in Recipe(path).manifests]
    objects = {(each["kind"], each["metadata"]["name"]) for each in manifests}
    configs = [each["spec"]["config"] for each in manifests if each["kind"] == "Connector"]
    return objects | {("Topic", config["topic"]) for config in configs if "topic" in config}


def missing(path: Path) -> Iterator[str]:
    """Yields what the recipe refers to, and neither it nor a file beside it makes."""
    there = made(path.parent)
    for manifest in Recipe(path).manifests:
        for keys, value in values(manifest):
            if kind := REFERENCES.get(keys[-2:]) or REFERENCES.get(keys[-1:]):
                if (kind, value) not in there:
                    yield value
            elif keys[-2:] == ("config", "topics"):
                yield from (topic for topic in value.split(",") if ("Topic", topic) not in there)
            elif keys[-1:] in OF_A_CLUSTER or keys[-2:] in OF_A_CLUSTER:
                yield value
            elif LOCATION.fullmatch(value) and value != IN_EVERY_CLUSTER:
                yield value.removeprefix("s3a://").partition("/")[0] if value.startswith("s3a://") else value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_first_lines_name_what_has_to_be_edited(path: Path) -> None:
    assert set(missing(path)) == Recipe(path).placeholders


def test_a_recipe_that_does_not_say_so_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("# A Worker.\nkind: Worker\n")
    with pytest.raises(ValueError, match="begin the first line with '# Edit first: '"):
        Recipe(file)


def test_an_edited_recipe_has_the_new_names_and_no_old_one(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "# Edit first: `lake`, a bucket;\n#   `kafka:9092`.\n#\n# More: `no`.\n"
        "x: [s3a://lake/a, lake-b, kafka:9092]\n"
    )
    recipe = Recipe(file)
    assert recipe.placeholders == {"lake", "kafka:9092"}
    [edited] = recipe.edited({"lake": "pond", "kafka:9092": "broker:1"})
    assert edited == {"x": ["s3a://pond/a", "lake-b", "broker:1"]}
    found: list[Any] = [value for _, value in values(edited)]
    assert found == ["s3a://pond/a", "lake-b", "broker:1"]
