"""The Dockerfile as the tests' own builder reads it."""

from pathlib import Path

import pytest

from tests.kubernetes.dockerfile import Bind, UnknownInstruction, read_dockerfile

OURS = Path(__file__).parent.parent.parent / "Dockerfile"


def written(folder: Path, text: str) -> Path:
    path = folder / "Dockerfile"
    path.write_text(text)
    return path


def test_a_stage_has_what_it_is_built_on(tmp_path: Path) -> None:
    stages = read_dockerfile(
        written(
            tmp_path,
            "ARG BASE=debian:x\n"
            "FROM ${BASE} AS lower\n"
            "ENV A=1\n"
            "RUN one \\\n"
            " && two\n"
            "# a word to readers\n"
            "FROM lower AS upper\n"
            "ENV B=2 C=3\n"
            "RUN --mount=type=bind,source=images/a,target=/build/a three\n"
            'ENTRYPOINT ["tini", "--"]\n'
            "USER 7:7\n",
        )
    )
    upper = stages["upper"]
    assert upper.base == "debian:x"
    assert [run.command for run in upper.runs] == ["one && two", "three"]
    assert [dict(run.env) for run in upper.runs] == [{"A": "1"}, {"A": "1", "B": "2", "C": "3"}]
    assert upper.runs[1].binds == (Bind("images/a", "/build/a"),)
    assert (upper.user, upper.entrypoint) == ("7:7", ("tini", "--"))
    assert (stages["lower"].user, len(stages["lower"].runs)) == ("", 1)


@pytest.mark.parametrize(
    "line",
    [
        "COPY a b",
        "ADD a b",
        "RUN --network=none a",
        "ENTRYPOINT a b",
        "SHELL []",
        "USER 5:5\nRUN a",
        "FROM b",
    ],
)
def test_what_it_does_not_know_it_refuses(tmp_path: Path, line: str) -> None:
    with pytest.raises(UnknownInstruction):
        read_dockerfile(written(tmp_path, f"FROM a AS b\n{line}\n"))


@pytest.mark.parametrize("name", ["operator", "worker"])
def test_our_images_are_not_root_and_begin_with_an_init(name: str) -> None:
    target = read_dockerfile(OURS)[name]
    user, _, group = target.user.partition(":")
    assert int(user) >= 10_000
    assert int(group) >= 10_000
    assert target.entrypoint[:2] == ("tini", "--")


@pytest.mark.parametrize(("name", "made_of_code"), [("operator", 0), ("worker", 1)])
def test_code_makes_the_last_layers_only(name: str, made_of_code: int) -> None:
    """Above it is what is made of it: the archive of the worker's classes."""
    runs = read_dockerfile(OURS)[name].runs
    sees_code = ["operator" in {bind.source for bind in run.binds} for run in runs]
    below = len(runs) - 1 - made_of_code
    assert sees_code == [*[False] * below, True, *[False] * made_of_code]
