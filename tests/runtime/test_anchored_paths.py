"""Relative paths in a configuration are made absolute at the directory of its manifest."""

from pathlib import Path

from cooperator.connectors import anchor


def test_paths_in_options_of_source_and_sink_are_anchored_where_they_are_paths(tmp_path: Path) -> None:
    units = '[{"source.options.path": "a"}, {"sink.options.path": "/b"}]'
    config = {
        "source.format": "json",
        "sink.format": "rest",
        "source.options.path": "../in/*.json",
        "source.options.sourceArchiveDir": "done",
        "source.options.pathGlobFilter": "*.json",
        "sink.options.path": "items/all",
        "sink.options.table": "items/all",
        "units": units,
    }
    assert anchor("spark", config, tmp_path) == {
        **config,
        "source.options.path": f"{tmp_path.parent}/in/*.json",
        "source.options.sourceArchiveDir": f"{tmp_path}/done",
        "sink.options.path": f"{tmp_path}/items/all",
        "units": f'[{{"source.options.path": "{tmp_path}/a"}}, {{"sink.options.path": "/b"}}]',
    }
    for unchanged in ({"units": "["}, {"units": '[{"source.options.path": "/a"}]'}, {"source.format": "x"}):
        assert anchor("spark", {**config, **unchanged}, tmp_path).items() >= unchanged.items()


def test_local_paths_are_anchored_at_the_manifest_and_nothing_else_is(tmp_path: Path) -> None:
    config = {"path": "./data", "topic": "lines"}
    assert anchor("files-to-kafka", config, tmp_path) == {"path": f"{tmp_path}/data", "topic": "lines"}
    for unchanged in ("/data", "s3a://bucket/data", "file:/data", "${env:DATA}"):
        assert anchor("files-to-kafka", {"path": unchanged}, tmp_path) == {"path": unchanged}
