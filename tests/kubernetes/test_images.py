"""The Dockerfile is one that buildah keeps layers of, and whose images are fit for restricted pods."""

import re

import pytest

from tests.kubernetes.images import BELOW, ROOT

TEXT = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
STAGES = {
    name: (below, text.splitlines())
    for below, name, text in re.findall(r"^FROM (\S+) AS (\S+)$(.*?)(?=^FROM |\Z)", TEXT, re.M | re.S)
}


def lines_of(stage: str) -> list[str]:
    """All instructions of a stage, those of the stages below it first."""
    if stage not in STAGES:
        return []
    below, own = STAGES[stage]
    return [*lines_of(below), *own]


def test_no_step_sees_what_buildah_does_not_look_at() -> None:
    instructions = [line for line in TEXT.splitlines() if not line.startswith("#")]
    assert [line for line in instructions if "--mount" in line] == [], "changes there make no new layer"


@pytest.mark.parametrize("name", BELOW)
def test_code_is_not_in_the_images_that_a_change_of_it_leaves_as_they_are(name: str) -> None:
    stage = name.rpartition("/")[2].partition(":")[0]
    copies = [line for line in lines_of(stage) if line.startswith("COPY ")]
    assert copies
    assert all(re.match(r"COPY --from=(requirements|resolved) ", copy) for copy in copies)


@pytest.mark.parametrize("stage", ["operator", "worker"])
def test_our_images_are_not_root_and_begin_with_an_init(stage: str) -> None:
    lines = lines_of(stage)
    user = [line for line in lines if line.startswith("USER ")][-1]
    assert all(int(number) >= 10_000 for number in user.removeprefix("USER ").split(":"))
    entry = [line for line in lines if line.startswith("ENTRYPOINT ")][-1]
    assert entry.startswith('ENTRYPOINT ["tini", "--", ')
