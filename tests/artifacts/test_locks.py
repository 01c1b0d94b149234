"""Lock files: their format, and that they match the chosen versions."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.artifacts import BUNDLES, Artifact, ArtifactError, resolve
from cooperator.artifacts.lockfile import parse_lock, read_lock, render_lock

part = st.text("abcdefghijklmnopqrstuvwxyz0123456789._-", min_size=1, max_size=12)
artifacts = st.builds(Artifact, part, part, part)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(
    st.lists(st.tuples(artifacts, digests), unique_by=lambda entry: entry[0].file_name, max_size=8).map(dict)
)
def test_a_lock_round_trips(entries: dict[Artifact, str]) -> None:
    assert parse_lock(render_lock(entries)) == entries


@given(st.text())
def test_any_text_is_a_lock_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        parse_lock(text)


@pytest.mark.parametrize(
    "line", ["a:b:1", "a:b " + "0" * 64, "a:b:1 " + "0" * 63, "a::1 " + "0" * 64, "a:b:1 " + "G" * 64]
)
def test_an_error_names_the_line(line: str) -> None:
    with pytest.raises(ValueError, match=r"line 2 (is not|does not have)"):
        parse_lock(f"# made by hand\n{line}\n")


def test_two_artifacts_with_one_file_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"x-1\.jar"):
        render_lock({Artifact("a", "x", "1"): "0" * 64, Artifact("b", "x", "1"): "1" * 64})


@pytest.mark.parametrize("name", list(BUNDLES))
def test_the_lock_belongs_to_the_chosen_versions(name: str) -> None:
    """Fails if a version in bundles.py was changed without new locks."""
    locked = parse_lock(read_lock(name))

    assert set(BUNDLES[name].roots) <= set(locked)
    assert BUNDLES[name].transitive or set(BUNDLES[name].roots) == set(locked)
    assert render_lock(locked) == read_lock(name)


def test_an_unknown_bundle_is_refused_by_name() -> None:
    known = "kafka, connect-3.9, connect-mirror, java-compiler, spark-s3, aws-sdk, postgresql, spark-kafka"
    with pytest.raises(
        ArtifactError, match=f"unknown bundle 'kafak'; did you mean 'kafka'.*use one of {known}"
    ):
        resolve("kafak")
